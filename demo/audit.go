package demo

import (
	"context"
	"math"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
)

// audit verifies everything that is left against what was acknowledged: the log, every
// row, every object. The server is stopped for it, so that nothing moves meanwhile.
func (d *demo) audit(ctx context.Context) error {
	if err := d.summary(); err != nil {
		return err
	}
	s, err := d.host.rest(ctx)
	if err != nil {
		return err
	}
	v, err := verify.Run(ctx, s.Store.Set, verify.Options{
		Now: s.Node.Clock().Read().Steady, Late: coldWithin, Window: demoWindow, Each: s.Node.VerifyItem,
		Bytes: true, Objects: true, Group: "demo", Gate: s.Node.Gate(), Record: d.record(),
	})
	if err != nil {
		return err
	}
	d.count.Merge(&v.Tally)
	d.say("\nthe server is stopped, and its whole folder read and verified: %d items, %d media, %d bytes, %d events.", v.Items, v.Media, v.Bytes, v.Events)
	return nil
}

// record returns what is known of stories and pastes. What was being uploaded to the killed
// server belongs to no item yet; and where people can try the server, they may leave
// anything.
func (d *demo) record() *verify.Record {
	r := &verify.Record{Items: map[mayfly.ID]verify.Expected{}, Reads: d.reads, Unanswered: d.unborn, Unfinished: d.unborn}
	if !d.once {
		r.Unanswered, r.Unfinished = math.MaxInt, math.MaxInt
	}
	for _, l := range d.lives() {
		l.mu.Lock()
		r.Items[l.story.ID] = l.stored
		l.mu.Unlock()
	}
	for _, p := range d.pastes {
		r.Items[p.id] = p.stored
	}
	return r
}

// expects changes what the store must have of a story.
func (l *life) expects(change func(*verify.Expected)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.stored)
}
