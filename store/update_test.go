package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// claims are rows of which each caller writes its own value once.
func claims() (*fixture.Undecided, store.Key) {
	return fixture.NewUndecided(storetest.NewModel().Set().Rows), store.Key{Partition: "paste", Clustering: "0"}
}

// A read does not see a swap that was accepted and not committed, and the next swap
// of any caller completes it: who believed the read had lost a row that is theirs.
func TestAWriteThatTimedOutBelongsToItsWriter(t *testing.T) {
	ctx := t.Context()
	for timeouts := range 3 {
		for name, write := range map[string]func(store.Rows, store.Key, string) (mine bool, err error){
			"replace": func(rows store.Rows, key store.Key, value string) (bool, error) {
				err := store.Replace(ctx, rows, storetest.SwappedTable, key, nil, []byte(value), 0)
				if errors.Is(err, mayfly.Conflict) {
					return false, nil
				}
				return err == nil, err
			},
			"update": func(rows store.Rows, key store.Key, value string) (bool, error) {
				composed := 0
				found, err := store.Update(ctx, rows, storetest.SwappedTable, key, 0, func(old []byte) ([]byte, error) {
					if old != nil {
						return nil, mayfly.Errorf(mayfly.Conflict, "another caller has it")
					}
					composed++
					return fmt.Appendf(nil, "%s %d", value, composed), nil // another value each time, as a nonce is
				})
				if composed > 1 {
					t.Errorf("%d values were composed for one row", composed)
				}
				if errors.Is(err, mayfly.Conflict) {
					return false, nil
				}
				return string(found) == value+" 1", err
			},
		} {
			rows, key := claims()
			rows.TimeOut(timeouts, storetest.SwappedTable)
			if mine, err := write(rows, key, "first"); err != nil || !mine {
				t.Errorf("%s, %d time-outs: the first caller has the row: %t, %v", name, timeouts, mine, err)
			}
			if rows.Left() != 0 {
				t.Errorf("%s: %d swaps did not time out", name, rows.Left())
			}
			if mine, err := write(rows, key, "second"); err != nil || mine {
				t.Errorf("%s, %d time-outs: the second caller has the row: %t, %v", name, timeouts, mine, err)
			}
		}
	}
}

func TestAWriteThatOnlyTimesOutEnds(t *testing.T) {
	rows, key := claims()
	away := &away{Rows: rows}
	for name, write := range map[string]func() error{
		"replace": func() error {
			return store.Replace(t.Context(), away, storetest.SwappedTable, key, nil, []byte("mine"), 0)
		},
		"update": func() error {
			_, err := store.Update(t.Context(), away, storetest.SwappedTable, key, 0, func([]byte) ([]byte, error) { return []byte("mine"), nil })
			return err
		},
	} {
		away.asked = 0
		if err := write(); !errors.Is(err, mayfly.Unavailable) || away.asked < 2 || away.asked > 10 {
			t.Errorf("%s: %v after %d swaps", name, err, away.asked)
		}
	}
}

// A row that shows the value is enough, though the answer to every swap is lost.
func TestAWriteThatIsReadBackIsDone(t *testing.T) {
	rows, key := claims()
	done := &away{Rows: rows, does: true}
	if err := store.Replace(t.Context(), done, storetest.SwappedTable, key, nil, []byte("mine"), 0); err != nil {
		t.Error(err)
	}
	if found, err := store.Update(t.Context(), done, storetest.SwappedTable, key, 0, func([]byte) ([]byte, error) { return []byte("next"), nil }); err != nil || string(found) != "next" {
		t.Errorf("%q, %v", found, err)
	}
	if err := store.RemoveRow(t.Context(), done, storetest.SwappedTable, key, []byte("next")); err != nil || done.asked != 3 {
		t.Errorf("%v after %d swaps", err, done.asked)
	}
}

// away is a store that answers no swap.
type away struct {
	store.Rows
	does  bool
	asked int
}

func (a *away) Swap(ctx context.Context, t store.Table, key store.Key, old, next []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	a.asked++
	if a.does {
		if _, _, err := a.Rows.Swap(ctx, t, key, old, next, reclaimAt); err != nil {
			return false, nil, err
		}
	}
	return false, nil, mayfly.Errorf(mayfly.Unknown, "no answer in time")
}
