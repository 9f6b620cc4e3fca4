package kafkastore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestAnAppendIsUnavailableOnlyIfNothingOfItCanBeInTheLog(t *testing.T) {
	late := fmt.Errorf("wrapped: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		about   string
		results []error
		want    error
	}{
		{"all landed", []error{nil, nil}, nil},
		{"none was sent", []error{late, kgo.ErrMaxBuffered}, mayfly.Unavailable},
		{"one landed", []error{late, nil}, mayfly.Unknown},
		{"one landed first", []error{nil, late}, mayfly.Unknown},
		{"a broker answered", []error{kerr.MessageTooLarge}, mayfly.Unknown},
		{"the client was closed", []error{late, kgo.ErrClientClosed}, mayfly.Unknown},
	} {
		s := &Store{opts: Options{Timeout: 1}}
		d := s.newDelivery(len(c.results))
		for _, err := range c.results {
			select {
			case <-d.done:
				t.Errorf("%s: done before the last one", c.about)
			default:
			}
			d.report(err)
		}
		<-d.done
		if err := d.result(); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.about, err, c.want)
		}
	}
}

func TestAppendWithoutRoomIsUnknownOnlyAfterAnEventWasSent(t *testing.T) {
	if err := appendError(fatesOf(0), context.Canceled); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("before the first event: %v", err)
	}
	if err := appendError(fatesOf(500), context.Canceled); !errors.Is(err, mayfly.Unknown) {
		t.Errorf("after 500 events: %v", err)
	}
}

func TestACommitAfterARebalanceIsUnavailable(t *testing.T) {
	for err, want := range map[error]mayfly.Kind{
		kerr.IllegalGeneration: mayfly.Unavailable, kerr.UnknownMemberID: mayfly.Unavailable,
		kerr.RebalanceInProgress: mayfly.Unavailable, context.DeadlineExceeded: mayfly.Unknown,
	} {
		if got := commitError(err); !errors.Is(got, want) || !errors.Is(got, err) {
			t.Errorf("%v: %v, want kind %s", err, got, want)
		}
	}
}

func TestARecordTimestampIsNeitherBeforeItsEventNorBeforeNow(t *testing.T) {
	const now = mayfly.Instant(1_800_000_000_000)
	s := &Store{opts: Options{Prefix: "a.", Now: func() mayfly.Instant { return now }}}
	for at, want := range map[mayfly.Instant]int64{
		0: int64(now), now.Add(-40 * 24 * time.Hour): int64(now), now: int64(now), now + 1: int64(now) + 1, 1 << 60: lastStamp,
	} {
		e := mayfly.Event{ID: mayfly.ID{1, 2, 3}, Generation: 7, Product: mayfly.Story, Verb: mayfly.WasExpired, At: at}
		rec := s.record(e)
		if got := rec.Timestamp.UnixMilli(); got != want {
			t.Errorf("an event of %d has the timestamp %d, want %d", at, got, want)
		}
		if got, err := store.ReadEvent(rec.Value); err != nil || got != e || rec.Topic != "a.ends" || string(rec.Key) != string(e.ID[:]) {
			t.Errorf("%s %x: %+v, %v", rec.Topic, rec.Key, got, err)
		}
	}
	if got := s.record(mayfly.Event{Verb: mayfly.WasCreated}).Topic; got != "a.births" {
		t.Errorf("a birth goes to %s", got)
	}
}
