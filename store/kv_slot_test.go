package store_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The slots are those that CLUSTER KEYSLOT of redis-server 7.0.15 returns.
func TestAKeyHasTheSlotThatRedisClusterGivesIt(t *testing.T) {
	for key, want := range map[string]uint16{
		"": 0, "123456789": 0x31c3, "foo": 12182, "bar": 5061, "somekey": 11058, "foo{hash_tag}": 2515, "bar{hash_tag}": 2515, "hash_tag": 2515,
		"{user1000}.following": 3443, "user1000": 3443, "foo{}{bar}": 8363, "foo{{bar}}zap": 4015, "{bar": 4015, "foo{bar}{zap}": 5061, "{}": 15257, "}{a}": 15495, "a": 15495,
	} {
		if got := store.KVSlot(key); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
}

func TestKeysOfSeveralSlotsAreRefusedInTheWordsOfRedis(t *testing.T) {
	if slot, err := store.KVOneSlot("{a}1", "x{a}", "a"); err != nil || slot != 15495 {
		t.Errorf("keys of one tag: slot %d, %v", slot, err)
	}
	_, err := store.KVOneSlot("a", "b")
	var cause store.KVCrossSlot
	if !errors.Is(err, mayfly.Unsupported) || !errors.As(err, &cause) || cause.Error() != "Keys in request don't hash to the same slot" {
		t.Errorf("keys of two slots: %v", err)
	}
}

func TestWhatNeedsAgreementIsRefusedInALastWriteWinsSpace(t *testing.T) {
	update := func(store.KVEntry) ([]byte, error) { return nil, nil }
	watch := []store.KVEntry{{Key: "w"}}
	fine := []store.KVOp{{Action: store.KVRead, Old: true}, {Action: store.KVSet}, {Action: store.KVSet, Expiry: 5}, {Action: store.KVDelete}}
	refused := []store.KVOp{
		{Action: store.KVTouch},
		{Action: store.KVUpdate, Update: update},
		{Action: store.KVSet, KeepExpiry: true},
		{Action: store.KVSet, Old: true},
		{Action: store.KVDelete, Old: true},
	}
	for c := store.KVIfAbsent; c <= store.KVIfSooner; c++ {
		refused = append(refused, store.KVOp{Action: store.KVSet, If: c})
	}
	check := func(s store.KVSpace, g store.KVGroup, want bool) {
		t.Helper()
		if err := g.CheckCluster(&s); errors.Is(err, mayfly.Unsupported) != want || (err != nil) != want {
			t.Errorf("%+v of %s: %v", s, fmt.Sprint(g), err)
		}
	}
	plain, swapped := store.KVSpace{Name: "n", LastWriteWins: true}, store.KVSpace{Name: "n"}
	for _, o := range fine {
		check(plain, store.KVGroup{Ops: []store.KVOp{o}}, false)
		check(plain, store.KVGroup{Ops: []store.KVOp{o}, Watch: watch}, true)
	}
	for _, o := range refused {
		check(plain, store.KVGroup{Ops: []store.KVOp{fine[1], o}}, true)
		check(swapped, store.KVGroup{Ops: []store.KVOp{o}, Watch: watch}, false)
	}
	check(store.KVSpace{Name: "n", Events: true}, store.KVGroup{Ops: fine}, true)
}
