package diskstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/mayflyhq/mayfly"
)

// movers is how many objects are moved at once: they share syncs.
const movers = 8

// Reclaim takes back the space of deleted objects and erases their bytes. It removes
// files that could not be removed before, empties and removes every volume that is
// mostly waste, and overwrites deleted objects in the others. When it has returned nil,
// the bytes of what was deleted before are in no file of the tier, but for what Figures
// counts. When there is much waste, deletes start the emptying in the background.
func (s *Store) Reclaim(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	select {
	case s.waste.emptying <- struct{}{}:
		defer func() { <-s.waste.emptying }()
		s.sealWaste()
		return errors.Join(s.removeFiles(s.leftovers.list()...), s.reclaim(ctx, 0), s.erase(ctx))
	case <-ctx.Done():
		return mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
	}
}

// sealWaste seals the volume that is appended to if deleted objects are in it: while it
// grows they look the same as objects on their way into the index.
func (s *Store) sealWaste() {
	s.volumes.mu.Lock()
	n := s.volumes.current
	s.volumes.mu.Unlock()
	if s.waste.get(n).dead == 0 {
		return
	}
	sealed := make(chan struct{})
	select {
	case s.volumes.full <- sealed:
		<-sealed
	case <-s.fuse.Blown():
	}
}

// reclaim empties volumes that are mostly waste, also those that become so
// meanwhile, until no more than allowed is left in all.
func (s *Store) reclaim(ctx context.Context, allowed int64) error {
	tried := map[fileNumber]bool{}
	for more := true; more; {
		more = false
		volumes, total := s.waste.list()
		for _, n := range volumes {
			v, sealed := s.wasted(n)
			if total <= allowed || !sealed || !v.mostly() || tried[n] {
				continue
			}
			if err := s.empty(ctx, n); err != nil {
				if ctx.Err() == nil {
					s.waste.update(n, func(w *wasted) { w.stuck = true })
				}
				return err
			}
			more, tried[n] = true, true
			_, total = s.waste.list()
		}
	}
	return nil
}

// reclaimBehind reclaims in the background when there is too much waste in all,
// unless another call does so already. Only a call that has entered may ask for it.
func (s *Store) reclaimBehind() {
	if !s.waste.tooMuch(s.opts.VolumeBytes) {
		return
	}
	select {
	case s.waste.emptying <- struct{}{}:
	default:
		return
	}
	s.behind.Go(func() {
		defer func() { <-s.waste.emptying }()
		ctx, cancel := s.untilClosing()
		defer cancel()
		if err := s.reclaim(ctx, s.allowedWaste()/2); err != nil && ctx.Err() == nil {
			s.opts.Logger.Error("space of deleted media not reclaimed", "err", err)
		}
		s.waste.settle(s.allowedWaste(), s.opts.VolumeBytes)
	})
}

func (s *Store) allowedWaste() int64 { return allowedVolumes * s.opts.VolumeBytes }

// resident is an object that lives in a volume.
type resident struct {
	key  mayfly.BlobKey
	at   place
	size int64
}

// empty moves the objects of volume n to other volumes and removes it. Open readers
// may finish.
func (s *Store) empty(ctx context.Context, n fileNumber) error {
	var residents []resident
	err := s.scan(fileKey(tableVolume, n), func(key, value []byte) (bool, error) {
		r, err := decodeResident(key, value)
		residents = append(residents, r)
		return true, err
	})
	if err != nil {
		return err
	}
	problems := make([]error, movers)
	var all sync.WaitGroup
	for w := range movers {
		all.Go(func() {
			for i := w; i < len(residents) && ctx.Err() == nil; i += movers {
				problems[w] = errors.Join(problems[w], s.move(ctx, residents[i]))
			}
		})
	}
	all.Wait()
	if err := errors.Join(append(problems, ctx.Err())...); err != nil {
		return fmt.Errorf("empty volume %x: %w", n, err)
	}
	return s.removeEmpty(n)
}

// move moves an object to another volume, if it still lives where it did.
func (s *Store) move(ctx context.Context, r resident) error {
	rec, there, err := s.lookup(r.key)
	if err != nil || !there || rec.place != r.at {
		return err
	}
	content, err := s.readLive(r.key, rec)
	if err != nil || content == nil {
		return err
	}
	e := newEntry(ctx, r.key, record{size: rec.size, sha256: rec.sha256, sum: rec.sum})
	e.content, e.moved = content, &rec
	return s.share(e)
}
