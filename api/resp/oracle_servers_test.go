//go:build servers

package resp_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/api/resp"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/kvpebble"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// The two servers do not read their clocks at the same instant, so that an answer is
// compared only if no entry that it depends on ends within slack of it.
const slack = 20 // milliseconds

// pause is how long a pipeline may take at most. If it takes longer, one of the servers
// may have read its clock so much later than the other.
const pause = 10 // milliseconds

// oracle sends the same commands to a redis-server and to a server of ours.
type oracle struct {
	t           testing.TB
	random      *rand.Rand
	redis, ours *client
	keys        []string
	deadlines   map[string][]int64 // of a key: when it may end, in milliseconds
	tainted     map[string]bool    // keys that may differ since the last look at them
	sent        int
	compared    int
	failures    int
}

// question is a command with what its answer depends on.
type question struct {
	args []string
	keys []string
	ttl  int64 // milliseconds of a relative expiry that it sets; 0: none
	sets int64 // an absolute expiry that it compares with the old one; 0: none
	near int64 // how much numbers in the answer may differ
}

func TestRedisAnswersTheSame(t *testing.T) {
	pace.Heavy(t, "it sends 200,000 commands to two servers")
	address := os.Getenv("MAYFLY_TEST_REDIS")
	if address == "" {
		t.Fatal("MAYFLY_TEST_REDIS is not set: docs/servers.md says how to start the server")
	}
	want := 200_000
	if pace.Long() {
		want = 5_000_000
	}
	random := fixture.Seeded(t)
	e := serve(t, change{options: func(o *resp.Options) { o.Risky = true }, store: func(store.KV) store.KV {
		s, err := kvpebble.Open(kvpebble.Options{FS: vfs.NewMem(), Dir: "kv"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}})
	e.realTime.Store(true)
	o := &oracle{t: t, random: random, redis: dial(t, strings.Split(address, ",")[0]), ours: e.connect(), tainted: map[string]bool{}}
	prefix := fmt.Sprintf("oracle%d:", random.Uint32())
	for i := range 16 {
		o.keys = append(o.keys, prefix+strconv.Itoa(i))
	}
	begun := time.Now()
	for o.sent < want && o.failures < 20 {
		o.round()
		if o.random.IntN(40) == 0 {
			o.scan(prefix)
		}
	}
	o.redis.do(append([]string{"DEL"}, o.keys...)...)
	storetest.Proof(t, "redis-oracle", "commands", o.sent)
	storetest.Proof(t, "redis-oracle", "answers compared", o.compared)
	t.Logf("%s", time.Since(begun))
	if o.failures == 0 && o.compared < want/4 { // on a busy machine pipelines take longer than pause
		t.Errorf("only %d of %d answers could be compared", o.compared, o.sent)
	}
}

// both sends commands to both servers and returns the answers.
func (o *oracle) both(commands [][]string) (redis, ours []string) {
	o.t.Helper()
	var text strings.Builder
	for _, args := range commands {
		text.WriteString(encode(args...))
	}
	o.redis.send(text.String())
	o.ours.send(text.String())
	for range commands {
		redis, ours = append(redis, o.redis.answer()), append(ours, o.ours.answer())
	}
	o.sent += len(commands)
	return redis, ours
}

// look asks both servers when the keys end. Keys that may differ are deleted first.
func (o *oracle) look() {
	var commands [][]string
	for key := range o.tainted {
		commands = append(commands, []string{"DEL", key})
	}
	o.both(commands)
	clear(o.tainted)
	commands = nil
	for _, key := range o.keys {
		commands = append(commands, []string{"PEXPIRETIME", key})
	}
	begun := time.Now().UnixMilli()
	redis, ours := o.both(commands)
	now := time.Now().UnixMilli()
	o.deadlines = map[string][]int64{}
	for i, key := range o.keys {
		at := number(redis[i])
		if at > 0 {
			o.deadlines[key] = append(o.deadlines[key], at)
		}
		if mine := number(ours[i]); mine > 0 {
			o.deadlines[key] = append(o.deadlines[key], mine)
		}
		if now-begun < pause && !o.near(key, now-slack, now+slack) {
			o.compare(question{args: commands[i], near: slack}, redis[i], ours[i])
		}
	}
}

// near reports whether a key may end between two instants.
func (o *oracle) near(key string, from, to int64) bool {
	return slices.ContainsFunc(o.deadlines[key], func(d int64) bool { return d >= from && d <= to })
}

// round sends a pipeline of random commands and compares the answers.
func (o *oracle) round() {
	o.look()
	begun := time.Now().UnixMilli()
	var usable []string
	for _, key := range o.keys {
		if !o.near(key, begun-slack, begun+2*slack) {
			usable = append(usable, key)
		}
	}
	if len(usable) < 3 {
		time.Sleep(slack * time.Millisecond)
		return
	}
	var questions []question
	for len(questions) < 48 {
		if o.random.IntN(10) == 0 {
			questions = append(questions, o.transaction(usable, begun)...)
		} else {
			questions = append(questions, o.question(usable, begun))
		}
	}
	var commands [][]string
	for _, q := range questions {
		commands = append(commands, q.args)
	}
	redis, ours := o.both(commands)
	ended := time.Now().UnixMilli()
	for i, q := range questions {
		exact := ended-begun < pause
		for _, key := range q.keys {
			exact = exact && !o.tainted[key] && !o.near(key, begun-slack, ended+slack)
			if q.sets != 0 && o.near(key, q.sets-slack-(ended-begun), q.sets+slack+(ended-begun)) {
				exact = false
			}
		}
		if exact {
			o.compare(q, redis[i], ours[i])
		} else {
			for _, key := range q.keys {
				o.tainted[key] = true
			}
		}
		if q.ttl != 0 {
			for _, key := range q.keys {
				o.deadlines[key] = append(o.deadlines[key], begun+q.ttl, ended+q.ttl)
			}
		}
	}
}

// transaction returns MULTI, some commands, and EXEC or DISCARD. Whether an entry has
// ended is decided at EXEC, which therefore depends on the keys of all. Commands that
// docs/kv.md lists as refused in MULTI are not among them.
func (o *oracle) transaction(keys []string, now int64) []question {
	all := []question{{args: []string{"MULTI"}}}
	var touched []string
	for range o.random.IntN(6) {
		q := o.question(keys, now)
		for q.near != 0 || q.ttl != 0 || len(q.args[0]) > 11 || slices.Contains([]string{"EXEC", "DISCARD", "WATCH", "HELLO", "CLIENT", "SCAN"}, q.args[0]) {
			q = o.question(keys, now)
		}
		touched = append(touched, q.keys...)
		q.keys = nil // the answer is QUEUED
		all = append(all, q)
	}
	if o.random.IntN(8) == 0 {
		return append(all, question{args: []string{"DISCARD"}})
	}
	return append(all, question{args: []string{"EXEC"}, keys: touched})
}

// compare compares two answers.
func (o *oracle) compare(q question, redis, ours string) {
	o.t.Helper()
	o.compared++
	if redis == ours || q.near > 0 && strings.HasPrefix(redis, "(") && strings.HasPrefix(ours, "(") && number(redis) >= 0 && number(ours) >= 0 && abs(number(redis)-number(ours)) <= q.near {
		return
	}
	o.failures++
	o.t.Errorf("%q: redis answers %s, we answer %s", q.args, redis, ours)
}

func number(answer string) int64 {
	n, err := strconv.ParseInt(strings.Trim(answer, "()"), 10, 64)
	if err != nil {
		return -3
	}
	return n
}

func abs(n int64) int64 { return max(n, -n) }

// scan compares all keys, as SCAN and KEYS return them.
func (o *oracle) scan(prefix string) {
	o.look()
	now := time.Now().UnixMilli()
	var stable []string
	for _, key := range o.keys {
		if !o.near(key, now-slack, now+5*slack) {
			stable = append(stable, key)
		}
	}
	pattern := prefix + []string{"*", "[0-5]", "1?", "[^1]*", `\1*`}[o.random.IntN(5)]
	all := func(c *client) string {
		found, cursor := map[string]bool{}, "0"
		for {
			answer := strings.Fields(strings.Trim(c.do("SCAN", cursor, "MATCH", pattern, "COUNT", "3"), "["))
			o.sent++
			for _, word := range answer[1:] {
				key, _ := strconv.Unquote(strings.Trim(word, "[]"))
				found[key] = true
			}
			if cursor, _ = strconv.Unquote(answer[0]); cursor == "0" || cursor == "" {
				break
			}
		}
		var kept []string
		for _, key := range stable {
			if found[key] {
				kept = append(kept, key)
			}
		}
		return strings.Join(kept, " ")
	}
	redis, ours := all(o.redis), all(o.ours)
	if time.Now().UnixMilli() < now+4*slack { // on a busy machine stable keys may have ended meanwhile
		o.compare(question{args: []string{"SCAN", "MATCH", pattern}}, redis, ours)
	}
}

// question returns a random command on one to three of the keys.
func (o *oracle) question(keys []string, now int64) question {
	r := o.random
	pick := func(all ...string) string { return all[r.IntN(len(all))] }
	key := pick(keys...)
	text := pick("", "a", "10", "-3", "9223372036854775807", "3.5", "1e3", "x y", "\x00\xff\r\n", " 5", "05", "abc", "inf", "0x10x", "4611686018427387904")
	ms := int64(1 + r.IntN(200))
	short := strconv.FormatInt(ms, 10)
	wrong := pick("0", "-1", "a", "", "9223372036854775807", "9223372036854775808", "1.5", "-9223372036854775808")
	q := func(args ...string) question { return question{args: args, keys: []string{key}} }
	timed := func(ttl int64, args ...string) question { return question{args: args, keys: []string{key}, ttl: ttl} }
	condition := func(args ...string) []string {
		switch r.IntN(8) {
		case 0:
			return append(args, "NX")
		case 1:
			return append(args, "xx")
		case 2:
			return append(args, "GET")
		case 3:
			return append(args, "NX", "GET")
		case 4:
			return append(args, "XX", "GET")
		}
		return args
	}
	switch r.IntN(34) {
	case 0, 1:
		return q("GET", key)
	case 2, 3:
		return q(condition("SET", key, text)...)
	case 4, 5, 6:
		return timed(ms, condition("SET", key, text, "PX", short)...)
	case 7:
		return timed(1000, condition("SET", key, text, "EX", "1")...)
	case 8:
		return q(condition("SET", key, text, "KEEPTTL")...)
	case 9:
		return timed(ms, condition("SET", key, text, "PXAT", strconv.FormatInt(now+ms, 10))...)
	case 10:
		if r.IntN(2) == 0 {
			return q("SET", key, text, pick("EXAT", "PXAT"), pick("0", "-1", "a", "9223372036854775808")) // a later one than ours may be good for Redis
		}
		return q("SET", key, text, pick("EX", "PX"), wrong)
	case 11:
		return q("SET", key, text, pick("EX", "NX", "FOO", "KEEPTTL"), pick("XX", "KEEPTTL", "GET", "1", "PX"))
	case 12:
		return timed(ms, "PSETEX", key, short, text)
	case 13:
		return q(pick("SETEX", "PSETEX"), key, wrong, text)
	case 14:
		return q(pick("SETNX", "GETSET", "APPEND"), key, text)
	case 15:
		return q(pick("GETDEL", "STRLEN", "TYPE", "DEL", "UNLINK", "EXISTS", "PERSIST"), key)
	case 16:
		return timed(ms, "GETEX", key, "PX", short)
	case 17:
		return q("GETEX", key, pick("PERSIST", "EX", "NX", "KEEPTTL"))
	case 18:
		return q("GETEX", key, pick("EX", "PX"), wrong)
	case 19:
		return q(pick("INCR", "DECR"), key)
	case 20:
		return q(pick("INCRBY", "DECRBY", "INCRBYFLOAT"), key, text)
	case 21:
		return q(pick("INCRBY", "DECRBY", "INCRBYFLOAT"), key, pick("1", "-7", "0.1", "2.5e2", "9223372036854775807", "-9223372036854775808", "1e-3"))
	case 22, 23:
		return timed(ms, "PEXPIRE", key, short)
	case 24:
		two := timed(ms, "PEXPIRE", key, short, pick("NX", "XX", "GT", "LT", "gt"))
		two.sets = now + ms
		return two
	case 25:
		return timed(ms, "PEXPIREAT", key, strconv.FormatInt(now+ms, 10))
	case 26:
		return q(pick("EXPIRE", "PEXPIRE"), key, pick("0", "-1", "-9223372036854775807", "a", "9223372036854775807", "1.0"))
	case 27:
		return q(pick("EXPIREAT", "PEXPIREAT"), key, pick("0", "1", "-5", "x"))
	case 28:
		two := timed(10_000, "EXPIRE", key, "10", pick("NX", "GT", "FOO"), pick("XX", "LT", "BAR"))
		two.sets = now + 10_000
		return two
	case 29:
		two := q(pick("PTTL", "PEXPIRETIME"), key)
		two.near = slack
		return two
	case 30:
		two := q(pick("TTL", "EXPIRETIME"), key)
		two.near = 1
		return two
	case 31:
		other := pick(keys...)
		return question{args: []string{pick("MGET", "EXISTS", "DEL"), key, other, key}, keys: []string{key, other}}
	case 32:
		other := pick(keys...)
		return question{args: []string{"MSET", key, text, other, "2"}, keys: []string{key, other}}
	default:
		return q(strings.Fields(pick("PING", "PING a", "PING a b", "ECHO x", "SELECT 0", "SELECT 999", "SELECT x", "GET", "SET a", "NOPE", "NOPE a b",
			"EXEC", "DISCARD", "UNWATCH", "CLIENT FOO", "CONFIG FOO", "COMMAND FOO", "HELLO x", "HELLO 9", "CLIENT SETNAME", "SCAN x", "SCAN 0 COUNT 0", "MSET a", "MSET a b c",
			"WATCH", "EXPIRE a", "GETEX", "SETEX a 1", "TYPE", "CLIENT GETNAME"))...)
	}
}
