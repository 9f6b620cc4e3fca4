//go:build servers

package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
)

// events are the topics as a consumer reads them: once by key.
type events struct {
	all     map[mayfly.EventKey]mayfly.Event
	records int // with those that came twice
}

// follow reads both streams as a group of its own, what concerns items born since
// an instant, until it has read enough. When the context ends it returns
// what there was.
func follow(ctx context.Context, log store.Log, since mayfly.Instant, enough func(*events) bool) (*events, error) {
	e := &events{all: map[mayfly.EventKey]mayfly.Event{}}
	group := "audit-" + newName()
	var readers []store.Reader
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		r, err := log.Reader(ctx, stream, group+"-"+stream.String())
		if err != nil {
			return e, err
		}
		defer func() { _ = r.Close() }() // nothing is kept of its place
		readers = append(readers, r)
	}
	for {
		for _, r := range readers {
			if err := e.catchUp(ctx, r, since); err != nil && ctx.Err() == nil {
				return e, err
			}
		}
		if enough(e) || ctx.Err() != nil {
			return e, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// catchUp reads until there is nothing more.
func (e *events) catchUp(ctx context.Context, r store.Reader, since mayfly.Instant) error {
	for {
		lag, err := r.Lag(ctx)
		if err != nil || lag == 0 {
			return err
		}
		records, err := r.Next(ctx, 500)
		if err != nil {
			return err
		}
		for _, rec := range records {
			if rec.Event.ID.Birth() >= since {
				e.records++
				e.all[rec.Event.Key()] = rec.Event
			}
		}
	}
}

// byItem are the events of each item by verb.
func (e *events) byItem() map[mayfly.ID]map[mayfly.Verb][]mayfly.Event {
	by := map[mayfly.ID]map[mayfly.Verb][]mayfly.Event{}
	for _, one := range e.all {
		if by[one.ID] == nil {
			by[one.ID] = map[mayfly.Verb][]mayfly.Event{}
		}
		by[one.ID][one.Verb] = append(by[one.ID][one.Verb], one)
	}
	return by
}

// expiries are how late hard expiry was, sorted.
func (e *events) expiries() []time.Duration {
	var all []time.Duration
	for _, one := range e.all {
		if one.Verb == mayfly.WasExpired {
			all = append(all, one.At.Sub(one.ID.Deadline()))
		}
	}
	slices.Sort(all)
	return all
}

func (e *events) lags() string {
	all := e.expiries()
	if len(all) == 0 {
		return "nothing expired"
	}
	return fmt.Sprintf("%s median, %s at p99, %s at most, of %d; %d records for %d events",
		all[len(all)/2], all[len(all)*99/100], all[len(all)-1], len(all), e.records, len(e.all))
}

// readEvents reads the log until it has every event that the record asks for, or for as
// long as that may take: reminders stand in for what could not be said (L15).
func (a *audit) readEvents() {
	a.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), a.longer)
	defer cancel()
	var err error
	if a.events, err = follow(ctx, a.store.Set.Log, a.began, func(e *events) bool { return len(a.missing(e)) == 0 }); err != nil {
		a.Fatal(err)
	}
}

// missing returns the events that the stories of the record should have, and have not:
// each was announced, and deleted or, if its time is over, expired and archived.
func (a *audit) missing(e *events) (missing []string) {
	by := e.byItem()
	for _, n := range a.record.all() {
		over := !n.deleting && n.deadline.Before(a.at)
		for verb, want := range map[mayfly.Verb]bool{
			mayfly.WasCreated: true, mayfly.WasDeleted: !n.deleted.IsZero(), mayfly.WasExpired: over, mayfly.WasArchived: over,
		} {
			if want && len(by[n.id][verb]) == 0 {
				missing = append(missing, fmt.Sprintf("%s of %s", verb, n.id))
			}
		}
	}
	return missing
}

// judgeEvents compares the log with the record: every event is there, each once by key
// and not before its time.
func (a *audit) judgeEvents() {
	for _, what := range a.missing(a.events) {
		a.record.count.Add(verify.Lost, "%s is not in the log", what)
	}
	for id, verbs := range a.events.byItem() {
		for verb, all := range verbs {
			if len(all) > 1 {
				a.record.count.Add(verify.Double, "%s %s as %d generations", id, verb, len(all))
			}
		}
		for _, x := range verbs[mayfly.WasExpired] {
			switch lag := x.At.Sub(id.Deadline()); {
			case lag < 0:
				a.record.count.Add(verify.Early, "%s expired %s before its deadline", id, -lag)
			case lag > a.lag:
				a.record.count.Add(verify.Late, "%s expired %s after its deadline", id, lag)
			}
		}
	}
}
