package resp_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/resp"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
)

// The answers are those of a redis-server 7.0.15 with cluster-enabled that has all slots.
func TestKeysOfSeveralSlotsAreAnsweredAsByRedisCluster(t *testing.T) {
	e := serve(t, change{cluster: true, options: func(o *resp.Options) { o.Risky = true }})
	e.connect().script(`
		SET a 1 -> OK
		SET b 2 -> OK
		MGET a b -> -CROSSSLOT Keys in request don't hash to the same slot
		MSET a 1 b 2 -> -CROSSSLOT Keys in request don't hash to the same slot
		DEL a b -> -CROSSSLOT Keys in request don't hash to the same slot
		EXISTS a a b -> -CROSSSLOT Keys in request don't hash to the same slot
		WATCH a b -> -CROSSSLOT Keys in request don't hash to the same slot
		MGET a a -> ["1" "1"]
		MSET {u}a 1 {u}b 2 {u}c 3 -> OK
		MGET {u}a {u}c {u}d -> ["1" "3" nil]
		MULTI -> OK
		SET a 3 -> QUEUED
		SET b 4 -> QUEUED
		EXEC -> -CROSSSLOT Keys in request don't hash to the same slot
		EXEC -> -ERR EXEC without MULTI
		GET a -> "1"
		MULTI -> OK
		SET a 3 -> QUEUED
		MGET a b -> -CROSSSLOT Keys in request don't hash to the same slot
		EXEC -> -EXECABORT Transaction discarded because of previous errors.
		GET a -> "1"
		WATCH {u}a -> OK
		MULTI -> OK
		INCR {u}a -> QUEUED
		PING -> QUEUED
		GET {u}b -> QUEUED
		EXEC -> [(2) PONG "2"]
		WATCH {u}a -> OK
		SET {u}a 7 -> OK
		MULTI -> OK
		SET {u}b 8 -> QUEUED
		EXEC -> nil array
		DBSIZE -> (5)
		FLUSHDB -> OK
		DBSIZE -> (0)
	`)
}

func TestALastWriteWinsNamespaceOfAClusterRefusesWhatNeedsAgreement(t *testing.T) {
	e := serve(t, change{cluster: true, settings: func(s *kv.Settings) { s.LastWriteWins = true }})
	c := e.connect()
	c.script(`
		SET k v EX 10 -> OK
		GET k -> "v"
		TTL k -> (10)
		SETEX k 20 w -> OK
		MSET {k}1 a {k}2 b -> OK
		MGET {k}1 k -> ["a" "w"]
		DEL {k}1 -> (1)
		EXISTS {k}1 -> (0)
	`)
	for _, command := range []string{
		"SET k v NX", "SET k v XX", "SET k v GET", "SET k v KEEPTTL", "SETNX k v", "INCR k", "DECRBY k 2", "INCRBYFLOAT k 1", "APPEND k x", "GETSET k x", "GETDEL k",
		"GETEX k EX 5", "EXPIRE k 5", "PEXPIREAT k 5", "PERSIST k",
	} {
		if got := c.do(strings.Fields(command)...); !strings.HasPrefix(got, "-ERR the namespace is last-write-wins on a cluster, where ") || !strings.Contains(got, "(use a namespace that is compare-and-set)") {
			t.Errorf("%s: %s", command, got)
		}
	}
	c.script(`
		WATCH k -> OK
		MULTI -> OK
		SET k x -> QUEUED
		EXEC -> -ERR the namespace is last-write-wins on a cluster, where a watch is not possible (use a namespace that is compare-and-set)
		GET k -> "w"
	`)
}

// counting counts the groups.
type counting struct {
	store.KV
	applied, refused *atomic.Int64
}

func (s counting) Apply(ctx context.Context, sp store.KVSpace, now mayfly.Instant, g store.KVGroup) ([]store.KVResult, error) {
	r, err := s.KV.Apply(ctx, sp, now, g)
	if err != nil {
		s.refused.Add(1)
	} else {
		s.applied.Add(1)
	}
	return r, err
}

func TestAPipelineOnAClusterIsOneGroupForEachSlot(t *testing.T) {
	var applied, refused atomic.Int64
	e := serve(t, change{cluster: true}, change{
		store:    func(kv store.KV) store.KV { return counting{kv, &applied, &refused} },
		settings: func(s *kv.Settings) { s.Quota = 2000 },
	})
	c := e.connect()
	var text, want []string
	for i := range 40 {
		slot := i % 4
		text = append(text, encode("INCR", fmt.Sprintf("{%d}n", slot)))
		want = append(want, fmt.Sprintf("(%d)", i/4+1))
	}
	text = append(text, encode("MGET", "{0}n", "{1}n"), encode("PING"), encode("SET", "{2}n", strings.Repeat("x", 3000)), encode("GET", "{2}n"))
	want = append(want, "-CROSSSLOT Keys in request don't hash to the same slot", "PONG", "-OOM command not allowed when used memory > 'maxmemory'. (delete entries or raise the quota)", `"10"`)
	c.send(strings.Join(text, ""))
	for i := range want {
		if got := c.answer(); got != want[i] {
			t.Errorf("answer %d is %s, want %s", i, got, want[i])
		}
	}
	if applied.Load() > 40 || refused.Load() == 0 {
		t.Errorf("%d groups were applied and %d refused", applied.Load(), refused.Load())
	}
}
