package kvpebble

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/store/loop"
)

// commits joins the groups of callers that come together. One goroutine writes the groups
// that wait into one batch and applies it: they become visible and give back their locks.
// Another syncs the write-ahead log once for all that are visible and answers their callers.
//
// Its invariant: a group keeps its locks until its changes are visible, and is answered
// only when they are durable.
type commits struct {
	composed chan *writing   // they wait to be applied
	visible  chan []*writing // they wait to be durable
	unsynced atomic.Int64    // groups that have been sent to visible and that no sync covers yet
	ended    sync.WaitGroup
}

const (
	commitQueue = 1024     // groups that wait; their callers wait for a place otherwise
	commitGroup = 256      // groups in one batch at most
	commitBytes = mebibyte // bytes of a batch to which no further group is added
)

func (s *Store) startCommits() {
	s.commits.composed, s.commits.visible = make(chan *writing, commitQueue), make(chan []*writing, commitQueue)
	s.commits.ended.Go(s.applyGroups)
	s.commits.ended.Go(s.syncGroups)
}

// stopCommits is called when no call is under way any more.
func (s *Store) stopCommits() {
	close(s.commits.composed)
	s.commits.ended.Wait()
}

// write hands the group over and waits until it is durable, if w asks for that, else
// visible. What w holds is released and the store is left for its caller, also if the
// caller has gone. After an error the outcome is unknown.
func (w *writing) write(ctx context.Context) error {
	w.done = make(chan error, 1)
	select {
	case w.commits.composed <- w:
		return w.base.Wait(ctx, &w.visible, w.done)
	case <-w.fuse.Blown():
		w.release()
		w.leave()
		return diskfs.InDoubt(w.fuse.Err())
	}
}

// applyGroups applies what callers hand over until stopCommits.
func (s *Store) applyGroups() {
	defer close(s.commits.visible)
	for w := range s.commits.composed {
		runtime.Gosched() // callers that can run may join
		groups, size := []*writing{w}, w.batch.Len()
		for more := true; more && len(groups) < commitGroup && size < commitBytes; {
			select {
			case next, open := <-s.commits.composed:
				if more = open; open {
					groups, size = append(groups, next), size+next.batch.Len()
				}
			default:
				more = false
			}
		}
		err := s.attempt(func() error { return s.applyJointly(groups) })
		waiting := groups[:0]
		for _, w := range groups {
			w.visible.Store(true)
			w.release()
			if err == nil && w.durable {
				waiting = append(waiting, w)
			} else {
				w.answer(err)
			}
		}
		if len(waiting) > 0 {
			s.commits.unsynced.Add(int64(len(waiting)))
			s.commits.visible <- waiting
		}
	}
}

// applyJointly applies groups in one batch, without a sync. No two of them have a key in
// common, because each holds the locks of its keys.
func (s *Store) applyJointly(groups []*writing) error {
	joint := groups[0].batch
	for _, w := range groups[1:] {
		if err := joint.Apply(w.batch, nil); err != nil {
			return err
		}
		if err := w.batch.Close(); err != nil {
			return err
		}
	}
	if err := mergeCounts(joint, groups); err != nil {
		return err
	}
	for _, w := range groups {
		if w.durable {
			s.stripes.pending(w.held, 1)
		} else {
			s.dirty.Store(true)
		}
		s.rows.begin(w.held)
	}
	if err := s.db.Apply(joint, pebble.NoSync); err != nil {
		return err
	}
	for _, w := range groups {
		w.note()
		s.rows.end(w.held)
	}
	return joint.Close()
}

// mergeCounts writes the changes of the counts of all groups, one for each period.
func mergeCounts(batch *pebble.Batch, groups []*writing) error {
	if len(groups) == 1 {
		if w := groups[0]; w.space != nil {
			return w.space.merge(batch, w.counts)
		}
		return nil
	}
	all := map[*space]*changes{}
	for _, w := range groups {
		if len(w.counts) == 0 {
			continue
		}
		sum := all[w.space]
		if sum == nil {
			all[w.space] = &w.counts
			continue
		}
		for _, one := range w.counts {
			sum.add(one.end, one.count)
		}
	}
	for space, sum := range all {
		if err := space.merge(batch, *sum); err != nil {
			return err
		}
	}
	return nil
}

// syncGroups makes durable what is visible, until applyGroups has ended.
func (s *Store) syncGroups() {
	var p patience
	for groups := range s.commits.visible {
		groups = s.gather(groups, &p)
		s.commits.unsynced.Add(-int64(len(groups)))
		took := loop.Stopwatch()
		err := s.attempt(func() error { return s.db.LogData(nil, pebble.Sync) })
		p.callers, p.most = len(groups)+int(s.commits.unsynced.Load()), took()
		for _, w := range groups {
			s.stripes.pending(w.held, -1)
			w.answer(err)
		}
	}
}

// patience is how long a sync waits for further groups. Without it, callers that write
// again and again fall into two halves, each of which waits for the sync of the other.
// To wait for those that were just answered costs less if they come sooner than a sync
// takes. A caller alone waits for no one.
type patience struct {
	callers int           // that the last sync answered, and that came during it
	most    time.Duration // to wait: what the last sync took
	pause   int           // syncs that do not wait, because one has waited in vain
}

const pauseAfter = 8

// gather returns groups with all others that are visible, and those of callers that are
// expected to come soon.
func (s *Store) gather(groups []*writing, p *patience) []*writing {
	var timeout <-chan time.Time
	for {
		select {
		case more, open := <-s.commits.visible:
			if !open {
				return groups
			}
			groups = append(groups, more...)
			continue
		default:
		}
		if len(groups) >= p.callers {
			return groups
		}
		if p.pause > 0 {
			p.pause--
			return groups
		}
		if timeout == nil {
			timeout = time.After(p.most)
		}
		select {
		case more := <-s.commits.visible: // none if it was closed
			groups = append(groups, more...)
		case <-timeout:
			p.pause = pauseAfter
			return groups
		}
	}
}

// attempt does a durable write. An error or panic of Pebble blows the fuse.
func (s *Store) attempt(do func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
		if err != nil {
			s.fuse.Blow(fmt.Errorf("pebble: commit: %w", err))
		}
		if blown := s.fuse.Err(); blown != nil {
			err = diskfs.InDoubt(blown)
		}
	}()
	return do()
}

// answer ends the call of a group.
func (w *writing) answer(err error) {
	w.done <- err
	w.leave()
}
