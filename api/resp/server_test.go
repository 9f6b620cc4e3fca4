package resp_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/resp"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestCommandsAnswerAsRedisDoes(t *testing.T) {
	e := serve(t, change{options: func(o *resp.Options) { o.Risky = true }})
	c := e.connect()
	c.script(`
		PING -> PONG
		PING hi -> "hi"
		PING a b -> -ERR wrong number of arguments for 'ping' command
		ECHO "a b" -> "a b"
		SELECT 0 -> OK
		SELECT 1 -> -ERR DB index is out of range
		SELECT x -> -ERR value is not an integer or out of range
		TIME -> ["1800000017" "345000"]
		GET k -> nil
		SET k v -> OK
		GET k -> "v"
		get k -> "v"
		SET k w NX -> nil
		SET k w XX -> OK
		SET k x GET -> "w"
		SET n x NX GET -> nil
		SET n y NX GET -> "x"
		GET n -> "x"
		SET k v EX 0 -> -ERR invalid expire time in 'set' command
		SET k v EX a -> -ERR value is not an integer or out of range
		SET k v PX 9223372036854775808 -> -ERR value is not an integer or out of range
		SET k v PX 9223372036854775807 -> -ERR invalid expire time in 'set' command
		SET k v EX 9223372036854775 -> -ERR invalid expire time in 'set' command
		SET k v EX -> -ERR syntax error
		SET k v NX XX -> -ERR syntax error
		SET k v EX 1 PX 1 -> -ERR syntax error
		SET k v EX 1 KEEPTTL -> -ERR syntax error
		SET k v -> OK
		TTL k -> (-1)
		TTL no -> (-2)
		PEXPIRE k 1500 -> (1)
		TTL k -> (2)
		PTTL k -> (1500)
		EXPIRETIME k -> (1800000019)
		PEXPIRETIME k -> (1800000018845)
		SET k w KEEPTTL -> OK
		PTTL k -> (1500)
		PEXPIRE k 1000 GT -> (0)
		PEXPIRE k 2000 GT -> (1)
		PEXPIRE k 3000 LT -> (0)
		PEXPIRE k 1000 LT -> (1)
		PEXPIRE k 1 NX -> (0)
		PERSIST k -> (1)
		PERSIST k -> (0)
		EXPIRE k 5 XX -> (0)
		EXPIRE k 5 GT -> (0)
		EXPIRE k 5 LT -> (1)
		EXPIRE k 5 NX XX -> -ERR NX and XX, GT or LT options at the same time are not compatible
		EXPIRE k 5 GT LT -> -ERR GT and LT options at the same time are not compatible
		EXPIRE k 5 ABC -> -ERR Unsupported option ABC
		EXPIRE k 9223372036854775807 -> -ERR invalid expire time in 'expire' command
		EXPIRE k x -> -ERR value is not an integer or out of range
		EXPIRE no 5 -> (0)
		SET p v PXAT 9223372036854775807 -> -ERR invalid expire time in 'set' command
		SET p v -> OK
		EXPIREAT p 0 -> (1)
		EXISTS p -> (0)
		SET p v -> OK
		EXPIRE p -1 -> (1)
		EXISTS p -> (0)
		SETEX s 10 v -> OK
		TTL s -> (10)
		SETEX s 0 v -> -ERR invalid expire time in 'setex' command
		PSETEX s 10 v -> OK
		PTTL s -> (10)
		PSETEX s -1 v -> -ERR invalid expire time in 'psetex' command
		SETNX s v -> (0)
		SETNX fresh v -> (1)
		GETSET s new -> "v"
		TTL s -> (-1)
		GETDEL s -> "new"
		GETDEL s -> nil
		GETEX fresh EX 7 -> "v"
		TTL fresh -> (7)
		GETEX fresh PERSIST -> "v"
		TTL fresh -> (-1)
		GETEX fresh -> "v"
		GETEX fresh EX 0 -> -ERR invalid expire time in 'getex' command
		GETEX no EX 0 -> nil
		GETEX fresh NX -> -ERR syntax error
		MSET a 1 b 2 -> OK
		MSET a 1 b -> -ERR wrong number of arguments for 'mset' command
		MGET a no b -> ["1" nil "2"]
		APPEND a 23 -> (3)
		APPEND q x -> (1)
		STRLEN a -> (3)
		STRLEN no -> (0)
		INCR a -> (124)
		DECR a -> (123)
		INCRBY a 7 -> (130)
		DECRBY a 30 -> (100)
		DECRBY a -9223372036854775808 -> -ERR decrement would overflow
		INCRBY a 9223372036854775807 -> -ERR increment or decrement would overflow
		INCRBY a 1.5 -> -ERR value is not an integer or out of range
		INCR k -> -ERR value is not an integer or out of range
		INCRBYFLOAT f 0.1 -> "0.1"
		INCRBYFLOAT f 0.2 -> "0.3"
		INCRBYFLOAT f 5.0e3 -> "5000.29999999999999982"
		INCRBYFLOAT f x -> -ERR value is not a valid float
		INCRBYFLOAT f inf -> -ERR increment would produce NaN or Infinity
		INCRBYFLOAT k 1 -> -ERR value is not a valid float
		EXISTS a a no -> (2)
		TYPE a -> string
		TYPE no -> none
		DEL a b no -> (2)
		UNLINK f -> (1)
		DBSIZE -> (4)
		KEYS f* -> ["fresh"]
		SET -> -ERR wrong number of arguments for 'set' command
		HGET a b -> -ERR unknown command 'HGET', with args beginning with: 'a' 'b' 
		FOO -> -ERR unknown command 'FOO', with args beginning with: 
		CLIENT TRACKING on -> -ERR unknown subcommand 'TRACKING'. Try CLIENT HELP.
		CLIENT GETNAME -> nil
		CLIENT SETNAME "a b" -> -ERR Client names cannot contain spaces, newlines or special characters.
		CLIENT SETNAME worker -> OK
		CLIENT GETNAME -> "worker"
		CLIENT ID -> (1)
		CLIENT SETINFO lib-name x -> OK
		CLIENT SETNAME -> -ERR wrong number of arguments for 'client|setname' command
		CONFIG GET appendfsync -> ["appendfsync" "always"]
		CONFIG GET appendonl? -> ["appendonly" "yes"]
		CONFIG SET a b -> -ERR unknown subcommand 'SET'. Try CONFIG HELP.
		COMMAND INFO get no -> [["get" (2) [readonly] (1) (1) (1)] nil array]
		FLUSHDB x -> -ERR syntax error
		FLUSHDB -> OK
		DBSIZE -> (0)
		QUIT -> OK
	`)
	c.wantEnd()
}

func TestAnEntryEndsAtItsMillisecond(t *testing.T) {
	e := serve(t)
	c := e.connect()
	c.want("OK", "SET", "k", "v", "PX", "100")
	e.pass(99 * time.Millisecond)
	c.want(`"v"`, "GET", "k")
	c.want("(1)", "PTTL", "k")
	e.pass(time.Millisecond)
	c.want("nil", "GET", "k")
	c.want("(-2)", "PTTL", "k")
	c.want("OK", "SET", "k", "w", "NX")
}

func TestKeysAndValuesAreBytes(t *testing.T) {
	e := serve(t)
	c := e.connect()
	key := "a\x00\r\nb"
	c.want("OK", "SET", key, "\x00\xff\r\n")
	c.want(strconv.Quote("\x00\xff\r\n"), "GET", key)
	c.want("OK", "SET", "", "")
	c.want(`""`, "GET", "")
	c.want("-ERR the key has 5120 bytes; 4096 are allowed", "SET", strings.Repeat("k", 5<<10), "v")
	c.want("-ERR the key has 5120 bytes; 4096 are allowed", "GET", strings.Repeat("k", 5<<10))
	c.want("PONG", "PING")
}

func TestOnlyTheKeyOrTheTokenOfTheOwnerOpensANamespace(t *testing.T) {
	e := serve(t)
	token := func(user mayfly.UserID, lasts time.Duration, scopes ...account.Scope) string {
		k, err := e.accounts.Mint(user, "x", scopes, lasts, e.read().Now)
		e.Must(err)
		return string(k)
	}
	const wrong = "-WRONGPASS invalid username-password pair or user is disabled."
	c := dial(t, e.address)
	c.script(`
		GET k -> -NOAUTH Authentication required.
		PING -> -NOAUTH Authentication required.
		MULTI -> -NOAUTH Authentication required.
		HGETALL k -> -ERR unknown command 'HGETALL', with args beginning with: 'k' 
		HELLO 3 -> -NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time
		HELLO 4 -> -NOPROTO unsupported protocol version
		AUTH a b c -> -ERR syntax error
	`)
	c.want(wrong, "AUTH", e.key.Reveal())
	c.want(wrong, "AUTH", "cache", "mfkv_x")
	c.want(wrong, "AUTH", "other", e.key.Reveal())
	c.want(wrong, "AUTH", "cache", token(fixture.Ben(), time.Minute, account.User))
	c.want(wrong, "AUTH", "cache", token(fixture.Ana(), time.Minute, account.Admin))
	c.want("OK", "AUTH", "cache", token(fixture.Ana(), time.Minute, account.User))
	c.want("OK", "SET", "k", "v")
	c.want("RESET", "RESET")
	c.want("-NOAUTH Authentication required.", "GET", "k")
	e.pass(2 * time.Hour) // the address has used up its attempts
	c.want("OK", "AUTH", "cache", e.key.Reveal())
	c.want(`"v"`, "GET", "k")
}

func TestTryingKeysIsLimited(t *testing.T) {
	e := serve(t)
	c := dial(t, e.address)
	for range 6 {
		c.want("-WRONGPASS invalid username-password pair or user is disabled.", "AUTH", "cache", "mfkv_x")
	}
	c.wantEnd()
}

func TestTheEndOfATokenEndsTheConnection(t *testing.T) {
	e := serve(t)
	token, err := e.accounts.Mint(fixture.Ana(), "ana", []account.Scope{account.User}, time.Minute, e.read().Now)
	e.Must(err)
	c := dial(t, e.address)
	c.want("OK", "AUTH", "cache", string(token))
	e.pass(59 * time.Second)
	c.want("OK", "SET", "k", "v")
	e.pass(time.Second)
	// The server may have closed the connection before the command comes.
	_, _ = io.WriteString(c.nc, encode("GET", "k"))
	_ = c.nc.SetReadDeadline(time.Now().Add(20 * time.Second))
	if got, err := readAnswer(c.in); err == nil && got != "-NOAUTH Authentication required." {
		t.Errorf("got %s after the end of the token", got)
	}
	c.wantEnd()
}

func TestARemovedKeyEndsItsConnectionsWithinASecond(t *testing.T) {
	e := serve(t)
	c := e.connect()
	n, err := e.kv.Describe(e.Context(), fixture.Ana(), "cache")
	e.Must(err)
	e.Must(e.kv.RemoveKey(e.Context(), fixture.Ana(), "cache", n.Keys[0].ID))
	e.pass(time.Second)
	c.want("-NOAUTH Authentication required.", "GET", "k")
	c.wantEnd()
}

func TestARemovedNamespaceIsClosedAtOnce(t *testing.T) {
	e := serve(t)
	c := e.connect()
	c.want("OK", "SET", "k", "v")
	e.Must(e.kv.Remove(e.Context(), fixture.Ana(), "cache"))
	c.want("-NOAUTH Authentication required.", "SET", "k", "v")
	c.wantEnd()
}

// countingKV counts groups and calls of Get.
type countingKV struct {
	store.KV
	groups, gets atomic.Int64
}

func (s *countingKV) Apply(ctx context.Context, sp store.KVSpace, now mayfly.Instant, g store.KVGroup) ([]store.KVResult, error) {
	s.groups.Add(1)
	return s.KV.Apply(ctx, sp, now, g)
}

func (s *countingKV) Get(ctx context.Context, sp store.KVSpace, now mayfly.Instant, keys ...string) ([]store.KVEntry, error) {
	s.gets.Add(1)
	return s.KV.Get(ctx, sp, now, keys...)
}

func TestAPipelineIsOneGroup(t *testing.T) {
	var counting *countingKV
	e := serve(t, change{store: func(s store.KV) store.KV { counting = &countingKV{KV: s}; return counting }})
	c := e.connect()
	c.send(encode("SET", "k", "1") + encode("INCR", "k") + encode("GET", "k") + encode("NOPE") + encode("PTTL", "k") + encode("DEL", "k") + encode("GET", "k"))
	want := []string{"OK", "(2)", `"2"`, "-ERR unknown command 'NOPE', with args beginning with: ", "(-1)", "(1)", "nil"}
	for _, w := range want {
		if got := c.answer(); got != w {
			t.Errorf("got %s, want %s", got, w)
		}
	}
	if groups := counting.groups.Load(); groups != 1 {
		t.Errorf("the pipeline took %d groups", groups)
	}
	c.send(encode("GET", "a") + encode("GET", "b") + encode("GET", "c"))
	for range 3 {
		c.answer()
	}
	if groups, gets := counting.groups.Load(), counting.gets.Load(); groups != 1 || gets != 1 {
		t.Errorf("a pipeline of reads took %d groups and %d reads", groups-1, gets)
	}
}

func TestOfAPipelineOverTheQuotaOnlyTheCommandAtFaultIsRefused(t *testing.T) {
	e := serve(t, change{settings: func(s *kv.Settings) { s.Quota = 20 }})
	c := e.connect()
	c.send(encode("SET", "a", "1") + encode("SET", "b", strings.Repeat("x", 30)) + encode("SET", "c", "1") + encode("GET", "a"))
	for _, w := range []string{"OK", "-OOM command not allowed when used memory > 'maxmemory'. (delete entries or raise the quota)", "OK", `"1"`} {
		if got := c.answer(); got != w {
			t.Errorf("got %s, want %s", got, w)
		}
	}
}

func TestTransactionsAreAllOrNothing(t *testing.T) {
	e := serve(t)
	a, b := e.connect(), e.connect()
	a.script(`
		EXEC -> -ERR EXEC without MULTI
		DISCARD -> -ERR DISCARD without MULTI
		MULTI -> OK
		MULTI -> -ERR MULTI calls can not be nested
		WATCH k -> -ERR WATCH inside MULTI is not allowed
		SET k 1 -> QUEUED
		INCR k -> QUEUED
		INCR text -> QUEUED
		SET k 3 EX 0 -> QUEUED
		PING -> QUEUED
		EXEC -> [OK (2) (1) -ERR invalid expire time in 'set' command PONG]
		GET k -> "2"
		MULTI -> OK
		SET k 9 -> QUEUED
		NOPE -> -ERR unknown command 'NOPE', with args beginning with: 
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		GET k -> "2"
		MULTI -> OK
		SET k 9 -> QUEUED
		DISCARD -> OK
		GET k -> "2"
		MULTI -> OK
		AUTH cache x -> -ERR Command not allowed inside a transaction
		DISCARD -> OK
		MULTI -> OK
		EXEC -> []
		WATCH k other -> OK
	`)
	b.want("OK", "SET", "k", "b")
	a.script(`
		MULTI -> OK
		SET k a -> QUEUED
		EXEC -> nil array
		GET k -> "b"
		WATCH k -> OK
		MULTI -> OK
		SET k a -> QUEUED
		EXEC -> [OK]
		WATCH k -> OK
	`)
	b.want("OK", "SET", "k", "b")
	a.script(`
		UNWATCH -> OK
		MULTI -> OK
		SET k a -> QUEUED
		EXEC -> [OK]
		PEXPIRE k 10 -> (1)
		WATCH k -> OK
	`)
	e.pass(10 * time.Millisecond)
	a.script(`
		MULTI -> OK
		SET other a -> QUEUED
		EXEC -> nil array
	`)
}

func TestHelloThreeChangesTheProtocol(t *testing.T) {
	e := serve(t)
	c := dial(t, e.address)
	got := c.do("HELLO", "3", "AUTH", "cache", e.key.Reveal(), "SETNAME", "me")
	if want := `{"server" "redis" "version" "7.0.15" "proto" (3) "id" (1) "mode" "standalone" "role" "master" "modules" []}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.send(encode("GET", "no"))
	if line, err := c.in.ReadString('\n'); err != nil || line != "_\r\n" {
		t.Errorf("got %q, %v", line, err)
	}
	c.want(`{"save" ""}`, "CONFIG", "GET", "save")
	c.want(`"me"`, "CLIENT", "GETNAME")
	if got := c.do("HELLO", "2"); !strings.HasPrefix(got, "[") {
		t.Errorf("got %s", got)
	}
	c.send(encode("GET", "no"))
	if line, err := c.in.ReadString('\n'); err != nil || line != "$-1\r\n" {
		t.Errorf("got %q, %v", line, err)
	}
	c.want("-ERR Syntax error in HELLO option 'foo'", "HELLO", "3", "foo")
}

func TestScanReturnsEveryKeyOnceWithDecimalCursors(t *testing.T) {
	e := serve(t)
	c := e.connect()
	want := map[string]bool{}
	for i := range 57 {
		c.want("OK", "SET", fmt.Sprintf("user:%d", i), "v")
		c.want("OK", "SET", fmt.Sprintf("other:%d", i), "v")
		want[fmt.Sprintf("user:%d", i)] = true
	}
	seen, cursor, pages := map[string]bool{}, "0", 0
	for {
		c.send(encode("SCAN", cursor, "MATCH", "user:*", "COUNT", "10"))
		answer := strings.Fields(strings.Trim(c.answer(), "[]"))
		cursor, _ = strconv.Unquote(answer[0])
		for _, word := range answer[1:] {
			key, _ := strconv.Unquote(strings.Trim(word, "[]"))
			if seen[key] || key != "" && !want[key] {
				t.Errorf("%s was returned twice, or is wrong", key)
			}
			seen[key] = true
		}
		if pages++; cursor == "0" || pages > 50 {
			break
		}
		if _, err := strconv.ParseUint(cursor, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	delete(seen, "")
	if len(seen) != len(want) || pages < 5 {
		t.Errorf("%d of %d keys in %d pages", len(seen), len(want), pages)
	}
	c.script(`
		SCAN x -> -ERR invalid cursor
		SCAN 77 -> -ERR invalid cursor: it was forgotten; begin again with SCAN 0
		SCAN 0 COUNT 0 -> -ERR syntax error
		SCAN 0 COUNT x -> -ERR value is not an integer or out of range
		SCAN 0 FOO x -> -ERR syntax error
		SCAN 0 COUNT -> -ERR syntax error
		SCAN 0 MATCH user:5 COUNT 100 -> ["0" ["user:5"]]
		SCAN 0 TYPE list -> ["0" []]
		KEYS * -> -ERR unknown command 'KEYS', with args beginning with: '*' 
		FLUSHDB -> -ERR unknown command 'FLUSHDB', with args beginning with: 
	`)
}

func TestACursorOfAnotherPatternIsAnError(t *testing.T) {
	e := serve(t)
	c := e.connect()
	for i := range 20 {
		c.want("OK", "SET", fmt.Sprintf("user:%02d", i), "v")
	}
	answer := c.do("SCAN", "0", "MATCH", "user:*", "COUNT", "5")
	cursor, _ := strconv.Unquote(strings.Fields(strings.Trim(answer, "["))[0])
	c.want("-ERR invalid cursor: it was made with another MATCH; begin again with SCAN 0", "SCAN", cursor, "MATCH", "*")
	if got := c.do("SCAN", cursor, "MATCH", "user:*", "COUNT", "2"); !strings.Contains(got, `["user:05" "user:06"]`) {
		t.Errorf("got %s", got)
	}
	if got := c.do("SCAN", cursor, "MATCH", "user:*", "COUNT", "2"); !strings.Contains(got, `["user:05" "user:06"]`) {
		t.Errorf("a cursor that is used again returned %s", got)
	}
}

func TestSubscribersHearOfExpiredKeys(t *testing.T) {
	e := serve(t, change{settings: func(s *kv.Settings) { s.Events = true }})
	c, other := e.connect(), e.connect()
	c.want("OK", "SET", "before", "v", "PX", "10")
	e.pass(10 * time.Millisecond)
	e.pass(time.Millisecond)
	c.want(`["subscribe" "__keyevent@0__:expired" (1)]`, "SUBSCRIBE", "__keyevent@0__:expired")
	c.want("-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context", "GET", "k")
	c.want(`["pong" ""]`, "PING")
	other.want("OK", "SET", "k", "v", "PX", "100")
	other.want("OK", "SET", "deleted", "v", "PX", "100")
	other.want("(1)", "DEL", "deleted")
	e.pass(100 * time.Millisecond)
	if got, want := c.answer(), `["message" "__keyevent@0__:expired" "k"]`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	c.want(`["unsubscribe" "__keyevent@0__:expired" (0)]`, "UNSUBSCRIBE")
	c.want("nil", "GET", "k")
	c.want("-ERR the only channel is __keyevent@0__:expired", "SUBSCRIBE", "news")
	c.do("HELLO", "3")
	c.want(`>["subscribe" "__keyevent@0__:expired" (1)]`, "SUBSCRIBE", "__keyevent@0__:expired")
	c.want("nil", "GET", "k")
}

func TestANamespaceWithoutEventsHasNoSubscribers(t *testing.T) {
	c := serve(t).connect()
	c.want("-ERR the namespace has no events; make one with events", "SUBSCRIBE", "__keyevent@0__:expired")
}

func TestWhileTheClockIsInDoubtWritesAreRefused(t *testing.T) {
	e := serve(t)
	c := e.connect()
	c.want("OK", "SET", "k", "v", "EX", "60")
	c.want("OK", "SET", "stays", "v")
	e.doubt.Store(true)
	c.send(encode("SET", "k", "w") + encode("GET", "k") + encode("GET", "stays"))
	for _, want := range []string{"-TRYAGAIN the clock is in doubt", "nil", `"v"`} {
		if got := c.answer(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	e.doubt.Store(false)
	c.want(`"v"`, "GET", "k")
}

func TestARateOfANamespaceIsKept(t *testing.T) {
	e := serve(t, change{settings: func(s *kv.Settings) { s.Rate = kv.Rate{Count: 3, Per: time.Minute} }})
	c := e.connect()
	c.want("OK", "SET", "k", "v")
	c.want("OK", "MSET", "k", "v", "l", "v")
	if got := c.do("GET", "k"); !strings.HasPrefix(got, "-TRYAGAIN rate limit of the namespace exceeded") {
		t.Errorf("got %s", got)
	}
	c.want("PONG", "PING")
	e.pass(time.Minute)
	c.want(`"v"`, "GET", "k")
}

func TestABrokenProtocolIsAnsweredAndClosed(t *testing.T) {
	e := serve(t)
	c := e.connect()
	c.send(encode("SET", "k", "v") + "*1\r\n*1\r\n")
	if got := c.answer(); got != "OK" {
		t.Errorf("got %s", got)
	}
	if got := c.answer(); got != "-ERR Protocol error: expected '$', got '*'" {
		t.Errorf("got %s", got)
	}
	c.wantEnd()
	c = dial(t, e.address)
	c.send("*9223372036854775807\r\n")
	if got := c.answer(); got != "-ERR Protocol error: unauthenticated multibulk length" {
		t.Errorf("got %s", got)
	}
	c.wantEnd()
}

func TestTooManyClientsAreRefused(t *testing.T) {
	e := serve(t, change{options: func(o *resp.Options) { o.Clients = 1 }})
	first := e.connect()
	second := dial(t, e.address)
	if got := second.answer(); got != "-ERR max number of clients reached" {
		t.Errorf("got %s", got)
	}
	second.wantEnd()
	first.want("PONG", "PING")
}

func TestIdleClientsAreClosed(t *testing.T) {
	e := serve(t, change{options: func(o *resp.Options) { o.Idle = 50 * time.Millisecond }})
	c := e.connect()
	c.wantEnd()
}

func TestClientsThatSendStayConnected(t *testing.T) {
	const idle = 300 * time.Millisecond
	e := serve(t, change{options: func(o *resp.Options) { o.Idle = idle }})
	c := e.connect()
	for begin := time.Now(); time.Since(begin) < 2*idle; {
		c.want("PONG", "PING")
	}
}

// A client that sends a long pipeline before it reads an answer gets all of them, and
// one that never reads is closed.
// A connection whose client is silent goes on in another goroutine, whatever arrives
// meanwhile: nothing, part of a command, or all of it.
func TestAConnectionThatIsMovedLosesNothing(t *testing.T) {
	e := serve(t)
	ctx, cancel := context.WithCancel(t.Context())
	var moving sync.WaitGroup
	moving.Go(func() {
		for ctx.Err() == nil {
			e.server.Move()
			time.Sleep(10 * time.Microsecond) // on one processor the network is looked at
		}
	})
	defer moving.Wait()
	defer cancel()
	c, before := e.connect(), runtime.NumGoroutine()
	for i := range 2000 {
		value := strconv.Itoa(i)
		command := encode("SET", "k", value) + encode("GET", "k")
		cut := i % len(command)
		c.send(command[:cut])
		c.send(command[cut:])
		for _, want := range []string{"OK", strconv.Quote(value)} {
			if got := c.answer(); got != want {
				t.Fatalf("command %d: got %s, want %s", i, got, want)
			}
		}
	}
	if after := runtime.NumGoroutine(); after > before+10 {
		t.Errorf("%d goroutines, %d before", after, before)
	}
}

func TestSlowReadersHoldNothingForLong(t *testing.T) {
	e := serve(t, change{options: func(o *resp.Options) { o.Output, o.Stalled, o.Memory = 64<<10, 300*time.Millisecond, 8<<20 }})
	c := e.connect()
	big := strings.Repeat("x", 32<<10)
	c.want("OK", "SET", "big", big)
	const reads = 64
	go func() { _, _ = io.WriteString(c.nc, strings.Repeat(encode("GET", "big"), reads)) }()
	for range reads {
		if got := c.answer(); len(got) != len(big)+2 {
			t.Fatalf("an answer of %d bytes", len(got))
		}
	}
	stuck := e.connect()
	go func() { _, _ = io.WriteString(stuck.nc, strings.Repeat(encode("GET", "big"), 2000)) }()
	until(t, "the client that never reads is closed", func() bool { return e.server.Connections() == 1 })
	c.want("PONG", "PING")
}

// What waits for a client comes before what could be sent at once, and once the client
// has read it, it is like any other.
func TestAnswersThatHaveWaitedComeInOrder(t *testing.T) {
	t.Parallel()
	const stalled, reads = 2 * time.Second, 512
	e := serve(t, change{options: func(o *resp.Options) { o.Output, o.Stalled = 64<<10, stalled }})
	c := e.connect()
	big := strings.Repeat("x", 32<<10)
	c.want("OK", "SET", "big", big)
	for i := range reads {
		c.send(encode("GET", "big") + encode("ECHO", strconv.Itoa(i)))
	}
	last := e.server.Commands()
	until(t, "nothing more can be sent", func() bool {
		time.Sleep(20 * time.Millisecond)
		before := last
		last = e.server.Commands()
		return last == before
	})
	for i := range reads {
		if got := c.answer(); len(got) != len(big)+2 {
			t.Fatalf("an answer of %d bytes", len(got))
		}
		if got, want := c.answer(), strconv.Quote(strconv.Itoa(i)); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}
	for begin := time.Now(); time.Since(begin) < stalled+100*time.Millisecond; {
		c.want("PONG", "PING")
	}
}

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

func TestAStopFinishesWhatWasRead(t *testing.T) {
	held, release := make(chan struct{}), make(chan struct{})
	e := serve(t, change{store: func(s store.KV) store.KV { return &holdingKV{KV: s, held: held, release: release} }})
	c := e.connect()
	c.send(encode("SET", "slow", "v"))
	<-held
	stopped := make(chan struct{})
	go func() { e.stop(); close(stopped) }()
	until(t, "the listener is closed", func() bool {
		nc, err := net.Dial("tcp", e.address)
		if err == nil {
			_ = nc.Close()
		}
		return err != nil
	})
	close(release)
	if got := c.answer(); got != "OK" {
		t.Errorf("got %s", got)
	}
	c.wantEnd()
	<-stopped
}

// holdingKV holds groups back until they are released.
type holdingKV struct {
	store.KV
	held, release chan struct{}
}

func (s *holdingKV) Apply(ctx context.Context, sp store.KVSpace, now mayfly.Instant, g store.KVGroup) ([]store.KVResult, error) {
	s.held <- struct{}{}
	<-s.release
	return s.KV.Apply(ctx, sp, now, g)
}

func TestAnAnswerIsBounded(t *testing.T) {
	e := serve(t)
	c := e.connect()
	c.want("OK", "SET", "big", strings.Repeat("x", 16<<20))
	c.want("-ERR the answer has more than 33554432 bytes; ask for fewer keys", append([]string{"MGET"}, bytesOf("big", 100)...)...)
	c.want("(16777216)", "STRLEN", "big")
	c.want("-ERR string exceeds maximum allowed size (proto-max-bulk-len)", "APPEND", "big", "x")
}

func bytesOf(s string, n int) (all []string) {
	for range n {
		all = append(all, s)
	}
	return all
}

func TestGlobsMatchAsInRedis(t *testing.T) {
	e := serve(t, change{options: func(o *resp.Options) { o.Risky = true }})
	c := e.connect()
	for _, key := range []string{"hello", "hallo", "hxllo", "hllo", "heello", "h*llo", "h[llo"} {
		c.want("OK", "SET", key, "v")
	}
	for pattern, want := range map[string]string{
		"h?llo": `["h*llo" "h[llo" "hallo" "hello" "hxllo"]`, "h*llo": `["h*llo" "h[llo" "hallo" "heello" "hello" "hllo" "hxllo"]`,
		"h[ae]llo": `["hallo" "hello"]`, "h[^e]llo": `["h*llo" "h[llo" "hallo" "hxllo"]`, "h[a-b]llo": `["hallo"]`, `h\*llo`: `["h*llo"]`, `h\[llo`: `["h[llo"]`,
		"*ll*": `["h*llo" "h[llo" "hallo" "heello" "hello" "hllo" "hxllo"]`, "**o": `["h*llo" "h[llo" "hallo" "heello" "hello" "hllo" "hxllo"]`, "x*": `[]`, "": `[]`,
	} {
		c.want(want, "KEYS", pattern)
	}
}

func TestInfoTellsHowWritesAreMadeDurable(t *testing.T) {
	c := serve(t).connect()
	if got := c.do("INFO"); !strings.Contains(got, "appendfsync:always") || !strings.Contains(got, "redis_version:7.0.15") {
		t.Errorf("got %s", got)
	}
	if got := c.do("INFO", "persistence"); !strings.Contains(got, "appendfsync") || strings.Contains(got, "redis_version") {
		t.Errorf("got %s", got)
	}
	if got := c.do("CLIENT", "INFO"); !bytes.Contains([]byte(got), []byte("user=cache")) {
		t.Errorf("got %s", got)
	}
}
