package kill

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
)

// What is known of an operation that may have been executed.
const no, maybe, yes = verify.No, verify.Maybe, verify.Yes

// killItem is an item whose birth was acknowledged, as it must be by the
// answers so far.
type killItem struct {
	id     mayfly.ID
	draft  workerDraft
	upload mayfly.ID

	deleted, held verify.Answer
	failed        bool           // an answer was an error that leaves it open what was done
	serves        mayfly.Instant // until when a restore that was acknowledged brought it back
	servesMaybe   mayfly.Instant // the same of one that may have happened
	touched       bool           // it was ever held or restored, or may have been
}

// sure is until when its author reads it whatever the walks have done.
func (i *killItem) sure() mayfly.Instant {
	if i.draft.Purge {
		return i.id.Deadline()
	}
	return max(i.id.Deadline().Add(workerRetire), i.serves)
}

// there says that at at its row and its bytes must be there.
func (i *killItem) there(at mayfly.Instant) bool {
	return i.deleted == no && (i.held == yes || i.held == no && at < i.sure())
}

// end is when it stops serving; latest, if the restore in doubt happened.
func (i *killItem) end() mayfly.Instant    { return max(i.id.Deadline(), i.serves) }
func (i *killItem) latest() mayfly.Instant { return max(i.end(), i.servesMaybe) }

// expected is the expected state: what was acknowledged, and what may have
// happened. It judges every answer as it comes.
type expected struct {
	items  map[mayfly.ID]*killItem
	keys   map[string]mayfly.ID    // of acknowledged births, by idempotency key
	open   map[string]workerDraft  // births whose outcome is not known, by text
	stray  map[mayfly.ID]int       // uploads that no acknowledged item owns, and how many media each may have left
	flying map[int64]*workerIntent // of the worker that runs

	acknowledged, refused, failed int
	inFlight                      map[string]int // at kills, by verb
	count                         verify.Tally
	why                           []string // the first operations that failed
}

func newExpected() *expected {
	return &expected{
		items: map[mayfly.ID]*killItem{}, keys: map[string]mayfly.ID{}, open: map[string]workerDraft{},
		stray: map[mayfly.ID]int{}, flying: map[int64]*workerIntent{}, inFlight: map[string]int{},
	}
}

// line takes one line of the worker.
func (b *expected) line(text []byte) error {
	var l workerLine
	if err := json.Unmarshal(text, &l); err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	switch {
	case l.Intent != nil:
		b.intend(l.Intent)
	case l.Answer != nil && b.flying[l.Answer.N] != nil:
		in := b.flying[l.Answer.N]
		delete(b.flying, l.Answer.N)
		b.answer(in, l.Answer)
	default:
		return fmt.Errorf("%q answers nothing", text)
	}
	return nil
}

func (b *expected) intend(in *workerIntent) {
	b.flying[in.N] = in
	if in.Verb == workerPublish {
		b.stray[in.Upload] = len(in.Draft.Sizes)
		if _, known := b.keys[in.Draft.Key]; !known {
			b.open[in.Draft.Text] = *in.Draft
		}
	}
}

// killed takes note of what was in flight: each may have happened or not, and
// nothing of it happens later.
func (b *expected) killed() (inFlight int) {
	for _, in := range b.flying {
		b.inFlight[in.Verb]++
		b.doubt(in)
	}
	inFlight = len(b.flying)
	clear(b.flying)
	return inFlight
}

// doubt is for an operation whose outcome is not known.
func (b *expected) doubt(in *workerIntent) {
	i := b.items[in.ID]
	if i == nil {
		return // a birth: it is open
	}
	switch in.Verb {
	case workerDelete:
		i.deleted = max(i.deleted, maybe)
	case workerHold:
		i.held, i.touched = max(i.held, maybe), true
	case workerRelease:
		i.held, i.touched = min(i.held, maybe), true
	case workerBringBack:
		i.servesMaybe, i.touched = max(i.servesMaybe, in.Until), true
	}
}

func (b *expected) answer(in *workerIntent, a *workerAnswer) {
	switch a.Kind {
	case "":
		b.acknowledged++
	case mayfly.NotFound.String(), mayfly.Gone.String(), mayfly.Conflict.String(), mayfly.Invalid.String():
		b.refused++
	default:
		b.fail(in, a)
		return
	}
	if in.Verb == workerPublish {
		b.published(in, a)
		return
	}
	i := b.items[in.ID]
	if i == nil {
		b.count.Add(verify.Double, "an operation on %s, which was not published", in.ID)
		return
	}
	switch {
	case in.Verb == workerRead:
		b.read(i, in, a)
	case a.Kind != "":
		b.refuse(i, in, a)
	default:
		b.done(i, in)
	}
}

// fail is for an error that leaves open what was done.
func (b *expected) fail(in *workerIntent, a *workerAnswer) {
	b.failed++
	if len(b.why) < 5 {
		b.why = append(b.why, in.Verb+": "+a.Error)
	}
	if a.Kind == mayfly.Corrupt.String() {
		b.count.Add(verify.Lost, "%s %s: %s", in.Verb, in.ID, a.Error)
	}
	if i := b.items[in.ID]; i != nil && in.Verb != workerRead {
		i.failed = true
		b.doubt(in)
	}
}

func (b *expected) published(in *workerIntent, a *workerAnswer) {
	d := *in.Draft
	if a.Kind != "" {
		if id, known := b.keys[d.Key]; known && b.items[id].there(a.At) {
			b.count.Add(verify.Lost, "published again, %s was refused: %s", id, a.Error)
		}
		return // its first birth may still be there, or come
	}
	delete(b.open, d.Text)
	delete(b.stray, in.Upload) // it is owned, or was dropped for the one that is
	delete(b.stray, a.Upload)
	if id, known := b.keys[d.Key]; known && id != a.ID {
		b.count.Add(verify.Double, "%q was published as %s and as %s", d.Key, id, a.ID)
	}
	if b.items[a.ID] == nil {
		b.items[a.ID] = &killItem{id: a.ID, draft: d, upload: a.Upload}
	}
	if d.Key != "" {
		b.keys[d.Key] = a.ID
	}
}

// done is for an operation that was acknowledged.
func (b *expected) done(i *killItem, in *workerIntent) {
	switch in.Verb {
	case workerDelete:
		i.deleted = yes
	case workerHold:
		i.held, i.touched = yes, true
	case workerRelease:
		i.held, i.touched = no, true
	case workerBringBack:
		if i.deleted == yes {
			b.count.Add(verify.Resurrected, "%s is deleted, and a restore brought it back", i.id)
		}
		if i.held == yes {
			b.count.Add(verify.Leak, "%s is held, and a restore brought it back", i.id)
		}
		i.serves, i.touched = max(i.serves, in.Until), true
	}
}

// refuse is for one that was refused: only what is there no more is not there.
func (b *expected) refuse(i *killItem, in *workerIntent, a *workerAnswer) {
	absent := a.Kind == mayfly.NotFound.String() || a.Kind == mayfly.Gone.String()
	if absent && i.there(a.At) && !i.failed {
		b.count.Add(verify.Lost, "%s of %s: %s", in.Verb, i.id, a.Error)
	}
}

func (b *expected) read(i *killItem, in *workerIntent, a *workerAnswer) {
	if a.Kind != "" {
		switch {
		case i.failed || i.deleted != no || i.held != no:
		case !in.Stranger && i.there(a.At):
			b.count.Add(verify.Lost, "its author cannot read %s at %s: %s", i.id, a.At, a.Error)
		case in.Stranger && a.At < i.end():
			b.count.Add(verify.Early, "%s serves until %s, and was refused at %s: %s", i.id, i.end(), a.At, a.Error)
		}
		return
	}
	switch {
	case i.deleted == yes:
		b.count.Add(verify.Resurrected, "%s is deleted, and was read at %s", i.id, in.At)
	case i.held == yes:
		b.count.Add(verify.Leak, "%s is held, and was read at %s", i.id, in.At)
	case in.Stranger && in.At >= i.latest():
		b.count.Add(verify.Late, "%s ended at %s, and a stranger read it at %s", i.id, i.latest(), in.At)
	case !slices.Equal(a.Media, i.draft.hashes()):
		b.count.Add(verify.Lost, "%s was read at %s, and is not what was published", i.id, in.At)
	}
	if !i.failed { // what a kill broke off has not happened, and will not
		i.deleted, i.held = no, no
	}
}

// known returns the lines that a new worker reads: some items, and births that are
// to be tried again by their keys.
func (b *expected) known(most int) (lines []string, err error) {
	var all []*killItem
	for _, i := range b.items {
		if i.deleted != yes || i.held != no {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(x, y *killItem) int { return x.id.Compare(y.id) })
	// The youngest, and as many again that have been held for longest: they are
	// released when all walks have passed them.
	older := all[:max(0, len(all)-most)]
	all = all[len(older):]
	for _, i := range older {
		if i.held != no && len(all) < 2*most {
			all = append(all, i)
		}
	}
	var known []workerKnown
	for _, i := range all {
		known = append(known, workerKnown{ID: i.id, Owner: i.draft.Owner, Held: i.held != no})
	}
	for _, d := range b.open {
		if d.Key != "" {
			known = append(known, workerKnown{Again: &d})
		}
	}
	for _, k := range known {
		text, err := json.Marshal(k)
		if err != nil {
			return nil, err
		}
		lines = append(lines, string(text))
	}
	return lines, nil
}

// flight is what was in flight at the kills, in words.
func (b *expected) flight() string {
	var parts []string
	total := 0
	for _, verb := range []string{workerPublish, workerRead, workerDelete, workerBringBack, workerHold, workerRelease} {
		parts = append(parts, fmt.Sprintf("%s %d", verb, b.inFlight[verb]))
		total += b.inFlight[verb]
	}
	return fmt.Sprintf("%d (%s)", total, strings.Join(parts, ", "))
}

// settleTime is how long after its end an item may still be on its way.
const settleTime = 10 * time.Second
