package e2e

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// fastSettings are the product's windows with an hour written as a second. What
// is shorter than that in the product, such as how long a URL lasts, is given a
// time that a machine can keep.
const fastSettings = `
stories:
  lifetimes: [24s, 6s, 12s, 48s]
  live: 5
  urls: 4s
  archive_urls: 1s
births:
  timeout: 800ms
  remind_after: 600ms
walk:
  interval: 50ms
  settle: 1s
  lateness: 100ms
ends:
  archive_after: 1500ms
  archive_lateness: 100ms
  reconcile: 5s
rates:
  writes: 0/1h
  reads: 0/1h
  address_reads: 0/1h
  address_writes: 0/1h
disk:
  floor: 64MiB
`

// Every golden story once more, played by the real binary over HTTP: all at
// once, each by people of its own.
func TestGoldenStoriesComeTrueInTheRealBinary(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the 50 seconds that 50 hours of stories are")
	}
	all := scripts(t)
	s := startServer(t, fastSettings)
	b := &realtime{server: s, documents: s.readDocuments(), hour: time.Second}
	sum := b.playAll(t, b, all)
	t.Logf("%d golden stories in the real binary, in %s: %s", len(all), time.Since(b.begins.Time()).Round(time.Second), sum)
	if a, err := b.ask(request{method: http.MethodGet, target: "/metrics", admin: true}); err != nil || !contains(a, servedLate) {
		t.Errorf("served_after_deadline_total is not there, or not 0: %v", err)
	}
}

// playAll plays scripts side by side on a stage that b is, or is a part of.
func (b *realtime) playAll(t *testing.T, on stage, all []script) tally {
	b.first, b.begins = earliest(all), mayfly.InstantOf(time.Now().Add(200*time.Millisecond))
	counts := make([]tally, len(all))
	var playing sync.WaitGroup
	for i, script := range all {
		playing.Go(func() { counts[i] = newPlayer(t, on, script).play() })
	}
	playing.Wait()
	var sum tally
	for _, c := range counts {
		sum.add(c)
	}
	if sum.missed*10 >= sum.lines {
		t.Errorf("%d of %d lines were not asked in time: the machine is too slow to tell", sum.missed, sum.lines)
	}
	return sum
}

// realtime is the stage of the real binary, in real time.
type realtime struct {
	*server
	documents
	hour   time.Duration  // how long an hour of a script takes; six of them are whole seconds
	begins mayfly.Instant // when the first of the scripts does
	first  time.Duration  // and at what time of its day
}

func (b *realtime) span(d time.Duration) time.Duration {
	return time.Duration(float64(d) / float64(time.Hour) * float64(b.hour)).Round(time.Millisecond)
}

// margin is how far from a mark what happens right before or at it is asked.
func (b *realtime) margin() time.Duration { return b.hour * 3 / 20 }

func (b *realtime) midnight() mayfly.Instant { return b.begins.Add(-b.span(b.first)) }

// lifetime is seconds for hours.
func (b *realtime) lifetime(word string) string {
	d, err := time.ParseDuration(word)
	if err != nil {
		return word // what is no lifetime stays none
	}
	return b.span(d).Truncate(time.Second).String()
}

func (b *realtime) urls(archived bool) time.Duration {
	if archived {
		return b.hour
	}
	return 4 * b.hour
}

// since keeps away from marks: what happens right before one is asked a margin
// before it, what happens at it a margin after it.
func (b *realtime) since(birth mayfly.Instant, after time.Duration) mayfly.Instant {
	mark := after.Round(time.Hour)
	switch away := after - mark; {
	case mark == 0 || away.Abs() > time.Second:
		return birth.Add(b.span(after))
	case away < 0:
		return birth.Add(b.span(mark) - b.margin())
	default:
		return birth.Add(b.span(mark) + b.margin())
	}
}

func (b *realtime) wait(planned mayfly.Instant) mayfly.Instant {
	time.Sleep(time.Until(planned.Time()))
	return mayfly.InstantOf(time.Now())
}

// late says whether a line was asked later than planned, or so near before a
// mark answered that it had passed: what must come then cannot be said.
func (b *realtime) late(after time.Duration, planned mayfly.Instant, a answer) bool {
	before := after.Round(time.Hour) > after
	return a.began.Sub(planned) > b.margin()*2/3 || before && a.ended.Sub(planned) > b.margin()
}

func (b *realtime) ask(r request) (answer, error) {
	began := mayfly.InstantOf(time.Now())
	a, err := b.send(context.Background(), r)
	a.began, a.ended = began, mayfly.InstantOf(time.Now())
	if err != nil {
		return a, err
	}
	if err := b.documented(r, a); err != nil {
		return a, fmt.Errorf("%s %s: the answer is not as the document says: %w", r.method, r.target, err)
	}
	if a.status >= http.StatusInternalServerError {
		return a, fmt.Errorf("%s %s: %d %s", r.method, r.target, a.status, excerpt(a.body))
	}
	return a, nil
}

// bearer is a token by the key of the server's own folder.
func (b *realtime) bearer(user, scope string) (string, error) {
	g := account.Grant{Issuer: issuer, Audience: issuer, Scopes: []account.Scope{account.Scope(scope)}, Subject: scope, Lasts: time.Hour}
	if user != "" {
		g.User, g.Subject = mayfly.HomeUserOf(issuer, user), user
		if scope != "user" {
			g.Scopes = append(g.Scopes, account.User)
		}
	}
	token, err := b.key.Mint(g, mayfly.InstantOf(time.Now()))
	return string(token), err
}
