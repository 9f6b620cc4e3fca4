package walk_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

const (
	noon  = mayfly.Instant(1_767_268_800_000)
	lasts = 3 * time.Second
)

func TestALeaseIsHeldToItsPromisesOnTheModel(t *testing.T) {
	t.Setenv("MAYFLY_REPORT", "") // the model's verdict is storetest's to report
	storetest.Lease(t, "model", func(*testing.T) store.Set { return storetest.NewModel().Set() })
}

// A swap whose outcome is not known: the holder does not believe that it holds,
// and finds out at its next try.
func TestALeaseInDoubtIsNotHeldUntilItIsSeen(t *testing.T) {
	for _, f := range []storetest.Fault{{}, {Written: 1}} {
		model := storetest.NewModel().Set()
		set, landing := storetest.Prefix(model, storetest.FailNth(1, f))
		a := walk.NewLease(set.Rows, 1, "a", lasts)
		if held, err := a.Hold(t.Context(), noon); held || !errors.Is(err, mayfly.Unknown) {
			t.Fatalf("%+v: held %t, %v", f, held, err)
		}
		if held, err := a.Hold(t.Context(), noon); !held || err != nil {
			t.Errorf("%+v: at the second try: %t, %v", f, held, err)
		}
		// Whatever lands now finds another row than it expects.
		if _, err := landing.LandAll(t.Context(), rand.New(rand.NewPCG(1, 1))); err != nil {
			t.Fatal(err)
		}
		b := walk.NewLease(model.Rows, 1, "b", lasts)
		if held, err := b.Hold(t.Context(), noon.Add(lasts)-1); held || err != nil {
			t.Errorf("%+v: another holds it: %t, %v", f, held, err)
		}
	}
}

// A renewal that lands after another process else took over must not give it back.
func TestALateRenewalDoesNotTakeALeaseBack(t *testing.T) {
	model := storetest.NewModel().Set()
	set, landing := storetest.Prefix(model, storetest.FailNth(2, storetest.Fault{}))
	a, b := walk.NewLease(set.Rows, 1, "a", lasts), walk.NewLease(model.Rows, 1, "b", lasts)
	if held, err := a.Hold(t.Context(), noon); !held || err != nil {
		t.Fatal(held, err)
	}
	if held, err := a.Hold(t.Context(), noon.Add(2*time.Second)); held || err == nil {
		t.Fatal(held, err)
	}
	late := noon.Add(lasts)
	if held, err := b.Hold(t.Context(), late); !held || err != nil {
		t.Fatal(held, err)
	}
	if n, err := landing.LandAll(t.Context(), rand.New(rand.NewPCG(1, 1))); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if held, err := a.Hold(t.Context(), late); held || err != nil {
		t.Errorf("held %t, %v", held, err)
	}
	if held, err := b.Hold(t.Context(), late); !held || err != nil {
		t.Errorf("held %t, %v", held, err)
	}
}

func TestALeaseRowThatCannotBeReadIsCorrupt(t *testing.T) {
	rows := storetest.NewModel().Set().Rows
	key := store.Key{Partition: "walk", Clustering: "\x01"}
	if swapped, _, err := rows.Swap(t.Context(), walk.Leases, key, nil, []byte("short"), 0); !swapped || err != nil {
		t.Fatal(swapped, err)
	}
	if held, err := walk.NewLease(rows, 1, "a", lasts).Hold(t.Context(), noon); held || !errors.Is(err, mayfly.Corrupt) {
		t.Errorf("held %t, %v", held, err)
	}
}
