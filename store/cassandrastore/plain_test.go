package cassandrastore

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestAPlainWriteThatLandsAgainLateChangesNothing(t *testing.T) {
	s := openHouse(t)
	key := store.OwnerKey(mayfly.UserOf("late", fmt.Sprint(wall())), births(t, 1, "24h")[0].Item.ID)
	put := func(value string) store.Stage {
		return store.Stage{Puts: []store.Put{{Table: store.Owners, Key: key, Value: []byte(value)}}}
	}
	remove := store.Stage{Deletes: []store.Delete{{Table: store.Owners, Key: key}}}
	drop := store.Stage{Drops: []store.Drop{{Table: store.Owners, Partition: key.Partition}}}
	var sent []task
	for i, step := range []struct {
		stage store.Stage
		want  string
	}{{put("a"), "a"}, {remove, ""}, {put("b"), "b"}, {drop, ""}, {put("c"), "c"}, {put("d"), "d"}, {remove, ""}, {put("e"), "e"}} {
		tasks := s.plainTasks(step.stage)
		for _, do := range append(tasks, sent...) {
			if err := do(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		sent = append(sent, tasks...)
		got, err := s.Rows().Get(t.Context(), store.Owners, key)
		if err != nil || string(got[0]) != step.want || (got[0] == nil) != (step.want == "") {
			t.Errorf("after step %d the row is %q, want %q: %v", i, got[0], step.want, err)
		}
	}
}

func TestOnlyTablesThatMayBeReclaimedHaveATTL(t *testing.T) {
	s := openHouse(t)
	ahead := wall().Add(time.Hour)
	for _, table := range store.Tables() {
		key := store.Key{Partition: fmt.Sprint("ttl", wall()), Sort: "s"}
		if table.Declared().Mode == store.Plain {
			var b store.Batch
			b.Put(table, key, []byte("v"), ahead)
			if err := s.Writer().Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		} else if swapped, _, err := s.Rows().Swap(t.Context(), table, key, nil, []byte("v"), ahead); err != nil || !swapped {
			t.Fatalf("%s: swapped %t, %v", table, swapped, err)
		}
		var left *int
		read := "SELECT TTL(value) FROM " + tableName(table) + " WHERE partition = ? AND sort = ?"
		if err := s.query(readRows, read, []byte(key.Partition), []byte(key.Sort)).ScanContext(t.Context(), &left); err != nil {
			t.Fatal(err)
		}
		never := table == store.Owners || table == store.Reminders
		switch {
		case never && left != nil:
			t.Errorf("%s has a TTL of %d s", table, *left)
		case !never && (left == nil || *left < 3600 || *left > 3600+660):
			t.Errorf("%s: the TTL is %v, want an hour and a little", table, left)
		}
	}
}

func TestARowSwappedWithoutAReclaimTimeAfterOneStays(t *testing.T) {
	s := openHouse(t)
	key := store.Key{Partition: fmt.Sprint("kept", wall()), Sort: "s"}
	steps := []struct {
		old, new []byte
		at       mayfly.Instant
	}{{nil, []byte("a"), wall().Add(time.Hour)}, {[]byte("a"), []byte("b"), 0}}
	for _, step := range steps {
		if swapped, _, err := s.Rows().Swap(t.Context(), store.Families, key, step.old, step.new, step.at); err != nil || !swapped {
			t.Fatalf("swapped %t, %v", swapped, err)
		}
	}
	var left *int
	read := "SELECT TTL(value) FROM t_families WHERE partition = ? AND sort = ?"
	if err := s.query(readRows, read, []byte(key.Partition), []byte(key.Sort)).ScanContext(t.Context(), &left); err != nil || left != nil {
		t.Errorf("the TTL is %v, want none: %v", left, err)
	}
}

func TestStampsOfOneProcessAlwaysGrow(t *testing.T) {
	times := []mayfly.Instant{5, 5, 4, 100, 100, 3, 101}
	s := stamps{now: func() mayfly.Instant { return times[0] }}
	last := int64(0)
	for len(times) > 0 {
		for range 3 {
			if next := s.next(); next <= last {
				t.Fatalf("%d after %d", next, last)
			} else {
				last = next
			}
		}
		times = append(times[:0:0], times[1:]...)
		if len(times) == 0 {
			break
		}
	}
	if last != 101_002 {
		t.Errorf("the last stamp is %d, want 101002: the clock is followed when it is ahead", last)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := map[int64]bool{}
	still := stamps{now: func() mayfly.Instant { return 7 }}
	for range 8 {
		wg.Go(func() {
			for range 500 {
				stamp := still.next()
				mu.Lock()
				if seen[stamp] {
					t.Errorf("stamp %d twice", stamp)
				}
				seen[stamp] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestATTLIsNeverEarly(t *testing.T) {
	now := testBirth
	for _, c := range []struct {
		table store.Table
		at    mayfly.Instant
		want  int
	}{
		{store.Views, 0, 0},
		{store.Views, now.Add(-time.Hour), 600},
		{store.Views, now, 600},
		{store.Views, now + 1, 601},
		{store.Views, now.Add(time.Hour), 4200},
		{store.Views, now.Add(6 * 365 * 24 * time.Hour), 0},
		{store.Owners, now.Add(time.Hour), 0},
		{store.Reminders, now.Add(time.Hour), 0},
	} {
		if got := ttl(c.table, c.at, now); got != c.want {
			t.Errorf("ttl(%s, now%+d ms) = %d, want %d", c.table, c.at-now, got, c.want)
		}
	}
}

func TestRequestsAreBoundedAndLoseNothing(t *testing.T) {
	for _, size := range []int{1, 700, fewestBytes, 3 * fewestBytes} {
		writes := make([]plainWrite, 1001)
		for i := range writes {
			writes[i] = plainWrite{size: size}
		}
		total := 0
		for _, request := range requests(writes) {
			bytes := 0
			for _, w := range request {
				bytes += w.size
			}
			if len(request) == 0 || len(request) > mostRows || bytes >= fewestBytes+size {
				t.Errorf("writes of %d bytes: a request of %d rows, %d bytes", size, len(request), bytes)
			}
			total += len(request)
		}
		if total != len(writes) {
			t.Errorf("writes of %d bytes: %d of %d are in requests", size, total, len(writes))
		}
	}
}
