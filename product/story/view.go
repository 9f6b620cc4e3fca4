package story

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/store"
)

// View notes that viewer has seen the story (ST8): once, with the first instant.
// Only looks while it serves count; its author's, a moderator's and an anonymous
// viewer's do not. Errors: the gate's, Unavailable.
func (s *Stories) View(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) error {
	opened, err := s.open(ctx, id, viewer, now)
	if err != nil {
		return err
	}
	if opened.Verdict != gate.Serve || viewer.Moderator() || viewer.User().IsZero() || viewer.Wrote(opened.Item) {
		return nil
	}
	key := store.ViewKey(id, viewer.User())
	found, err := s.o.Rows.Get(ctx, store.Views, key)
	if err != nil {
		return fmt.Errorf("view %s: %w", id, err)
	}
	if found[0] != nil {
		return nil
	}
	kept := opened.Item.End().Add(s.o.ViewsKept)
	value := view{at: now, kept: kept}.append(nil)
	var b store.Batch
	b.Put(store.Seen, store.SeenKey(viewer.User(), id), value, kept)
	b.Then() // a view that is noted is seen: whoever finds it need not look for the other
	b.Put(store.Views, key, value, kept)
	if err := s.o.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("view %s: %w", id, err)
	}
	return nil
}

// view is the value of a row of Views and Seen. A row may stay after its time,
// so the time is in it.
type view struct {
	at, kept mayfly.Instant
}

const (
	viewFormat = 1
	viewSize   = 1 + 8 + 8
)

func (v view) append(b []byte) []byte {
	b = append(b, viewFormat)
	b = binary.BigEndian.AppendUint64(b, uint64(v.at))
	return binary.BigEndian.AppendUint64(b, uint64(v.kept))
}

func readView(value []byte) (view, error) {
	if len(value) != viewSize || value[0] != viewFormat {
		return view{}, mayfly.Errorf(mayfly.Corrupt, "a view of %d bytes cannot be read", len(value))
	}
	return view{
		at:   mayfly.Instant(binary.BigEndian.Uint64(value[1:])),
		kept: mayfly.Instant(binary.BigEndian.Uint64(value[9:])),
	}, nil
}
