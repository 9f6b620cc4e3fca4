package diskstore

import (
	"context"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
)

// entry is an object that is being added to the index.
type entry struct {
	ctx     context.Context
	key     mayfly.BlobKey
	rec     record
	content []byte  // of a small object, on its way into a volume before that
	moved   *record // only if the key still has this record

	err  error         // what became of it, once done is closed
	done chan struct{} // closed for callers that share the volume
}

func newEntry(ctx context.Context, key mayfly.BlobKey, rec record) *entry {
	return &entry{ctx: ctx, key: key, rec: rec, done: make(chan struct{})}
}

// adoptOne adds an object with its own file to the index.
func (s *Store) adoptOne(e *entry) error {
	go func() {
		s.adopt([]*entry{e})
		close(e.done)
	}()
	return s.await(e)
}

// await waits for the result of an entry. If the fuse has blown, the entry may still
// be added to the index, and other goroutines still use it.
func (s *Store) await(e *entry) error {
	select {
	case <-e.done:
		return e.err
	case <-s.fuse.Blown():
		return s.fuse.Err()
	}
}

// adopt adds the objects of the entries to the index and replaces what their keys
// had, with one write for all, durable on return. It sets the error of each entry. It
// does not return if the disk fails.
func (s *Store) adopt(group []*entry) {
	replaced, refused, err := s.replace(group)
	for _, e := range group {
		if e.err == nil {
			e.err = err
		}
	}
	if err != nil {
		return
	}
	for _, rec := range refused {
		if rec.shared() {
			err = errors.Join(err, s.abandon(rec))
		}
	}
	if err = errors.Join(err, s.discard(replaced)); err != nil {
		s.opts.Logger.Warn("replaced media not removed", "err", err)
	}
}

// replace writes the records of a group. It returns the records that they replace
// and those that it did not write.
func (s *Store) replace(group []*entry) (replaced, refused []record, err error) {
	current := make(map[mayfly.BlobKey]record, len(group))
	keys := make([]mayfly.BlobKey, 0, len(group))
	for _, e := range group {
		if _, twice := current[e.key]; !twice {
			current[e.key] = record{}
			keys = append(keys, e.key)
		}
	}
	s.locks.lock(keys...)
	defer s.locks.unlock(keys...)
	for key := range current {
		old, there, err := s.lookup(key)
		if err != nil {
			return nil, nil, err
		}
		if current[key] = old; !there {
			delete(current, key)
		}
	}
	b := s.db.NewBatch()
	for _, e := range group {
		old, there := current[e.key]
		if e.ctx.Err() != nil || e.moved != nil && (!there || old != *e.moved) {
			if err := e.ctx.Err(); err != nil {
				e.err = mayfly.Wrap(mayfly.Unavailable, err, "")
			}
			refused = append(refused, e.rec)
			continue
		}
		err = errors.Join(err, b.Set(recordKey(e.key), e.rec.encode(), nil), owns(b, e.key, e.rec))
		if there {
			err = errors.Join(err, drops(b, old))
			replaced = append(replaced, old)
		}
		current[e.key] = e.rec
	}
	if err != nil {
		return nil, nil, errors.Join(failed("write the index", err), b.Close())
	}
	return replaced, refused, s.apply(b, pebble.Sync)
}

// discard removes the files and volumes that dropped records leave without objects.
func (s *Store) discard(dropped []record) error {
	var files []fileNumber
	touched := map[fileNumber]struct{}{}
	for _, old := range dropped {
		switch {
		case old.shared():
			s.gaveUp(old)
			touched[old.file] = struct{}{}
		case old.file != 0:
			files = append(files, old.file)
		}
	}
	for n := range touched {
		s.tidy(n)
	}
	if len(touched) > 0 {
		s.reclaimBehind()
	}
	return s.removeFiles(files...)
}
