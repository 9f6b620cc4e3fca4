package diskstore

import (
	"context"
	"time"

	"github.com/mayflyhq/mayfly"
)

// enter begins a call; every call that entered leaves.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	s.life.RLock()
	err := s.fuse.Err()
	select {
	case <-s.closing:
		err = mayfly.Errorf(mayfly.Unavailable, "the tier is closed")
	default:
	}
	if err != nil {
		s.life.RUnlock()
	}
	return err
}

func (s *Store) leave() { s.life.RUnlock() }

// untilClosing is a context that ends when the store is being closed.
func (s *Store) untilClosing() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-s.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// closePatience is how long Close waits for Pebble when the fuse has blown:
// then some of its goroutines never end, and there is nothing left to save.
const closePatience = time.Second

// Close waits for the calls under way and closes the database. Readers that are
// open may finish. With a blown fuse it does not wait long, leaves the rest to
// the end of the process, and answers with the fuse's reason.
func (s *Store) Close() error {
	var err error
	s.closed.Do(func() { err = s.close() })
	return err
}

func (s *Store) close() error {
	close(s.closing)
	done := make(chan error, 1)
	go func() {
		s.life.Lock()
		defer s.life.Unlock()
		s.behind.Wait()
		close(s.volumes.in)
		<-s.volumes.done
		s.handles.dropAll()
		done <- s.db.Close()
	}()
	select {
	case err := <-done:
		return err
	case <-s.fuse.Blown():
	}
	select {
	case <-done:
	case <-time.After(closePatience):
	}
	return s.fuse.Err()
}
