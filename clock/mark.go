package clock

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Mark is what a clock leaves behind, so that time does not go back over a
// restart or a reboot.
type Mark struct {
	At      mayfly.Instant // the confirmed time, rounded up
	Ceiling mayfly.Instant // no time after this is read before the next mark is saved
	Boot    time.Duration  // boot time at At
	BootID  string         // which boot that was
}

// Mark is the mark to save now. While a step is unconfirmed there is none:
// what is saved stays what was confirmed last.
func (c *Clock) Mark() (Mark, bool) {
	l, at := c.sample()
	if l.doubt != nil {
		return Mark{}, false
	}
	up := instant(l.at(at.Boot) + int64(time.Millisecond) - 1)
	return Mark{At: up, Ceiling: up.Add(2 * c.options.SavePeriod), Boot: at.Boot, BootID: c.source.BootID}, true
}

// Load reads the mark of a node; the zero Mark when it has none. A row that
// cannot be read is Corrupt: starting without it could bring back what has expired.
func Load(ctx context.Context, rows store.Rows, node string) (Mark, error) {
	mark, _, err := load(ctx, rows, node)
	return mark, err
}

func load(ctx context.Context, rows store.Rows, node string) (Mark, []byte, error) {
	found, err := rows.Get(ctx, store.Marks, store.Key{Partition: node})
	if err != nil {
		return Mark{}, nil, fmt.Errorf("clock: read the mark of %s: %w", node, err)
	}
	if found[0] == nil {
		return Mark{}, nil, nil
	}
	mark, err := readMark(found[0])
	if err != nil {
		return Mark{}, nil, fmt.Errorf("clock: mark of %s: %w", node, err)
	}
	return mark, found[0], nil
}

// Save saves the mark of a node, durable on return. A stored mark is never
// replaced by an earlier one: that is a Conflict, and means that two processes
// run under one name.
func Save(ctx context.Context, rows store.Rows, node string, mark Mark) error {
	stored, old, err := load(ctx, rows, node)
	if err != nil {
		return err
	}
	swapped := false
	if stored.At <= mark.At {
		swapped, _, err = rows.Swap(ctx, store.Marks, store.Key{Partition: node}, old, mark.bytes(), 0)
	}
	if err != nil {
		return fmt.Errorf("clock: save the mark of %s: %w", node, err)
	}
	if !swapped {
		return mayfly.Errorf(mayfly.Conflict, "clock: somebody else saves the mark of %s", node).
			WithHint("every node needs a name of its own")
	}
	return nil
}

const (
	markFormat = 1
	markSize   = 1 + 8 + 8 + 8 // and the boot id behind it
	maxBootID  = 256

	// maxMark is the year 2200: nanoseconds can say it, with room to run on.
	maxMark mayfly.Instant = 7_258_118_400_000
)

func (m Mark) bytes() []byte {
	b := make([]byte, 0, markSize+len(m.BootID))
	b = append(b, markFormat)
	b = binary.BigEndian.AppendUint64(b, uint64(m.At))
	b = binary.BigEndian.AppendUint64(b, uint64(m.Ceiling))
	b = binary.BigEndian.AppendUint64(b, uint64(m.Boot))
	return append(b, m.BootID...)
}

func readMark(value []byte) (Mark, error) {
	bad := mayfly.Errorf(mayfly.Corrupt, "%d bytes cannot be read as a mark of the clock", len(value)).
		WithHint("load a backup, or start the version of mayfly that wrote this folder")
	if len(value) < markSize || len(value) > markSize+maxBootID || value[0] != markFormat {
		return Mark{}, bad
	}
	m := Mark{
		At:      mayfly.Instant(binary.BigEndian.Uint64(value[1:])),
		Ceiling: mayfly.Instant(binary.BigEndian.Uint64(value[9:])),
		Boot:    time.Duration(binary.BigEndian.Uint64(value[17:])),
		BootID:  string(value[markSize:]),
	}
	if m.At <= 0 || m.Ceiling < m.At || m.Ceiling > maxMark || m.Boot < 0 {
		return Mark{}, bad
	}
	return m, nil
}
