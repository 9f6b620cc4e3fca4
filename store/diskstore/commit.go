package diskstore

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// commit applies b, and with pebble.Sync waits until it is durable. A goroutine
// of its own does the work, because Pebble's calls do not end when the disk has
// failed: then the fuse answers, and the outcome is not known.
func (s *Store) commit(b *pebble.Batch, sync *pebble.WriteOptions) error {
	done := make(chan error, 1)
	go func() { done <- s.apply(b, sync) }()
	select {
	case err := <-done:
		return err
	case <-s.fuse.Blown():
		return s.fuse.Err()
	}
}

// apply is commit for a goroutine that may stay behind: it does not return when
// the disk has failed.
func (s *Store) apply(b *pebble.Batch, sync *pebble.WriteOptions) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.fuse.Blow(fmt.Errorf("pebble: commit: %v", r))
			err = s.fuse.Err()
		}
	}()
	if err := s.db.Apply(b, sync); err != nil {
		s.fuse.Blow(fmt.Errorf("pebble: commit: %w", err))
	}
	if err := s.fuse.Err(); err != nil {
		return err
	}
	return b.Close()
}
