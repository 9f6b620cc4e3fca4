package cassandrastore

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

const kvNow = mayfly.Instant(1_800_000_000_000)

func TestTheTTLOfAnEntryEndsAfterItsExpiry(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		what string
		meta kvMeta
		want time.Duration
	}{
		{"never expires", kvMeta{}, 0},
		{"expires in an hour", kvMeta{expiry: kvNow.Add(time.Hour)}, 25 * time.Hour},
		{"expires in a millisecond", kvMeta{expiry: kvNow + 1}, day + time.Second},
		{"expires in six years", kvMeta{expiry: kvNow.Add(6 * 365 * day)}, 0},
		{"expires at the end of time", kvMeta{expiry: math.MaxInt64}, 0},
		{"a deletion of nothing", kvMeta{}.hiding(kvMeta{}), 10 * day},
		{"a deletion of what has expired", kvMeta{}.hiding(kvMeta{expiry: kvNow.Add(-time.Hour)}), 10 * day},
		{"a deletion of what expires in thirty days", kvMeta{}.hiding(kvMeta{expiry: kvNow.Add(30 * day)}), 40 * day},
		{"a second deletion of it", kvMeta{}.hiding(kvMeta{}.hiding(kvMeta{expiry: kvNow.Add(30 * day)})), 40 * day},
		{"a deletion of what has no TTL", kvMeta{}.hiding(kvMeta{expiry: math.MaxInt64}), 0},
	} {
		if got := time.Duration(c.meta.ttl(kvNow)) * time.Second; got != c.want {
			t.Errorf("%s: the TTL is %s, want %s", c.what, got, c.want)
		}
	}
}

func TestTheDataOfAnEntryIsReadBack(t *testing.T) {
	for _, m := range []kvMeta{
		{}, {nonce: [8]byte{1, 7: 2}, version: math.MaxUint64, written: -1, expiry: math.MaxInt64, size: math.MaxUint32}, kvMeta{version: 1}.hiding(kvMeta{expiry: 5}),
	} {
		if got, err := readKVMeta(m.bytes()); err != nil || got != m {
			t.Errorf("%+v is read as %+v, %v", m, got, err)
		}
	}
	good := kvMeta{}.bytes()
	for _, b := range [][]byte{nil, good[1:], append([]byte{0}, good...), make([]byte, len(good))} {
		if _, err := readKVMeta(b); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%x is read: %v", b, err)
		}
	}
}

// slotOf is a slot of these rows.
func slotOf(version uint64, rows map[string]kvMeta) slotState {
	st := slotState{version: version, head: kvMeta{version: version, nonce: [8]byte{9}}.bytes(), rows: map[string]kvRow{}}
	for key, m := range rows {
		st.rows[key] = kvRow{kvMeta: m, value: make([]byte, m.size)}
	}
	return st
}

func TestABatchWhoseAnswerWasLostIsSettledByNonceAndVersion(t *testing.T) {
	ours, theirs := [8]byte{1}, [8]byte{2}
	head := kvMeta{nonce: ours, version: 7}
	writes := []kvWrite{{key: "a", meta: kvMeta{nonce: ours, version: 6}}, {key: "b", meta: kvMeta{nonce: ours, version: 7}}}
	for _, c := range []struct {
		what string
		now  slotState
		want settled
	}{
		{"the head is ours", slotState{head: head.bytes()}, landed},
		{"a row is ours", slotOf(9, map[string]kvMeta{"a": {nonce: theirs, version: 9}, "b": {nonce: ours, version: 7}}), landed},
		{"a row is older", slotOf(9, map[string]kvMeta{"a": {nonce: theirs, version: 9}, "b": {nonce: theirs, version: 3}}), notLanded},
		{"a row is missing", slotOf(9, map[string]kvMeta{"a": {nonce: theirs, version: 9}}), notLanded},
		{"all rows were replaced", slotOf(9, map[string]kvMeta{"a": {nonce: theirs, version: 8}, "b": {nonce: theirs, version: 9}}), inDoubt},
		{"another batch has taken our versions", slotOf(7, map[string]kvMeta{"a": {nonce: theirs, version: 6}, "b": {nonce: theirs, version: 7}}), inDoubt},
	} {
		if got := settleWrites(head, writes, c.now); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// A batch without an answer may hang in a server and be done later. It is reported as not
// done only when the slot has another head than the one that it replaces.
func TestABatchThatMayStillBeOnItsWayIsShutOut(t *testing.T) {
	lost := errors.New("no answer")
	head := kvMeta{nonce: [8]byte{1}, version: 6}
	writes := []kvWrite{{key: "a", meta: kvMeta{nonce: head.nonce, version: 6}}}
	for _, before := range [][]byte{nil, slotOf(5, nil).head} {
		for _, c := range []struct {
			what    string
			answers []error // to the new heads
			late    int     // the batch is done before this many new heads
			reads   error
			want    settled
		}{
			{"the new head is written", []error{nil}, 9, nil, notLanded},
			{"the answer to the second new head is lost, too", []error{lost, lost}, 9, nil, notLanded},
			{"the batch is done before the new head", []error{nil}, 0, nil, landed},
			{"the batch is done after a new head was lost", []error{lost, nil}, 1, nil, landed},
			{"no new head arrives", slices.Repeat([]error{lost}, readBacks), 9, nil, inDoubt},
			{"the rows cannot be read", nil, 9, lost, inDoubt},
		} {
			state, heads := slotState{head: before, version: 5, rows: map[string]kvRow{}}, 0
			if before == nil {
				state.version = 0
			}
			was := state.version
			outcome, err := settleSlot(before, head, writes, lostBatch{
				readBack: func() (slotState, error) { return state, c.reads },
				replaceHead: func(m kvMeta) error {
					if heads == c.late { // the condition of a late batch holds until a new head is there
						state.head, state.rows["a"] = head.bytes(), kvRow{kvMeta: writes[0].meta}
					}
					answer := c.answers[heads]
					if heads++; bytes.Equal(state.head, before) && (answer == nil || heads == len(c.answers) && c.want != inDoubt) {
						state.head = m.bytes()
					}
					if m.version != was {
						t.Errorf("%s: the new head has version %d, want %d", c.what, m.version, was)
					}
					return answer
				},
			})
			shut := !bytes.Equal(state.head, before)
			if outcome != c.want || (err != nil) != (c.want == inDoubt || len(c.answers) > 1 && c.answers[heads-1] != nil) {
				t.Errorf("%s: %d, want %d; %v", c.what, outcome, c.want, err)
			}
			if outcome == notLanded && !shut {
				t.Errorf("%s: the batch may still be done", c.what)
			}
		}
	}
}

func turnOf(s store.KVSpace, ops ...store.KVOp) *kvTurn {
	g := store.KVGroup{Ops: ops}
	return &kvTurn{space: &s, now: kvNow, group: &g, keys: g.Keys()}
}

func TestAGroupIsDecidedFromTheRowsOfItsSlot(t *testing.T) {
	state := slotOf(5, map[string]kvMeta{
		"live": {version: 3, size: 10}, "expired": {version: 4, size: 10, expiry: kvNow}, "deleted": {version: 5, deleted: true, expiry: kvNow + 9},
	})
	version := func(op int) uint64 { return 6 + uint64(op) }
	decide := func(turn *kvTurn) ([]store.KVResult, []kvWrite) {
		t.Helper()
		results, writes, err := turn.decide(state, [8]byte{1}, version)
		if err != nil {
			t.Fatal(err)
		}
		return results, writes
	}
	for _, key := range []string{"expired", "deleted", "absent"} {
		results, writes := decide(turnOf(store.KVSpace{}, store.KVOp{Key: key, Action: store.KVSet, If: store.KVIfPresent}, store.KVOp{Key: key, Action: store.KVDelete}))
		if len(writes) != 0 || results[0].Done || results[1].Done {
			t.Errorf("%s: %+v writes %+v", key, results, writes)
		}
	}
	_, writes := decide(turnOf(store.KVSpace{}, store.KVOp{Key: "live", Action: store.KVDelete}, store.KVOp{Key: "deleted", Action: store.KVSet, If: store.KVIfAbsent, Value: []byte("v")}))
	if len(writes) != 2 || !writes[0].meta.deleted || writes[0].meta.version != 6 || writes[1].meta.deleted || writes[1].meta.version != 7 || string(writes[1].cell()) != "\x01\x00\x00\x00\x00\x00\x00\x00v" {
		t.Errorf("writes %+v", writes)
	}
	watching := turnOf(store.KVSpace{}, store.KVOp{Key: "live", Action: store.KVDelete})
	watching.group.Watch = []store.KVEntry{{Key: "live", Found: true, Version: 2}}
	if _, _, err := watching.decide(state, [8]byte{}, version); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("a watched key that has changed: %v", err)
	}
	for used, want := range map[int64]bool{85: false, 86: true} { // ten more for the key absent, five more for live
		full := turnOf(store.KVSpace{Quota: 100}, store.KVOp{Key: "absent", Action: store.KVSet, Value: make([]byte, 4)}, store.KVOp{Key: "live", Action: store.KVSet, Value: make([]byte, 15)})
		full.used = used
		if _, _, err := full.decide(state, [8]byte{}, version); errors.Is(err, mayfly.Full) != want {
			t.Errorf("%d bytes are used: %v", used, err)
		}
	}
	if _, _, err := turnOf(store.KVSpace{}, store.KVOp{Key: "k", Action: store.KVSet, Value: make([]byte, kvGroupBytes)}).decide(state, [8]byte{}, version); !errors.Is(err, mayfly.TooLarge) {
		t.Errorf("a value that is too large: %v", err)
	}
}

func TestADeletionIsLaterThanWhatItHasReadAlsoFromAClockThatIsAhead(t *testing.T) {
	s := &Store{keyspace: newKVState(func() mayfly.Instant { return kvNow })}
	first := s.keyspace.stamps.next()
	ahead := uint64(kvNow.Add(time.Minute)) * microseconds
	state := slotOf(0, map[string]kvMeta{"k": {version: ahead}, "old": {version: 1}})
	s.seen(&store.KVSpace{}, state) // versions of a compare-and-set namespace are no timestamps
	if got := s.keyspace.stamps.next(); got != first+1 {
		t.Errorf("the timestamp is %d after %d", got, first)
	}
	s.seen(&store.KVSpace{LastWriteWins: true}, state)
	if got := uint64(s.keyspace.stamps.next()); got != ahead+1 {
		t.Errorf("the timestamp is %d after a version of %d", got, ahead)
	}
}

func TestTheEndOfAPrefixIsBehindAllItsKeys(t *testing.T) {
	for prefix, want := range map[string]string{"\x01": "\x02", "\x01a": "\x01b", "\x01\xff": "\x02", "\x01a\xff\xff": "\x01b"} {
		if got := string(behind(prefix)); got != want {
			t.Errorf("behind %q is %q, want %q", prefix, got, want)
		}
	}
}

func TestStatisticsAreUsedForTheirAgeAndRenewedFromHalfOfIt(t *testing.T) {
	k := &kvKnown{}
	if _, ok := k.fresh(kvNow, time.Minute); ok {
		t.Error("statistics that were never counted are used")
	}
	k.counted = kvNow
	for _, c := range []struct {
		after     time.Duration
		renew, ok bool
	}{{0, false, true}, {30 * time.Second, false, true}, {31 * time.Second, true, true}, {time.Minute, true, false}, {-time.Second, true, false}} {
		if renew, ok := k.fresh(kvNow.Add(c.after), time.Minute); renew != c.renew || ok != c.ok {
			t.Errorf("after %s: renew %t, ok %t", c.after, renew, ok)
		}
	}
}

// A count that takes longer than its age holds up no write: one waits for it a while, and
// is then held against the last count.
func TestACountThatTakesLongHoldsUpNoWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := func() mayfly.Instant { return mayfly.InstantOf(time.Now()) }
		s := &Store{opts: Options{Now: now, StatsAge: time.Minute}, keyspace: newKVState(now)}
		space := store.KVSpace{Name: "n", Quota: 1000}
		known := s.keyspace.of(kvSpace(&space))
		known.counted, known.stats = now(), store.KVStats{Bytes: 900}
		known.counting = make(chan struct{}) // a count is under way, and never ends
		for _, c := range []struct{ after, wait time.Duration }{{time.Second, 0}, {45 * time.Second, 0}, {10 * time.Minute, countWait}} {
			time.Sleep(c.after)
			begin := time.Now()
			used, err := s.used(t.Context(), &space, now())
			if took := time.Since(begin); err != nil || used != 900 || took != c.wait {
				t.Errorf("after %s: %d bytes, %v, a wait of %s, want %s", c.after, used, err, took, c.wait)
			}
		}
	})
}

func TestAGroupThatHasWaitedFindsWhatExpiredMeanwhileAbsent(t *testing.T) {
	state := slotOf(5, map[string]kvMeta{"k": {version: 3, expiry: kvNow + 1000}})
	turn := turnOf(store.KVSpace{}, store.KVOp{Key: "k", Action: store.KVTouch, Expiry: kvNow.Add(time.Hour)})
	turn.Store = &Store{opts: Options{kvFresh: defaultKVFresh}}
	turn.begun, turn.elapsed = kvNow, func() time.Duration { return time.Second }
	for _, want := range []bool{true, false} {
		results, _, err := turn.decide(state, [8]byte{1}, func(int) uint64 { return 6 })
		if err != nil || results[0].Done != want {
			t.Errorf("at %d the touch is done: %t, want %t; %v", turn.now-kvNow, results[0].Done, want, err)
		}
		turn.waited()
	}
}
