package kafkastore

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestARecordIsStampedNeitherBeforeItsEventNorBeforeNow(t *testing.T) {
	const now = mayfly.Instant(1_800_000_000_000)
	s := &Store{opts: Options{Prefix: "a.", Now: func() mayfly.Instant { return now }}}
	for at, want := range map[mayfly.Instant]int64{
		0: int64(now), now.Add(-40 * 24 * time.Hour): int64(now), now: int64(now), now + 1: int64(now) + 1, 1 << 60: lastStamp,
	} {
		e := mayfly.Event{ID: mayfly.ID{1, 2, 3}, Generation: 7, Product: mayfly.Story, Verb: mayfly.WasExpired, At: at}
		rec := s.record(e)
		if got := rec.Timestamp.UnixMilli(); got != want {
			t.Errorf("an event of %d is stamped %d, want %d", at, got, want)
		}
		if got, err := store.ReadEvent(rec.Value); err != nil || got != e || rec.Topic != "a.ends" || string(rec.Key) != string(e.ID[:]) {
			t.Errorf("%s %x: %+v, %v", rec.Topic, rec.Key, got, err)
		}
	}
	if got := s.record(mayfly.Event{Verb: mayfly.WasCreated}).Topic; got != "a.births" {
		t.Errorf("a birth goes to %s", got)
	}
}
