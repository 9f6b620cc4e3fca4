package profile

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/memstore"
)

// shared are the limits of a server that can be reached, or not.
type shared struct {
	store.Limits
	err   error
	asked int
}

func (s *shared) Take(ctx context.Context, key string, rate store.Rate, cost int, now mayfly.Instant) (store.Taken, error) {
	if s.asked++; s.err != nil {
		return store.Taken{}, s.err
	}
	return s.Limits.Take(ctx, key, rate, cost, now)
}

func newShared() *shared { return &shared{Limits: memstore.NewLimits(16)} }

func TestANodeCountsByItselfWhileTheSharedCountersAreAway(t *testing.T) {
	server := newShared()
	server.err = mayfly.Errorf(mayfly.Unavailable, "away")
	l := newLimits(server, memstore.NewLimits(16), steady().Elapsed, slog.New(slog.DiscardHandler))
	for i := range 4 {
		taken, err := l.Take(t.Context(), "ana", store.Rate{Count: 3, Per: time.Hour}, 1, 1_000_000)
		if err != nil || taken.OK != (i < 3) {
			t.Errorf("take %d: %+v, %v", i, taken, err)
		}
	}
	if server.asked != 4 {
		t.Errorf("the shared counters were asked %d times", server.asked)
	}
}

func TestThatANodeCountsByItselfIsLoggedOnceAndCounted(t *testing.T) {
	var log bytes.Buffer
	var now time.Duration
	server := newShared()
	l := newLimits(server, memstore.NewLimits(16), func() time.Duration { return now }, slog.New(slog.NewTextHandler(&log, nil)))
	registry := prometheus.NewRegistry()
	if err := registry.Register(l); err != nil {
		t.Fatal(err)
	}
	away, invalid := mayfly.Errorf(mayfly.Unavailable, "refused by the server"), mayfly.Errorf(mayfly.Invalid, "a rate")
	for _, step := range []struct {
		about  string
		after  time.Duration
		err    error
		logged string // "" if nothing is
		alone  float64
	}{
		{"all is well", 0, nil, "", 0},
		{"what makes no sense", 0, invalid, "", 0},
		{"the server goes", 0, away, "level=WARN", 1},
		{"it stays away", time.Hour, away, "", 2},
		{"a part of it answers", calm / 2, nil, "", 2},
		{"another does not", calm / 2, away, "", 3},
		{"it answers, not for long", calm - 1, nil, "", 3},
		{"it answers", 1, nil, "level=INFO", 3},
		{"it goes on answering", time.Hour, nil, "", 3},
		{"it goes again", 0, away, "level=WARN", 4},
	} {
		log.Reset()
		now, server.err = now+step.after, step.err
		_, err := l.Take(t.Context(), "ana", store.Rate{Count: 100, Per: time.Hour}, 1, 1_000_000)
		if (err != nil) != (step.err == invalid) {
			t.Errorf("%s: %v", step.about, err)
		}
		if !strings.Contains(log.String(), step.logged) || (log.Len() > 0) != (step.logged != "") {
			t.Errorf("%s: logged %q, want %q", step.about, log.String(), step.logged)
		}
		if step.logged == "level=WARN" && !strings.Contains(log.String(), "refused by the server") {
			t.Errorf("%s: the log does not say why: %q", step.about, log.String())
		}
		if got := counted(t, registry, "mayfly_limits_alone_total"); got != step.alone {
			t.Errorf("%s: %v are counted, want %v", step.about, got, step.alone)
		}
	}
}

func TestACallerWhoLeftIsNoServerThatIsAway(t *testing.T) {
	server := newShared()
	server.err = mayfly.Errorf(mayfly.Unavailable, "given up")
	var log bytes.Buffer
	l := newLimits(server, memstore.NewLimits(16), steady().Elapsed, slog.New(slog.NewTextHandler(&log, nil)))
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Take(gone, "ana", store.Rate{Count: 3, Per: time.Hour}, 1, 1_000_000); err == nil || log.Len() > 0 {
		t.Errorf("%v, logged %q", err, log.String())
	}
}

func counted(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("%s is not collected", name)
	return 0
}
