package resp_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/resp"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// hookedKV is a store that calls before with the keys of each read and group, and knows
// the largest answer of one call.
type hookedKV struct {
	store.KV

	mu      sync.Mutex
	before  func(keys []string)
	largest int // bytes of values
}

func hooked(h **hookedKV) change {
	return change{store: func(s store.KV) store.KV { *h = &hookedKV{KV: s}; return *h }}
}

// onceAt calls do before the next read or group of one operation, which is on the key.
func (h *hookedKV) onceAt(key string, do func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before = func(keys []string) {
		if len(keys) == 1 && keys[0] == key {
			h.before = nil
			do()
		}
	}
}

func (h *hookedKV) call(keys []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.before != nil {
		h.before(keys)
	}
}

func (h *hookedKV) answered(size int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.largest = max(h.largest, size)
}

func (h *hookedKV) wantLargest(t *testing.T, most int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.largest > most {
		t.Errorf("one call of the store answered with %d bytes, want at most %d", h.largest, most)
	}
}

func (h *hookedKV) Get(ctx context.Context, s store.KVSpace, now mayfly.Instant, keys ...string) ([]store.KVEntry, error) {
	h.call(keys)
	found, err := h.KV.Get(ctx, s, now, keys...)
	size := 0
	for _, e := range found {
		size += len(e.Value)
	}
	h.answered(size)
	return found, err
}

func (h *hookedKV) Apply(ctx context.Context, s store.KVSpace, now mayfly.Instant, g store.KVGroup) ([]store.KVResult, error) {
	h.call(g.Keys())
	results, err := h.KV.Apply(ctx, s, now, g)
	size := 0
	for _, r := range results {
		size += len(r.Old.Value) + len(r.New.Value)
	}
	h.answered(size)
	return results, err
}

func (h *hookedKV) Stats(ctx context.Context, s store.KVSpace, now mayfly.Instant) (store.KVStats, error) {
	h.call([]string{"DBSIZE"})
	return h.KV.Stats(ctx, s, now)
}

// A pipeline or transaction of a few hundred bytes that reads and writes does not make
// the store copy more values than an answer may have (I17, C9).
func TestAnswersOfGroupsThatWriteAreBounded(t *testing.T) {
	var h *hookedKV
	e := serve(t, hooked(&h))
	c := e.connect()
	const size, reads = 1 << 20, 60
	big := strings.Repeat("x", size)
	c.want("OK", "SET", "big", big)
	for _, command := range [][]string{{"GET", "big"}, {"GETEX", "big", "EX", "1000"}, {"APPEND", "big", ""}} {
		c.send(strings.Repeat(encode(command...), reads) + encode("SET", "a", "b"))
		for range reads {
			if got := c.answer(); len(got) != size+2 && got != fmt.Sprintf("(%d)", size) {
				t.Fatalf("%s: an answer of %d bytes: %.80s", command[0], len(got), got)
			}
		}
		if got := c.answer(); got != "OK" {
			t.Errorf("got %s", got)
		}
		h.wantLargest(t, size)
		c.want("OK", "MULTI")
		c.want("QUEUED", "SET", "not", "written")
		for range reads {
			c.want("QUEUED", command...)
		}
		c.want("-ERR the answer has more than 33554432 bytes; ask for fewer keys", "EXEC")
		c.want("(0)", "EXISTS", "not")
	}
	h.wantLargest(t, size)
}

// The memory of an answer is taken before the store copies the values, and given back.
func TestAnswersShareTheMemory(t *testing.T) {
	var h *hookedKV
	e := serve(t, hooked(&h), change{options: func(o *resp.Options) { o.Memory = 8 << 20 }})
	c := e.connect()
	value := strings.Repeat("x", 1<<20)
	c.want("OK", "MSET", "a", value, "b", value)
	const busy = "-TRYAGAIN large answers take the memory: try again"
	for range 20 {
		for _, keys := range [][]string{{"a"}, {"a", "b"}} {
			if got := c.do(append([]string{"MGET"}, keys...)...); !strings.HasPrefix(got, "[\"xx") {
				t.Fatalf("MGET of %d keys: %.80s", len(keys), got)
			}
		}
		c.want(busy, "MGET", "a", "b", "a", "b")
		c.want(`"`+value+`"`, "GET", "a")
	}
	h.wantLargest(t, 2<<20)
}

// The operations of a command take memory in proportion to its arguments.
func TestManyArgumentsTakeMemory(t *testing.T) {
	e := serve(t, change{options: func(o *resp.Options) { o.Memory = 32 << 20 }})
	c := e.connect()
	const full = "-OOM command not allowed when used memory > 'maxmemory'"
	for _, name := range []string{"MGET", "DEL", "EXISTS"} {
		c.want(full, append([]string{name}, bytesOf("k", 65_535)...)...)
		if got := c.do(append([]string{name}, bytesOf("k", 1000)...)...); strings.HasPrefix(got, "-") {
			t.Errorf("%s of 1,000 keys: %s", name, got)
		}
		c.want("OK", "MULTI")
		c.want("QUEUED", append([]string{name}, bytesOf("k", 65_535)...)...)
		c.want(full, "EXEC")
	}
	c.want("PONG", "PING")
}

// Commands of one pipeline that are executed one after the other, because the group was
// refused, are executed each by the time of then (K2, I9).
func TestCommandsAreDecidedByTheTimeWhenTheyAreExecuted(t *testing.T) {
	var h *hookedKV
	e := serve(t, hooked(&h), change{settings: func(s *kv.Settings) { s.Quota = 1000 }})
	c := e.connect()
	for _, key := range []string{"first", "secret", "other", "n"} {
		c.want("OK", "SET", key, "1", "PX", "1000")
	}
	tooBig := encode("SET", "full", strings.Repeat("y", 1500))
	h.onceAt("first", func() { e.pass(time.Second) })
	c.send(encode("GET", "first") + encode("GET", "secret") + encode("PEXPIRE", "other", "100000") + encode("INCR", "n") + encode("SET", "new", "v", "PX", "500") + encode("PTTL", "new") + tooBig)
	for _, want := range []string{`"1"`, "nil", "(0)", "(1)", "OK", "(500)", "-OOM command not allowed when used memory > 'maxmemory'. (delete entries or raise the quota)"} {
		if got := c.answer(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	c.want("(-1)", "PTTL", "n")
	c.want("nil", "GET", "other")

	c.want("OK", "SET", "secret", "hello", "PX", "1000")
	h.onceAt("DBSIZE", func() { e.pass(time.Second) })
	c.send(encode("DBSIZE") + encode("GET", "secret"))
	c.answer()
	if got := c.answer(); got != "nil" {
		t.Errorf("got %s of a key that has expired", got)
	}
}

// While the answers of a pipeline are sent, the key of the connection may be removed.
func TestARemovedKeyEndsAPipeline(t *testing.T) {
	var h *hookedKV
	e := serve(t, hooked(&h), change{settings: func(s *kv.Settings) { s.Quota = 1000 }})
	c := e.connect()
	n, err := e.kv.Describe(e.Context(), fixture.Ana(), "cache")
	e.Must(err)
	c.want("OK", "MSET", "first", "1", "secret", "hello")
	h.onceAt("first", func() {
		e.Must(e.kv.RemoveKey(e.Context(), fixture.Ana(), "cache", n.Keys[0].ID))
		e.pass(time.Second)
	})
	c.send(encode("GET", "first") + encode("GET", "secret") + encode("SET", "secret", "w") + encode("SET", "full", strings.Repeat("y", 1500)))
	for _, want := range []string{`"1"`, "-NOAUTH Authentication required.", "-NOAUTH Authentication required."} {
		if got := c.answer(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	c.answer()
	c.wantEnd()
}

// What works on all entries cannot be done at its place among the others of a group.
func TestWhatWorksOnAllKeysIsRefusedInTransactions(t *testing.T) {
	e := serve(t, change{options: func(o *resp.Options) { o.Risky = true }})
	c := e.connect()
	c.want("OK", "SET", "old", "1")
	for _, command := range []string{"FLUSHDB", "DBSIZE", "SCAN 0", "KEYS *", "INFO"} {
		c.want("OK", "MULTI")
		c.want("-ERR Command not allowed inside a transaction", strings.Fields(command)...)
		c.want("QUEUED", "SET", "new", "1")
		c.want("-EXECABORT Transaction discarded because of previous errors.", "EXEC")
		c.want(`["1" nil]`, "MGET", "old", "new")
	}
}

// All reads of one command or transaction are of one instant: between two calls of the
// store another client may write.
func TestReadsOfOneCommandAreOneCallOfTheStore(t *testing.T) {
	var counting *countingKV
	e := serve(t, change{store: func(s store.KV) store.KV { counting = &countingKV{KV: s}; return counting }})
	c := e.connect()
	keys := make([]string, 3000)
	for i := range keys {
		keys[i] = fmt.Sprintf("k%d", i)
	}
	c.do(append([]string{"MGET"}, keys...)...)
	if n := counting.gets.Load(); n != 1 {
		t.Errorf("MGET of %d keys took %d reads", len(keys), n)
	}
	c.want("OK", "MULTI")
	for _, key := range keys[:40] {
		c.want("QUEUED", "GET", key)
	}
	c.do("EXEC")
	if n := counting.gets.Load(); n != 2 {
		t.Errorf("EXEC of 40 GETs took %d reads", n-1)
	}
}

func TestARateCountsWhatCommandsCost(t *testing.T) {
	const limited = "-TRYAGAIN rate limit of the namespace exceeded"
	perHour := change{settings: func(s *kv.Settings) { s.Rate = kv.Rate{Count: 10, Per: time.Hour} }, options: func(o *resp.Options) { o.Risky = true }}
	refused := func(c *client, what, got string) {
		t.Helper()
		if !strings.HasPrefix(got, limited) && !strings.HasPrefix(got, "-ERR 11 operations at once; the rate of the namespace is 10 in 1h0m0s") {
			t.Errorf("%s: got %.200s", what, got)
		}
	}
	e := serve(t, perHour)
	c := e.connect()
	c.send(strings.Repeat(encode("SET", "k", "v"), 11))
	for range 11 {
		refused(c, "a pipeline of 11 commands", c.answer())
	}
	c.want("OK", "MULTI")
	for range 11 {
		c.want("QUEUED", "SET", "k", "v")
	}
	refused(c, "EXEC of 11 commands", c.do("EXEC"))
	refused(c, "MGET of 11 keys", c.do(append([]string{"MGET"}, bytesOf("k", 11)...)...))
	c.want("nil", "GET", "k") // nothing was done
	c.want("[nil nil nil nil nil nil nil nil nil]", append([]string{"MGET"}, bytesOf("k", 9)...)...)
	for _, command := range []string{"GET k", "SCAN 0", "DBSIZE", "INFO", "WATCH k", "KEYS *", "FLUSHDB", "SET k"} {
		if got := c.do(strings.Fields(command)...); !strings.HasPrefix(got, limited) && command != "SET k" {
			t.Errorf("%s: got %.200s", command, got)
		}
	}
	c.want("PONG", "PING")
	e.pass(time.Hour)
	if got := c.do("SCAN", "0", "COUNT", "10000"); got != `["0" []]` { // ten pages
		t.Errorf("got %s", got)
	}
	refused(c, "GET after a SCAN of ten pages", c.do("GET", "k"))
}

// One owner of namespaces cannot take the memory that the clients of all share.
func TestAnOwnerLeavesMemoryToOthers(t *testing.T) {
	e := serve(t, change{options: func(o *resp.Options) { o.Memory = 8 << 20 }})
	_, key, err := e.kv.Create(t.Context(), fixture.Ben(), "bens", e.kv.Defaults(), fixture.Start)
	e.Must(err)
	_, second, err := e.kv.Create(t.Context(), fixture.Ana(), "second", e.kv.Defaults(), fixture.Start)
	e.Must(err)
	held := 0
	for _, own := range []struct {
		name string
		key  mayfly.Secret
	}{{"cache", e.key}, {"second", second}} {
		c := dial(t, e.address)
		c.want("OK", "AUTH", own.name, own.key.Reveal())
		c.want("OK", "MULTI")
		before := held
		for held-before < 1500_000 && c.do("SET", "k", strings.Repeat("x", 100_000)) == "QUEUED" {
			held += 100_000
		}
		c.want("QUEUED", "PING")
	}
	if held != 3000_000 {
		t.Errorf("the namespaces of one owner hold %d bytes of 8 MiB", held)
	}
	c := e.connect()
	c.want("OK", "MULTI")
	for range 20 {
		held += 100_000
		if c.do("SET", "k", strings.Repeat("x", 100_000)) != "QUEUED" {
			break
		}
	}
	if held > 4<<20 {
		t.Errorf("the namespaces of one owner hold %d bytes of 8 MiB", held)
	}
	c = dial(t, e.address)
	c.want("OK", "AUTH", "bens", key.Reveal())
	for range 3 {
		c.want("OK", "SET", "mine", strings.Repeat("x", 1<<20))
	}
}

// Commands that keep a connection do not keep the memory of its transaction.
func TestAnOldTransactionIsForgotten(t *testing.T) {
	const idle = 500 * time.Millisecond
	e := serve(t, change{options: func(o *resp.Options) { o.Memory, o.Idle = 8<<20, idle }})
	c := e.connect()
	value := strings.Repeat("x", 1900<<10) // another one does not fit beside it
	c.want("OK", "MULTI")
	begun := time.Now()
	c.want("QUEUED", "SET", "k", value)
	for time.Since(begun) < idle {
		c.want("-ERR WATCH inside MULTI is not allowed", "WATCH", "k")
	}
	c.want("QUEUED", "PING")
	other := e.connect()
	other.want("OK", "MULTI")
	other.want("QUEUED", "SET", "k", value)
	c.want("-EXECABORT Transaction discarded because of previous errors.", "EXEC")
	c.want("PONG", "PING")
}

// A key that was removed opens nothing, and a subscriber hears what expires, also after
// a step of the clock was taken back (L7).
func TestAStepOfTheClockThatIsTakenBackChangesNothing(t *testing.T) {
	e := serve(t, change{settings: func(s *kv.Settings) { s.Events = true }})
	c, w, events := e.connect(), e.connect(), e.connect()
	e.pass(time.Second)
	e.doubt.Store(true)
	c.want("nil", "GET", "k") // by the stepped time it looks whether its key is good
	events.want(`["subscribe" "__keyevent@0__:expired" (1)]`, "SUBSCRIBE", "__keyevent@0__:expired")
	e.doubt.Store(false)
	w.want("OK", "SET", "dies", "v", "PX", "100")
	e.pass(100 * time.Millisecond)
	if got, want := events.answer(), `["message" "__keyevent@0__:expired" "dies"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	n, err := e.kv.Describe(e.Context(), fixture.Ana(), "cache")
	e.Must(err)
	e.Must(e.kv.RemoveKey(e.Context(), fixture.Ana(), "cache", n.Keys[0].ID))
	e.pass(time.Second)
	c.want("-NOAUTH Authentication required.", "GET", "k")
	c.wantEnd()
}

// An expiry that could not be written down as a duration or as an instant is refused by
// every command that sets one, and changes nothing.
func TestAnExpiryTooFarAheadIsRefused(t *testing.T) {
	e := serve(t)
	c := e.connect()
	last := int64(fixture.Start.Add(kv.MaxTTL))
	for _, command := range []struct {
		line  string // with the place of the expiry
		from  int64
		unit  int64
		reply string
	}{
		{"SET k v EX %d", int64(fixture.Start), 1000, "OK"},
		{"SET k v PX %d", int64(fixture.Start), 1, "OK"},
		{"SET k v EXAT %d", 0, 1000, "OK"},
		{"SET k v PXAT %d", 0, 1, "OK"},
		{"SETEX k %d v", int64(fixture.Start), 1000, "OK"},
		{"PSETEX k %d v", int64(fixture.Start), 1, "OK"},
		{"GETEX k EX %d", int64(fixture.Start), 1000, `"v"`},
		{"GETEX k PX %d", int64(fixture.Start), 1, `"v"`},
		{"GETEX k EXAT %d", 0, 1000, `"v"`},
		{"GETEX k PXAT %d", 0, 1, `"v"`},
		{"EXPIRE k %d", int64(fixture.Start), 1000, "(1)"},
		{"PEXPIRE k %d", int64(fixture.Start), 1, "(1)"},
		{"EXPIREAT k %d", 0, 1000, "(1)"},
		{"PEXPIREAT k %d", 0, 1, "(1)"},
	} {
		good := (last - command.from) / command.unit
		c.want(command.reply, strings.Fields(fmt.Sprintf(command.line, good))...)
		kept := fmt.Sprintf("(%d)", good*command.unit+command.from)
		c.want(kept, "PEXPIRETIME", "k")
		name := strings.ToLower(strings.Fields(command.line)[0])
		for _, n := range []int64{good + 1, 253402300800 * 1000 / command.unit, math.MaxInt64/command.unit - command.from/command.unit, math.MaxInt64/command.unit + min(1, command.unit-1), math.MaxInt64} {
			c.want("-ERR invalid expire time in '"+name+"' command", strings.Fields(fmt.Sprintf(command.line, n))...)
		}
		c.want(kept, "PEXPIRETIME", "k")
	}
	c.want("(1)", "EXPIREAT", "k", "-9223372036854775")
	c.want("nil", "GET", "k")
}
