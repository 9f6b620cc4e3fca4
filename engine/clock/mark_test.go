package clock_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/store"
)

// table is a store of rows in memory.
type table struct {
	store.Rows
	tables *store.TableSet
	rows   map[store.Key][]byte
}

func newTable() table {
	declared, err := store.NewTableSet(clock.Tables())
	if err != nil {
		panic(err)
	}
	return table{tables: declared, rows: map[store.Key][]byte{}}
}

func (r table) Get(_ context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		if err := r.tables.CheckRead(t, key); err != nil {
			return nil, err
		}
		values[i] = r.rows[key]
	}
	return values, nil
}

func (r table) Swap(_ context.Context, t store.Table, key store.Key, old, next []byte, _ mayfly.Instant) (bool, []byte, error) {
	if err := r.tables.CheckSwap(t, key); err != nil {
		return false, nil, err
	}
	if !bytes.Equal(r.rows[key], old) {
		return false, r.rows[key], nil
	}
	r.rows[key] = next
	return true, next, nil
}

func TestMarkIsReadAsItWasSaved(t *testing.T) {
	ctx, rows, b := t.Context(), newTable(), newFixture(t)
	if mark, err := clock.Load(ctx, rows, "node-1"); err != nil || mark != (clock.Mark{}) {
		t.Fatalf("without a mark: %+v, %v", mark, err)
	}
	for range 3 {
		b.machine.Advance(time.Second + time.Microsecond)
		want, _ := b.clock.Mark()
		if err := clock.Save(ctx, rows, "node-1", want); err != nil {
			t.Fatal(err)
		}
		if got, err := clock.Load(ctx, rows, "node-1"); err != nil || got != want {
			t.Fatalf("saved %+v, read %+v, %v", want, got, err)
		}
	}
	if mark, err := clock.Load(ctx, rows, "node-2"); err != nil || mark != (clock.Mark{}) {
		t.Fatalf("mark of another node: %+v, %v", mark, err)
	}
}

func TestEarlierMarkNeverReplacesALaterOne(t *testing.T) {
	ctx, rows, b := t.Context(), newTable(), newFixture(t)
	early, _ := b.clock.Mark()
	b.machine.Advance(time.Second)
	late, _ := b.clock.Mark()
	if err := clock.Save(ctx, rows, "n", late); err != nil {
		t.Fatal(err)
	}
	if err := clock.Save(ctx, rows, "n", early); !errors.Is(err, mayfly.Conflict) {
		t.Fatalf("saved an earlier mark: %v", err)
	}
	if got, err := clock.Load(ctx, rows, "n"); err != nil || got != late {
		t.Fatalf("read %+v, %v", got, err)
	}
}

func TestUnreadableMarkIsCorrupt(t *testing.T) {
	ctx, rows, b := t.Context(), newTable(), newFixture(t)
	mark, _ := b.clock.Mark()
	if err := clock.Save(ctx, rows, "n", mark); err != nil {
		t.Fatal(err)
	}
	key := store.Key{Partition: "n"}
	whole := rows.rows[key]
	edited := func(at int, to byte) []byte {
		value := bytes.Clone(whole)
		value[at] = to
		return value
	}
	for name, value := range map[string][]byte{
		"empty":                  {},
		"cut":                    whole[:24],
		"of a later format":      edited(0, 9),
		"before the epoch":       edited(1, 0xff),
		"ceiling below the mark": edited(9+5, 0),
		"boot time below zero":   edited(17, 0xff),
		"far too long":           append(bytes.Clone(whole), make([]byte, 300)...),
	} {
		rows.rows[key] = value
		if _, err := clock.Load(ctx, rows, "n"); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if err := clock.Save(ctx, rows, "n", mark); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%s: saved over it: %v", name, err)
		}
	}
}

func TestConcurrentReadersNeverSeeTimeGoBack(t *testing.T) {
	machine := clock.NewManual(noon)
	c := clock.New(machine.Source(), clock.Options{}, clock.Mark{})
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for last := c.Read(); ; {
				r := c.Read()
				if r.Steady < last.Steady || r.Now < r.Steady || last.Confirmed && r.Now < last.Now {
					t.Errorf("%+v after %+v", r, last)
					return
				}
				select {
				case <-done:
					return
				default:
					last = r
				}
			}
		})
	}
	steps := []time.Duration{time.Second, -time.Minute, day, -day, 4 * time.Minute, -2 * day, 2 * day, 30 * day, -29 * day, -day}
	for n := range 20_000 {
		machine.Step(steps[n%len(steps)])
		machine.Advance(time.Duration(n%7) * time.Millisecond)
		if n%1000 == 0 {
			c.Confirm()
		}
	}
	close(done)
	wg.Wait()
}

// lateTable is a table whose swaps have an unknown result while fail is set; the
// last of them lands before the next swap.
type lateTable struct {
	table
	fail bool
	late func()
}

func (r *lateTable) Swap(ctx context.Context, t store.Table, key store.Key, old, next []byte, at mayfly.Instant) (bool, []byte, error) {
	if r.fail {
		r.late = func() { r.rows[key] = next }
		return false, nil, mayfly.Errorf(mayfly.Unknown, "no answer")
	}
	if r.late != nil {
		r.late()
		r.late = nil
	}
	return r.table.Swap(ctx, t, key, old, next, at)
}

func TestAFailedSaveThatLandsLateIsNoConflict(t *testing.T) {
	ctx, rows, b := t.Context(), &lateTable{table: newTable()}, newFixture(t)
	marks := clock.NewMarks(rows, "n")
	save := func() error {
		b.machine.Advance(time.Second)
		mark, _ := b.clock.Mark()
		return marks.Save(ctx, mark)
	}
	if err := save(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		rows.fail = true
		if err := save(); !errors.Is(err, mayfly.Unknown) {
			t.Fatal(err)
		}
		rows.fail = false
		if err := save(); err != nil {
			t.Fatalf("after a late save had landed: %v", err)
		}
	}
	b.machine.Advance(time.Second)
	mark, _ := b.clock.Mark() // of another process
	if err := clock.NewMarks(rows, "n").Save(ctx, mark); err != nil {
		t.Fatal(err)
	}
	if err := save(); !errors.Is(err, mayfly.Conflict) {
		t.Fatalf("beside another process: %v", err)
	}
}
