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

// Mark is the saved state of a clock, so that time does not go back over a restart
// or a reboot.
type Mark struct {
	At      mayfly.Instant // the confirmed time, rounded up
	Ceiling mayfly.Instant // no later time is read before the next mark is saved
	Boot    time.Duration  // boot time at At
	BootID  string         // identifies that boot
}

// Mark returns the mark to save now. It returns false while a step is unconfirmed
// or the clock is off: the mark that was confirmed last stays saved.
func (c *Clock) Mark() (Mark, bool) {
	l, at := c.sample()
	if l.doubt != nil || c.off(l, at) != nil {
		return Mark{}, false
	}
	up := instant(l.at(at.Boot) + int64(time.Millisecond) - 1)
	return Mark{At: up, Ceiling: up.Add(2 * c.options.SavePeriod), Boot: at.Boot, BootID: c.source.BootID}, true
}

// Last returns the final mark of a process that has stopped reading its clock. Its
// ceiling equals its time, which shows the next process that this one has ended.
func (m Mark) Last() Mark {
	m.Ceiling = m.At
	return m
}

// Left reports whether the process that saved m has shut down in order.
func (m Mark) Left() bool { return m.Ceiling == m.At }

// Load reads the mark of a node; the zero Mark if it has none. A row that cannot be
// read is Corrupt: a start without it could serve expired items again.
func Load(ctx context.Context, rows store.Rows, node string) (Mark, error) {
	return NewMarks(rows, node).Load(ctx)
}

// Save saves one mark of a node; see Marks.Save.
func Save(ctx context.Context, rows store.Rows, node string, mark Mark) error {
	return NewMarks(rows, node).Save(ctx, mark)
}

// Marks saves the marks of a node for one process. It is for one goroutine only.
type Marks struct {
	rows   store.Rows
	node   string
	known  bool // whether stored and value are the last known contents of the row
	stored Mark
	value  []byte

	doubted [][]byte // values of failed saves that may still land
}

// NewMarks returns the marks of node.
func NewMarks(rows store.Rows, node string) *Marks { return &Marks{rows: rows, node: node} }

// Load reads the mark.
func (m *Marks) Load(ctx context.Context) (Mark, error) {
	found, err := m.rows.Get(ctx, MarksTable, store.Key{Partition: m.node})
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

// Save replaces the mark that was read or saved last; the new one is durable on
// return. It never replaces a mark by an earlier one. An error of kind Conflict
// means that another process saves marks under the same node name. A failed save of
// this process that lands late is not taken for that.
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
		swapped, current, err := m.rows.Swap(ctx, MarksTable, store.Key{Partition: m.node}, m.value, next, 0)
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
	return mayfly.Errorf(mayfly.Unavailable, "clock: save the mark of %s: earlier saves keep landing", m.node)
}

// maxDoubted is how many saves with an unknown result are remembered.
const maxDoubted = 64

// Twin returns the error for two processes with the same node name.
func Twin(node string) error {
	return mayfly.Errorf(mayfly.Conflict, "another process runs under the name %s", node).
		WithHint("give every node its own name with the key node, and check that the old process has ended")
}

const (
	markFormat = 1
	markSize   = 1 + 8 + 8 + 8 // followed by the boot id
	maxBootID  = 256

	// maxMark is the year 2200, which fits into nanoseconds with room to spare.
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
	bad := mayfly.Errorf(mayfly.Corrupt, "clock mark of %d bytes cannot be read", len(value)).
		WithHint("load a backup, or start the version of mayfly that wrote it")
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
