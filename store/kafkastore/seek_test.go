//go:build servers

package kafkastore

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

// The timestamp of an event that is appended late is the time of the append, so the
// offset that the broker finds by timestamp lies before the wanted one.
func TestASeekSkipsEventsThatWereAppendedLate(t *testing.T) {
	t.Parallel()
	o := brokerOptions(t)
	o.Partitions = 1
	s := open(t, o)
	now := wall()
	events := life(t, 5)
	for i, hours := range []time.Duration{4, 2, 3, 1, 0} {
		events[i].At = now.Add(-hours * time.Hour)
	}
	if err := s.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	r := join(t, s, "late")
	for _, c := range []struct {
		to    mayfly.Instant
		first int
	}{
		{now.Add(-5 * time.Hour), 0},
		{now.Add(-4 * time.Hour), 0},
		{now.Add(-4*time.Hour) + 1, 1},
		{now.Add(-2 * time.Hour), 1},
		{now.Add(-2*time.Hour) + 1, 3},
		{now.Add(-30 * time.Minute), 4},
		{now.Add(time.Hour), 5},
	} {
		if err := r.Seek(t.Context(), c.to); err != nil {
			t.Fatal(err)
		}
		if n, err := r.Lag(t.Context()); err != nil || n != int64(len(events)-c.first) {
			t.Errorf("after a seek to %s the lag is %d, want %d; %v", c.to, n, len(events)-c.first, err)
		}
		if c.first == len(events) {
			continue
		}
		if records, err := next(t, r, 1); err != nil || records[0].Event != events[c.first] {
			t.Errorf("after a seek to %s: %v, %v", c.to, records, err)
		}
	}
}
