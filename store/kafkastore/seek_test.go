//go:build servers

package kafkastore

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Events that are told late carry the stamp of their telling: the place that the
// broker finds by the stamp lies before the one that is sought.
func TestASeekPassesEventsThatWereToldLate(t *testing.T) {
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
			t.Errorf("behind a seek to %s %d are waiting, want %d; %v", c.to, n, len(events)-c.first, err)
		}
		if c.first == len(events) {
			continue
		}
		if records, err := r.Next(t.Context(), 1); err != nil || records[0].Event != events[c.first] {
			t.Errorf("behind a seek to %s: %v, %v", c.to, records, err)
		}
	}
}
