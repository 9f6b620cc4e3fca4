//go:build servers

package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
)

// aclOf returns the rights that the comment of Options documents.
func aclOf(prefix string) []string {
	return strings.Fields(strings.ReplaceAll(`~{mayfly:* &{mayfly:* -@all +@connection +eval +evalsha +cluster|slots +cluster|shards
		+info +time +get +set +hget +hset +hdel +hgetall +hincrby +pexpire +spublish +ssubscribe +sunsubscribe`, "mayfly", prefix))
}

// asUser creates a user with the documented rights and more rules, and returns its options.
func (r *redis) asUser(name string, more ...string) Options {
	r.Helper()
	words := append([]string{"ACL", "SETUSER", name, "reset", "on", ">open-sesame"}, aclOf("cluster")...)
	r.must(append(words, more...)...)
	return Options{
		Addresses: []string{r.address()}, Prefix: "cluster", Credentials: conn.Credentials{User: name, Password: "open-sesame"},
		Lease: 300 * time.Millisecond, Timeout: 10 * time.Second, Logger: quiet(),
	}
}

func TestTheDocumentedRightsAreEnough(t *testing.T) {
	o := startRedis(t).asUser("mayfly")
	if err := Check(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	mustTake(t, s.Limits(), "ana", hourly(5), 1, noon)
	if err := s.Signals().Publish(t.Context(), freshSignal()); err != nil {
		t.Error(err)
	}
}

func TestCheckReportsEachMissingRight(t *testing.T) {
	r := startRedis(t)
	if err := Check(t.Context(), r.asUser("mayfly")); err != nil { // from now on the server has every script cached
		t.Fatal(err)
	}
	for _, command := range []string{
		"eval", "evalsha", "info", "time", "get", "set", "hget", "hset", "hdel", "hgetall", "hincrby", "pexpire", "spublish", "ssubscribe",
	} {
		err := Check(t.Context(), r.asUser("without-"+command, "-"+command))
		wantKind(t, mayfly.Unavailable, err)
		if err == nil || !strings.Contains(err.Error(), "redisstore.Options lists") {
			t.Errorf("check of a user without %s: %v", command, err)
		}
	}
	for about, words := range map[string][]string{
		"keys of counts":      {"resetkeys", "~{cluster:signals*"},
		"keys of signals":     {"resetkeys", "~{cluster:limits*"},
		"channels of signals": {"resetchannels"},
	} {
		if err := Check(t.Context(), r.asUser("mayfly", words...)); err == nil || !strings.Contains(err.Error(), "redisstore.Options lists") {
			t.Errorf("check of a user without %s: %v", about, err)
		}
	}
}

func TestCheckIsInvisibleToNodesAndLeavesNoKey(t *testing.T) {
	r := startRedis(t)
	o := r.asUser("mayfly")
	if err := Check(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is left", func() bool { return r.try("DBSIZE") == ":0\r\n" })

	s := open(t, o)
	received := make(chan store.Signal, 100)
	sub, err := s.Signals().Subscribe(t.Context(), func(signal store.Signal) { received <- signal })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	until(t, "the node holds its lease", func() bool { _, held := sub.Lease(); return held })
	before, _ := sub.Lease()
	field := func(name string) string { return r.try("HGET", membersKey("cluster"), name) }
	token, seq := field("token"), field("seq")
	for _, lacking := range []string{"+hdel", "-hdel", "-hgetall", "-hincrby"} { // the first passes, the others fail half way
		if err := Check(t.Context(), r.asUser("another", lacking)); (err == nil) != (lacking == "+hdel") {
			t.Errorf("%s: %v", lacking, err)
		}
	}
	if n := r.try("HLEN", membersKey("cluster")); n != ":3\r\n" || field("token") != token || field("seq") != seq {
		t.Errorf("the member list has %q fields, token %q, was %q; sequence %q, was %q", n, field("token"), token, field("seq"), seq)
	}
	if after, held := sub.Lease(); !held || after != before || len(received) > 0 {
		t.Errorf("epoch %d, was %d, held %t, %d signals received", after, before, held, len(received))
	}
}

func TestTheConfiguredServersPassCheck(t *testing.T) {
	for _, name := range []string{oneServer, redisCluster, secureServer, secureCluster} {
		if err := Check(t.Context(), at(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
