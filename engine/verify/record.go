package verify

import (
	"context"
	"slices"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Answer says what a client knows of an operation.
type Answer uint8

// What a client knows.
const (
	No    Answer = iota // it was not asked for, or refused
	Maybe               // the answer did not come
	Yes                 // it was acknowledged
)

// Expected is what a client knows of an item whose birth was acknowledged.
type Expected struct {
	Text    *string        // what was published; nil is not compared
	Media   [][32]byte     // SHA-256 of the media as they are served; nil is not compared
	Until   mayfly.Instant // until when a row is there for certain, unless it is deleted; 0 is for ever
	State   mayfly.State   // where it must be by now; 0 is not compared
	Deleted Answer
	Held    Answer

	Moving      bool // a step of it may have been cut off: its objects and the events of its end are not compared
	Unannounced bool // the event of its birth may be missing: a reminder will append it
	Ends        int  // how many expiries and archivings the log has at least, once it is cold; 0 counts as 1
}

// Read is one answer that a client got when it opened an item for a viewer who may
// see it while it serves.
type Read struct {
	ID       mayfly.ID
	Asked    mayfly.Instant // before the request was sent
	Answered mayfly.Instant // after the answer came
	Served   bool
}

// Record is what clients know. Each item that was acknowledged must be in the store;
// each item in the store must be acknowledged, or belong to an operation whose
// answer did not come.
type Record struct {
	Since mayfly.Instant // what was born before belongs to others and is not compared
	Items map[mayfly.ID]Expected
	Reads []Read

	Unanswered int                         // births whose answer did not come: as many rows may be unknown
	MayBe      func(body mayfly.Body) bool // whether an unknown row may be of such a birth; nil: any
	Unfinished int                         // objects that broken uploads may have left
	Broken     func(upload mayfly.ID) bool // whether an upload is a broken one; nil: any
}

// expected compares a row with what its client knows.
func (c *check) expected(item mayfly.Item, body store.FoundBody) {
	if c.o.Record == nil || item.ID.Birth() < c.o.Record.Since {
		return
	}
	c.seen[item.ID] = item.Generation
	e, known := c.o.Record.Items[item.ID]
	if !known {
		c.unknown(item, body)
		return
	}
	gone := item.State == mayfly.Deleted
	switch {
	case e.Deleted == Yes && !gone:
		c.find(Resurrected, item.ID, "it was deleted, and is %s", item.State)
	case e.Deleted == No && gone && item.Cause != mayfly.ByExpiry && (e.Until == 0 || c.o.Now < e.Until):
		c.find(Lost, item.ID, "it is deleted by %s, and no client asked for that", item.Cause)
	case gone && item.Cause == mayfly.ByExpiry && item.Fate != mayfly.Purge:
		c.find(Lost, item.ID, "its expiry deleted it, and its fate is %s", item.Fate)
	case e.Held == Yes && !item.Held:
		c.find(Lost, item.ID, "its hold was acknowledged and is gone")
	case e.State != 0 && item.State != e.State && e.Deleted == No && !item.Held:
		c.find(Late, item.ID, "it is %s, and should be %s by now", item.State, e.State)
	case e.Held == No && item.Held:
		c.find(Late, item.ID, "it was released, and is held")
	}
	if gone && !item.Held || !body.Found {
		return
	}
	if e.Text != nil && body.Body.Text != *e.Text {
		c.find(Lost, item.ID, "its text is not what was published: %.60q", body.Body.Text)
	}
	if e.Media != nil {
		got := make([][32]byte, len(body.Body.Media))
		for i, m := range body.Body.Media {
			got[i] = m.SHA256
		}
		if !slices.Equal(got, e.Media) {
			c.find(Lost, item.ID, "its %d media are not the %d that were published", len(got), len(e.Media))
		}
	}
}

// unknown checks a row that no client knows of.
func (c *check) unknown(item mayfly.Item, body store.FoundBody) {
	r := c.o.Record
	if body.Found && r.MayBe != nil && !r.MayBe(body.Body) {
		c.find(Double, item.ID, "no client published it, or it was published twice: %.60q", body.Body.Text)
		return
	}
	c.unanswered(item.ID)
}

// unanswered counts a row, or events without a row, that no client knows of.
func (c *check) unanswered(id mayfly.ID) {
	if c.report.Unanswered++; c.report.Unanswered > c.o.Record.Unanswered {
		c.find(Double, id, "no client knows of it, and only %d births were not answered", c.o.Record.Unanswered)
	}
}

// missing looks for what was acknowledged and has no row, and judges the reads.
func (c *check) missing(context.Context) error {
	r := c.o.Record
	if r == nil {
		return nil
	}
	for id, e := range r.Items {
		if _, found := c.seen[id]; !found && (e.Held == Yes || e.Deleted == No && (e.Until == 0 || c.o.Now < e.Until)) {
			c.find(Lost, id, "it was acknowledged and has no row")
		}
		if c.o.Group != "" {
			c.announced(id)
		}
	}
	for id := range c.logged {
		_, found := c.seen[id]
		if _, known := r.Items[id]; !found && !known && id.Birth() >= r.Since {
			c.unanswered(id)
		}
	}
	for _, read := range r.Reads {
		e := r.Items[read.ID]
		switch end := read.ID.Deadline(); {
		case read.Served && read.ID.Expires() && read.Asked >= end:
			c.find(Late, read.ID, "it was served %s after its deadline", read.Asked.Sub(end))
		case !read.Served && (!read.ID.Expires() || read.Answered < end) && e.Deleted == No && e.Held == No:
			c.find(Early, read.ID, "it was refused %s before its deadline", end.Sub(read.Answered))
		}
	}
	return nil
}

func (c *check) announced(id mayfly.ID) {
	created := 0
	for _, e := range c.logged[id] {
		if e.Verb == mayfly.WasCreated {
			created++
		}
	}
	switch {
	case created == 0 && !c.o.Record.Items[id].Unannounced:
		c.find(Lost, id, "the log has no event of its birth")
	case created > 1:
		c.find(Double, id, "the log has %d births of it", created)
	}
}
