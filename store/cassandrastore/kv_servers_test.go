//go:build servers

package cassandrastore

import (
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// openKV opens the store with statistics that are always counted anew. The instants of
// the suites are not those of the real clock, by which a group may wait on a busy machine.
func openKV(t *testing.T) store.Set {
	return store.Set{KV: openWith(t, func(o *Options) { o.StatsAge, o.kvFresh = time.Nanosecond, time.Hour }).KV()}
}

func TestCassandrastorePassesTheConformanceSuiteOfKeys(t *testing.T) {
	t.Parallel()
	storetest.KVCluster(t, "cassandrastore", openKV)
}

func TestCassandrastoreKeepsKeysLikeTheModel(t *testing.T) {
	t.Parallel()
	storetest.RandomKVCluster(t, "cassandrastore", openKV)
}

func TestADeleteOfAKeyHoldsAgainstANodeWhoseClockIsAhead(t *testing.T) {
	t.Parallel()
	ahead := openWith(t, func(o *Options) { o.Now = func() mayfly.Instant { return wall().Add(time.Minute) } }).KV()
	ours := openTestStore(t).KV()
	space := store.KVSpace{Name: fmt.Sprint("ahead", wall()), LastWriteWins: true}
	do := func(kv store.KV, o store.KVOp, want bool) {
		t.Helper()
		o.Key = "k"
		if _, err := kv.Apply(t.Context(), space, wall(), store.KVGroup{Ops: []store.KVOp{o}}); err != nil {
			t.Fatal(err)
		}
		if found, err := ours.Get(t.Context(), space, wall(), "k"); err != nil || found[0].Found != want {
			t.Errorf("found %+v, %v", found, err)
		}
	}
	set, remove := store.KVOp{Action: store.KVSet, Value: []byte("v")}, store.KVOp{Action: store.KVDelete}
	do(ahead, set, true)
	do(ours, remove, false)
	do(ours, set, true)
	do(ahead, set, true)
	if err := ours.Drop(t.Context(), space); err != nil {
		t.Fatal(err)
	}
	do(ours, store.KVOp{Action: store.KVRead}, false)
}

// A process knows a slot as listed, another one drops the namespace, and the first one
// writes to the slot again: a second drop finds it.
func TestASecondDropFindsWhatAnotherProcessHasWrittenSince(t *testing.T) {
	t.Parallel()
	ours, theirs := openTestStore(t).KV(), openTestStore(t).KV()
	for _, plain := range []bool{false, true} {
		space := store.KVSpace{Name: fmt.Sprint("dropped", plain, wall()), LastWriteWins: plain}
		set := func(kv store.KV) {
			t.Helper()
			if _, err := kv.Apply(t.Context(), space, wall(), store.KVGroup{Ops: []store.KVOp{{Key: "k", Action: store.KVSet, Value: []byte("v")}}}); err != nil {
				t.Fatal(err)
			}
		}
		want := func(keys int) {
			t.Helper()
			page, _, err := ours.Scan(t.Context(), space, wall(), "", "", 10)
			if err != nil || len(page) != keys {
				t.Errorf("last-write-wins %t: %d keys, want %d; %v", plain, len(page), keys, err)
			}
		}
		drop := func() {
			t.Helper()
			if err := ours.Drop(t.Context(), space); err != nil {
				t.Fatal(err)
			}
		}
		set(theirs)
		want(1)
		drop()
		want(0)
		set(theirs)
		want(1)
		drop()
		want(0)
	}
}

// What a server does too late is refused: the slot was given another head before the batch
// was reported as not done.
func TestALateBatchOfKeysIsRefused(t *testing.T) {
	t.Parallel()
	s := openTestStore(t)
	space := store.KVSpace{Name: fmt.Sprint("late", wall())}
	for _, written := range []bool{false, true} { // before the batch
		key := fmt.Sprint("k", written)
		if written {
			if _, err := s.KV().Apply(t.Context(), space, wall(), store.KVGroup{Ops: []store.KVOp{{Key: key, Action: store.KVSet, Value: []byte("v")}}}); err != nil {
				t.Fatal(err)
			}
		}
		turn := kvTurn{Store: s, place: placeOfSlot(&space, store.KVSlot(key)), space: &space, now: wall()}
		state, err := s.readSlot(t.Context(), readRows, turn.place, []string{key}, false)
		if err != nil {
			t.Fatal(err)
		}
		head := kvMeta{nonce: newKVNonce(), version: state.version + 1, written: wall()}
		writes := []kvWrite{{key: key, meta: kvMeta{nonce: head.nonce, version: head.version, written: wall()}}}
		outcome, err := settleSlot(state.head, head, writes, lostBatch{ // it was never sent
			readBack: func() (slotState, error) { return turn.readSlotBack(t.Context(), writes) },
			replaceHead: func(m kvMeta) error {
				_, err := turn.replaceHead(t.Context(), state.head, m, nil)
				return err
			},
		})
		if outcome != notLanded || err != nil {
			t.Fatal(outcome, err)
		}
		if yes, err := turn.replaceHead(t.Context(), state.head, head, writes); yes || err != nil { // and now it comes
			t.Errorf("written before %t: the late batch is done: %t, %v", written, yes, err)
		}
	}
}
