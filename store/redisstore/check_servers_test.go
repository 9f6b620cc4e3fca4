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

// The user of the comment of Options, and nothing more.
func aclOf(prefix string) []string {
	return strings.Fields(strings.ReplaceAll(`~{mayfly:* &{mayfly:* -@all +@connection +eval +evalsha +cluster|slots +cluster|shards
		+info +time +get +set +hget +hset +hdel +hgetall +hincrby +pexpire +spublish +ssubscribe +sunsubscribe`, "mayfly", prefix))
}

// asUser are options for a user with the rights of the comment, and these words more.
func (r *redis) asUser(name string, more ...string) Options {
	r.Helper()
	words := append([]string{"ACL", "SETUSER", name, "reset", "on", ">open-sesame"}, aclOf("town")...)
	r.must(append(words, more...)...)
	return Options{
		Addresses: []string{r.address()}, Prefix: "town", Credentials: conn.Credentials{User: name, Password: "open-sesame"},
		Lease: 300 * time.Millisecond, Patience: 10 * time.Second, Logger: quiet(),
	}
}

func TestAUserWithTheRightsOfTheCommentIsEnough(t *testing.T) {
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

func TestEachRightThatIsMissingIsSaidByTheCheck(t *testing.T) {
	r := startRedis(t)
	if err := Check(t.Context(), r.asUser("mayfly")); err != nil { // from here on the server knows every script
		t.Fatal(err)
	}
	for _, command := range []string{
		"eval", "evalsha", "info", "time", "get", "set", "hget", "hset", "hdel", "hgetall", "hincrby", "pexpire", "spublish", "ssubscribe",
	} {
		err := Check(t.Context(), r.asUser("without-"+command, "-"+command))
		wantKind(t, mayfly.Unavailable, err)
		if err == nil || !strings.Contains(err.Error(), "options.go lists") {
			t.Errorf("the check of a user without %s: %v", command, err)
		}
	}
	for about, words := range map[string][]string{
		"keys of counts":      {"resetkeys", "~{town:signals*"},
		"keys of signals":     {"resetkeys", "~{town:limits*"},
		"channels of signals": {"resetchannels"},
	} {
		if err := Check(t.Context(), r.asUser("mayfly", words...)); err == nil || !strings.Contains(err.Error(), "options.go lists") {
			t.Errorf("the check of a user without %s: %v", about, err)
		}
	}
}

func TestACheckIsNoticedByNoNodeAndLeavesNothing(t *testing.T) {
	r := startRedis(t)
	o := r.asUser("mayfly")
	if err := Check(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing is left", func() bool { return r.try("DBSIZE") == ":0\r\n" })

	s := open(t, o)
	heard := make(chan store.Signal, 100)
	sub, err := s.Signals().Subscribe(t.Context(), func(signal store.Signal) { heard <- signal })
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Close()
	until(t, "the node holds its lease", func() bool { _, held := sub.Lease(); return held })
	before, _ := sub.Lease()
	told := func(field string) string { return r.try("HGET", rollOf("town"), field) }
	token, seq := told("token"), told("seq")
	for _, lacking := range []string{"+hdel", "-hdel", "-hgetall", "-hincrby"} { // good, and hurt half way
		if err := Check(t.Context(), r.asUser("another", lacking)); (err == nil) != (lacking == "+hdel") {
			t.Errorf("%s: %v", lacking, err)
		}
	}
	if n := r.try("HLEN", rollOf("town")); n != ":3\r\n" || told("token") != token || told("seq") != seq {
		t.Errorf("the roll has %q fields, token %q, was %q; place %q, was %q", n, told("token"), token, told("seq"), seq)
	}
	if after, held := sub.Lease(); !held || after != before || len(heard) > 0 {
		t.Errorf("epoch %d, was %d, held %t, %d signals heard", after, before, held, len(heard))
	}
}

func TestTheServersOfTheEnvironmentPassTheCheck(t *testing.T) {
	for _, name := range []string{oneServer, redisCluster, secureServer, secureCluster} {
		if err := Check(t.Context(), at(t, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
