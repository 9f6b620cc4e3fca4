//go:build servers

package redisstore

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/conn"
)

func mustTake(t testing.TB, l *Limits, key string, rate store.Rate, cost int, now mayfly.Instant) store.Taken {
	t.Helper()
	taken, err := l.Take(t.Context(), key, rate, cost, now)
	if err != nil {
		t.Fatal(err)
	}
	return taken
}

func TestNodesShareBucketsWhateverTheirClocks(t *testing.T) {
	o := at(t, redisCluster)
	a, b := open(t, o).Limits(), open(t, o).Limits()
	mustTake(t, a, "ana", hourly(10), 6, noon)
	if got := mustTake(t, b, "ana", hourly(10), 4, noon.Add(-24*time.Hour)); !got.OK || got.Left != 0 {
		t.Errorf("the rest, on another node: %+v", got)
	}
	if got := mustTake(t, a, "ana", hourly(10), 1, noon.Add(24*time.Hour)); got.OK {
		t.Errorf("an eleventh of ten, on a node that is a day ahead: %+v", got)
	}
}

func TestACountThatDoesNotDivideItsPeriodStillGivesAWholeBurst(t *testing.T) {
	l := open(t, at(t, oneServer)).Limits()
	for _, rate := range []store.Rate{{Count: 7, Per: time.Hour}, {Count: 999_983, Per: 24 * time.Hour}, {Count: 300, Per: 3 * time.Hour}, {Count: 1500, Per: 15 * time.Minute}} {
		whole, steps := fmt.Sprint("whole ", rate), fmt.Sprint("steps ", rate)
		if got := mustTake(t, l, whole, rate, rate.Count, noon); !got.OK || got.Left != 0 {
			t.Errorf("%+v: %+v", rate, got)
		}
		if got := mustTake(t, l, whole, rate, rate.Count, noon); got.OK || got.RetryAfter > rate.Per || got.RetryAfter < rate.Per*9/10 {
			t.Errorf("%+v: once more: %+v", rate, got)
		}
		for i := range 7 {
			if got := mustTake(t, l, steps, rate, rate.Count/7, noon); !got.OK {
				t.Errorf("%+v: step %d: %+v", rate, i, got)
			}
		}
	}
}

func TestBucketsExpire(t *testing.T) {
	r := startRedis(t)
	l := open(t, Options{Addresses: []string{r.address()}, Prefix: "cluster", Timeout: 10 * time.Second}).Limits()
	for i := range 20 {
		mustTake(t, l, fmt.Sprint(i), store.Rate{Count: 10, Per: 100 * time.Millisecond}, 10, noon)
	}
	mustTake(t, l, "only asked", hourly(10), 0, noon)
	until(t, "only the member list of signals is left", func() bool { return r.try("DBSIZE") == ":1\r\n" })
}

func TestAFlushFillsTheBuckets(t *testing.T) {
	r := startRedis(t)
	l := open(t, Options{Addresses: []string{r.address()}, Timeout: 10 * time.Second}).Limits()
	mustTake(t, l, "ana", hourly(5), 5, noon)
	r.must("FLUSHALL")
	r.must("SCRIPT", "FLUSH")
	if got := mustTake(t, l, "ana", hourly(5), 5, noon); !got.OK {
		t.Errorf("after a flush: %+v", got)
	}
}

func TestTakesFailSoonAndThenAtOnceWhenTheServerFreezesOrDies(t *testing.T) {
	r := startRedis(t)
	s := open(t, Options{Addresses: []string{r.address()}})
	l := s.Limits()
	until(t, "Take succeeds", func() bool { _, err := l.Take(t.Context(), "ana", hourly(1<<20), 1, noon); return err == nil })
	for name, fault := range map[string]struct{ breakIt, repair func() }{
		"frozen": {func() { r.signal(syscall.SIGSTOP) }, func() { r.signal(syscall.SIGCONT) }},
		"killed": {r.kill, r.start},
	} {
		fault.breakIt()
		began := s.Signals().now()
		for range 1000 {
			_, err := l.Take(t.Context(), "ana", hourly(1<<20), 1, noon)
			wantKind(t, mayfly.Unavailable, err)
		}
		if took := s.Signals().now() - began; took > 3*time.Second { // only a few of them called the server
			t.Errorf("%s: a thousand refusals took %v", name, took)
		}
		fault.repair()
		until(t, "Take succeeds again", func() bool { _, err := l.Take(t.Context(), "ana", hourly(1<<20), 1, noon); return err == nil })
	}
}

func TestOnlyTheBucketsOfADeadServerFail(t *testing.T) {
	clustered := []string{"--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"}
	a, b := startRedis(t, clustered...), startRedis(t, clustered...)
	a.must("CLUSTER", "ADDSLOTSRANGE", "0", "8191")
	b.must("CLUSTER", "ADDSLOTSRANGE", "8192", "16383")
	a.must("CLUSTER", "MEET", "127.0.0.1", b.port, busPort(b.port))
	a.until("the cluster is whole", func() bool {
		return a.known() == 2 && b.known() == 2 && strings.Count(a.try("CLUSTER", "SLOTS"), b.port)+strings.Count(b.try("CLUSTER", "SLOTS"), a.port) == 2
	})
	l := open(t, Options{Addresses: []string{a.address(), b.address()}, Timeout: 5 * time.Second}).Limits()
	served := func() (n int) {
		for i := range limitTags {
			if _, err := l.Take(t.Context(), keyOfTag(i), hourly(1000), 1, noon); err == nil {
				n++
			}
		}
		return n
	}
	until(t, "every bucket works", func() bool { return served() == limitTags })
	b.kill()
	if n := served(); n < limitTags/4 || n > limitTags*3/4 {
		t.Errorf("%d of %d takes succeeded on half of the cluster", n, limitTags)
	}
	b.start()
	until(t, "every bucket works again", func() bool { return served() == limitTags })
}

// keyOfTag returns a key of the hash tag.
func keyOfTag(tag int) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint("user", i); limitTag(key) == tag {
			return key
		}
	}
}

func TestOpenFailsWhenTheServerRefusesTheClient(t *testing.T) {
	r := startRedis(t)
	r.must("ACL", "SETUSER", "mayfly", "on", ">open-sesame", "~*", "&*", "+@all")
	r.must("ACL", "SETUSER", "default", "off")
	for name, o := range map[string]Options{
		"a wrong password": {Credentials: conn.Credentials{User: "mayfly", Password: "open-barley"}},
		"no user":          {},
		"an unknown user":  {Credentials: conn.Credentials{User: "ben", Password: "open-sesame"}},
	} {
		o.Addresses, o.Logger = []string{r.address()}, quiet()
		s, err := Open(o)
		if err == nil {
			mustClose(t, s)
			t.Errorf("%s: opened", name)
			continue
		}
		wantKind(t, mayfly.Unavailable, err)
		if strings.Contains(err.Error(), "open-") || !strings.Contains(err.Error(), "password") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
