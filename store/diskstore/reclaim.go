package diskstore

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/mayflyhq/mayfly"
)

// waste is where deleted values may still take space. Pebble gives it back when
// more is written to the same place; on a quiet server nothing would (trap 14).
type waste struct {
	mu    sync.Mutex
	bytes int64
	spans map[string]keySpan // by the first part of the key: each is narrow in time
	busy  bool
}

// keySpan is from the first to the last of some keys.
type keySpan struct{ first, last mayfly.BlobKey }

const (
	// wasteLimit is how much may lie about before it is reclaimed unasked.
	wasteLimit = 64 * mebibyte
	// maxSpans bounds what is remembered; L11 spreads keys over 20.
	maxSpans = 64
)

func (w *waste) add(key mayfly.BlobKey, size int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	part, _, _ := strings.Cut(string(key), "/")
	span, known := w.spans[part]
	if !known && len(w.spans) >= maxSpans {
		part = ""
		span, known = w.spans[part]
	}
	if !known {
		span = keySpan{key, key}
	}
	if w.spans == nil {
		w.spans = map[string]keySpan{}
	}
	w.spans[part] = keySpan{min(span.first, key), max(span.last, key)}
	w.bytes += size + recordSize
}

// take takes all of it if it is at least as much as atLeast, and nobody is
// reclaiming.
func (w *waste) take(atLeast int64) map[string]keySpan {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.busy || len(w.spans) == 0 || w.bytes < atLeast {
		return nil
	}
	taken := w.spans
	w.busy, w.bytes, w.spans = true, 0, nil
	return taken
}

func (w *waste) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
}

// Reclaim gives the space of deleted small objects back to the disk, whether or
// not anything more is written. Delete does so by itself from time to time; what
// it leaves is under 64 MiB. While one Reclaim runs another does nothing.
func (s *Store) Reclaim(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.leave()
	return s.reclaim(ctx, s.waste.take(0))
}

func (s *Store) reclaim(ctx context.Context, spans map[string]keySpan) error {
	if spans == nil {
		return nil
	}
	defer s.waste.done()
	for _, span := range spans {
		if err := s.compact(ctx, span); err != nil {
			return failed("reclaim", err)
		}
	}
	return nil
}

// compact rewrites the part of the database that the span is in. Only keys are
// rewritten; the values' files go when no key names them.
func (s *Store) compact(ctx context.Context, span keySpan) error {
	done := make(chan error, 1)
	go func() {
		done <- s.db.Compact(ctx, tableKey(tableContent, span.first), append(tableKey(tableContent, span.last), 0), false)
	}()
	select {
	case err := <-done:
		return err
	case <-s.fuse.Blown():
		return s.fuse.Err()
	}
}

// reclaimBehind reclaims in the background when there is enough to reclaim.
func (s *Store) reclaimBehind() {
	spans := s.waste.take(wasteLimit)
	if spans == nil {
		return
	}
	s.behind.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-s.closing:
				cancel()
			case <-ctx.Done():
			}
		}()
		if err := s.reclaim(ctx, spans); err != nil && !errors.Is(err, context.Canceled) {
			s.opts.Logger.Error("space of deleted media was not reclaimed", "err", err)
		}
	})
}
