package resp_test

import (
	"bufio"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/kvpebble"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// Among a million keys that are not due (ten in the long form), on the disk and with the
// memory of a server as it is installed, each of 1,000 keys is found until the last
// millisecond before its expiry, and from the next on it is not; its event comes within a
// second. Time is virtual: it stands still while anything computes, so that a busy machine
// changes nothing (K1, K2).
func TestKeysAreGoneAtTheirMillisecondAmongMillions(t *testing.T) {
	pace.Heavy(t, "it writes a million keys")
	const due, together = 1000, 300 // of the due keys, so many at one instant
	others := 1_000_000
	if pace.Long() {
		others = 10_000_000
	}
	random := fixture.Seeded(t)
	synctest.Test(t, func(t *testing.T) {
		pipes := fixture.NewPipeListener()
		e := serve(t, change{
			listener: pipes,
			settings: func(s *kv.Settings) { s.Events, s.Quota = true, 0 },
			store:    func(store.KV) store.KV { return openKeys(t) },
		})
		e.realTime.Store(true)
		now := func() mayfly.Instant { return mayfly.InstantOf(time.Now()) }
		connect := func() *client {
			nc, err := pipes.Dial(t.Context())
			e.Must(err)
			t.Cleanup(func() { _ = nc.Close() })
			c := &client{t, nc, bufio.NewReader(nc)}
			c.want("OK", "AUTH", "cache", e.key.Reveal())
			return c
		}
		c, events := connect(), connect()
		events.want(`["subscribe" "__keyevent@0__:expired" (1)]`, "SUBSCRIBE", "__keyevent@0__:expired")
		e.Must(events.nc.SetReadDeadline(time.Time{}))
		begin := now().Add(time.Minute)
		instant := func() mayfly.Instant { return begin.Add(time.Duration(random.IntN(20_000)) * time.Millisecond) }
		expiry, at := map[string]mayfly.Instant{}, map[mayfly.Instant][]string{}
		common := instant()
		for i := range due {
			d := instant()
			if i < together {
				d = common
			}
			key := fmt.Sprintf("due:%d", i)
			expiry[key], at[d] = d, append(at[d], key)
		}
		// Before all others, so that they are in sorted files: half of them with another
		// expiry, which is replaced when the others are there.
		set := func(key string, d mayfly.Instant) { c.want("OK", "SET", key, "v", "PXAT", fmt.Sprint(int64(d))) }
		for i := range due {
			key := fmt.Sprintf("due:%d", i)
			d := expiry[key]
			if i%2 == 0 {
				d = d.Add(24 * time.Hour)
			}
			set(key, d)
		}
		space, err := e.kv.OpenOwned(t.Context(), fixture.Ana(), "cache")
		e.Must(err)
		fill(t, space, e.read(), others, func(int) time.Duration { return time.Hour + time.Duration(random.Int64N(int64(24*time.Hour))) })
		for i := 0; i < due; i += 2 {
			key := fmt.Sprintf("due:%d", i)
			set(key, expiry[key])
		}

		var reading sync.WaitGroup
		heard := map[string]time.Duration{} // how late the event of a key was
		reading.Go(func() {
			for len(heard) < due {
				text, err := readAnswer(events.in)
				key, found := strings.CutPrefix(strings.TrimSuffix(text, `"]`), `["message" "__keyevent@0__:expired" "`)
				if _, again := heard[key]; err != nil || !found || again || expiry[key] == 0 {
					t.Errorf("got the event %s, %v", text, err)
					return
				}
				heard[key] = now().Sub(expiry[key])
			}
		})

		var instants []mayfly.Instant
		for d := range at {
			instants = append(instants, d)
		}
		slices.Sort(instants)
		early, late := 0, 0
		read := func(d mayfly.Instant, keys []string) (found int) {
			time.Sleep(time.Until(d.Time()))
			answer := c.do(append([]string{"MGET"}, keys...)...)
			if now() != d {
				t.Fatalf("it is %s, and was to be %s", now(), d)
			}
			return strings.Count(answer, `"v"`)
		}
		for _, d := range instants {
			keys := at[d]
			early += len(keys) - read(d-1, keys)
			late += read(d, keys)
		}
		reading.Wait()
		latest := time.Duration(0)
		for key, after := range heard {
			latest = max(latest, after)
			if after < 0 || after > time.Second {
				t.Errorf("the event of %s came %s after its expiry", key, after)
			}
		}
		lost := 0
		for range 1000 {
			if c.do("EXISTS", otherKey(random.IntN(others))) != "(1)" {
				lost++
			}
		}
		if early > 0 || late > 0 || lost > 0 {
			t.Errorf("%d of %d due keys were not found a millisecond before their expiry, %d were found at it; %d of 1,000 others are lost", early, due, late, lost)
		}
		const proof = "keys exact to the millisecond"
		storetest.Proof(t, proof, "keys that are not due", others)
		storetest.Proof(t, proof, "due keys, found after their expiry, not found before it", fmt.Sprintf("%d, %d, %d", due, late, early))
		storetest.Proof(t, proof, "events, the latest after its key's expiry", fmt.Sprintf("%d, %s", len(heard), latest))
	})
}

// openKeys opens the embedded store of keys on the disk, with as much memory as kv.memory
// gives it by default.
func openKeys(t *testing.T) store.KV {
	t.Helper()
	s, err := kvpebble.Open(kvpebble.Options{FS: vfs.Default, Dir: t.TempDir(), MemtableBytes: 5 << 20, CacheBytes: 25 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func otherKey(i int) string { return fmt.Sprintf("other:%09d", i) }

const otherValue = "a value of thirty-two bytes here"

// fill writes keys that live for some time, in large groups.
func fill(t *testing.T, space *kv.Space, at clock.Reading, n int, lifetime func(i int) time.Duration) {
	t.Helper()
	const group = 10_000
	value := []byte(otherValue)
	for from := 0; from < n; from += group {
		ops := make([]kv.Op, min(group, n-from))
		for i := range ops {
			ops[i] = kv.Op{Key: otherKey(from + i), Action: kv.Set, Value: value, Expiry: at.Now.Add(lifetime(from + i))}
		}
		if _, err := space.Apply(t.Context(), at, kv.Group{Ops: ops}); err != nil {
			t.Fatal(err)
		}
	}
}
