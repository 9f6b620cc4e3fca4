package clock

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"
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

// Mark is the mark to save now. While a step is unconfirmed, or the clock is off,
// there is none: what is saved stays what was confirmed last.
func (c *Clock) Mark() (Mark, bool) {
	l, at := c.sample()
	if l.doubt != nil || c.off(l, at) != nil {
		return Mark{}, false
	}
	up := instant(l.at(at.Boot) + int64(time.Millisecond) - 1)
	return Mark{At: up, Ceiling: up.Add(2 * c.options.SavePeriod), Boot: at.Boot, BootID: c.source.BootID}, true
}

// Last is the mark of a process that reads its clock no more: it has no ceiling
// above it, and whoever starts next knows that nobody is left.
func (m Mark) Last() Mark {
	m.Ceiling = m.At
	return m
}

// Left says that the process that saved m has ended in order.
func (m Mark) Left() bool { return m.Ceiling == m.At }

// Load reads the mark of a node; the zero Mark when it has none. A row that
// cannot be read is Corrupt: starting without it could bring back what has expired.
func Load(ctx context.Context, rows store.Rows, node string) (Mark, error) {
	return NewMarks(rows, node).Load(ctx)
}

// Save saves one mark of a node, as Marks does.
func Save(ctx context.Context, rows store.Rows, node string, mark Mark) error {
	return NewMarks(rows, node).Save(ctx, mark)
}

// Marks is where one process saves the marks of its node. One goroutine uses it.
type Marks struct {
	rows   store.Rows
	node   string
	known  bool // stored and value are what the row holds, as far as we know
	stored Mark
	value  []byte

	doubted [][]byte // what we tried to save and may still land
}

// NewMarks are the marks of node.
func NewMarks(rows store.Rows, node string) *Marks { return &Marks{rows: rows, node: node} }

// Load reads the mark.
func (m *Marks) Load(ctx context.Context) (Mark, error) {
	found, err := m.rows.Get(ctx, store.Marks, store.Key{Partition: m.node})
	if err != nil {
		return Mark{}, fmt.Errorf("clock: read the mark of %s: %w", m.node, err)
	}
	var stored Mark
	if found[0] != nil {
		if stored, err = readMark(found[0]); err != nil {
			return Mark{}, fmt.Errorf("clock: mark of %s: %w", m.node, err)
		}
	}
	m.known, m.stored, m.value = true, stored, found[0]
	return stored, nil
}

// Save saves a mark over the one that was read or saved last, durable on return.
// A stored mark is never replaced by an earlier one. Conflict: somebody else has
// saved one, and two processes run under one name. A save of our own that failed
// may have landed since, and is nobody else's.
func (m *Marks) Save(ctx context.Context, mark Mark) error {
	for range maxDoubted + 1 {
		if !m.known {
			if _, err := m.Load(ctx); err != nil {
				return err
			}
		}
		if m.stored.At > mark.At {
			m.known = false
			return Twin(m.node)
		}
		next := mark.bytes()
		swapped, current, err := m.rows.Swap(ctx, store.Marks, store.Key{Partition: m.node}, m.value, next, 0)
		m.known = swapped && err == nil
		if err != nil {
			m.doubted = append(m.doubted[max(0, len(m.doubted)-maxDoubted+1):], next)
			return fmt.Errorf("clock: save the mark of %s: %w", m.node, err)
		}
		if swapped {
			m.stored, m.value = mark, next
			return nil
		}
		if !slices.ContainsFunc(m.doubted, func(own []byte) bool { return bytes.Equal(own, current) }) {
			return Twin(m.node)
		}
	}
	return mayfly.Errorf(mayfly.Unavailable, "clock: save the mark of %s: earlier ones keep landing", m.node)
}

// maxDoubted is how many saves whose outcome is not known are remembered.
const maxDoubted = 64

// Twin is the error of two processes that run under one name.
func Twin(node string) error {
	return mayfly.Errorf(mayfly.Conflict, "another process runs under the name %s", node).
		WithHint("every node needs a name of its own: set node, and see that the old process has ended")
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
