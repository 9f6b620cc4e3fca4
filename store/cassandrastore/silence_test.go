package cassandrastore

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// neighbourhood is a ring of a, b and c, of which some do not answer.
type neighbourhood struct {
	*testing.T
	*around
	at  time.Time
	log bytes.Buffer
}

func newNeighbourhood(t *testing.T) *neighbourhood {
	n := &neighbourhood{T: t, at: time.Unix(1_800_000_000, 0)}
	n.around = &around{
		HostSelectionPolicy: picks{nodes: []string{"a", "b", "c"}},
		silences:            newSilences(slog.New(slog.NewTextHandler(&n.log, nil))),
		several:             func() bool { return false }, // one round
	}
	n.silences.now = func() time.Duration { return n.at.Sub(time.Unix(0, 0)) }
	return n
}

func (n *neighbourhood) came(name string, after time.Duration, err error) {
	n.silences.ObserveQuery(n.Context(), gocql.ObservedQuery{Host: hosts[name], Start: n.at, End: n.at.Add(after), Err: err})
}

func (n *neighbourhood) cameOfBatch(name string, after time.Duration, err error) {
	n.silences.ObserveBatch(n.Context(), gocql.ObservedBatch{Host: hosts[name], Start: n.at, End: n.at.Add(after), Err: err})
}

// want says in which order the nodes are asked for a conditional write.
func (n *neighbourhood) want(order string) {
	n.Helper()
	if got := handedOut(n.T, n.around, request{}); got != order {
		n.Errorf("%q are asked, want %q", got, order)
	}
}

func TestANodeThatDoesNotAnswerIsUsedLast(t *testing.T) {
	n := newNeighbourhood(t)
	n.came("a", secondAfter, context.Canceled) // a second one answered
	n.came("a", secondAfter, context.DeadlineExceeded)
	n.want("abc")
	n.cameOfBatch("a", 4*time.Second, gocql.ErrTimeoutNoResponse)
	n.want("bca")
	if line := n.log.String(); !strings.Contains(line, "level=WARN") || strings.Count(line, "\n") != 1 {
		t.Errorf("it is reported as %q", line)
	}
	for range silentAfter {
		n.came("b", time.Minute, context.Canceled)
	}
	n.want("cab")
	for range silentAfter {
		n.came("c", time.Minute, context.Canceled)
	}
	n.want("abc")
}

func TestANodeThatAnswersAtAllIsNotSilent(t *testing.T) {
	for name, answer := range map[string]error{
		"rows":       nil,
		"a refusal":  &gocql.RequestErrInvalid{},
		"a time-out": &gocql.RequestErrWriteTimeout{}, // of the copies that it asked
	} {
		n := newNeighbourhood(t)
		for range 10 * silentAfter {
			for range silentAfter - 1 {
				n.came("a", time.Second, context.Canceled)
			}
			n.came("a", 4*time.Second, answer) // late, but there
		}
		n.want("abc")
		for range silentAfter {
			n.came("a", secondAfter-1, context.Canceled) // the caller has left
		}
		n.want("abc")
		if n.log.Len() > 0 {
			t.Errorf("%s: %s", name, n.log.String())
		}
	}
}

func TestAConnectionThatBreaksIsNoAnswer(t *testing.T) {
	for _, broken := range []error{gocql.ErrConnectionClosed, gocql.ErrNoStreams, io.EOF, &net.OpError{Op: "write", Err: io.ErrClosedPipe}} {
		n := newNeighbourhood(t)
		for range 10 * silentAfter {
			n.came("b", time.Minute, broken)
		}
		n.want("abc")
		for range silentAfter {
			n.came("a", time.Second, context.Canceled)
			n.came("a", time.Minute, broken)
		}
		n.want("bca")
	}
}

func TestANodeThatExceedsAShortTimeoutIsSilent(t *testing.T) {
	n := newNeighbourhood(t)
	for range silentAfter {
		n.came("a", secondAfter/5, gocql.ErrTimeoutNoResponse) // cassandra.timeout
	}
	n.want("bca")
}

func TestARequestIsAProbeWithItsFirstNodeOnly(t *testing.T) {
	n := newNeighbourhood(t)
	n.several = func() bool { return true }
	for _, name := range []string{"a", "b"} {
		for range silentAfter {
			n.came(name, time.Second, context.Canceled)
		}
	}
	n.at = n.at.Add(probeEvery)
	// a is the probe and may not answer: b would not either.
	if got, want := handedOut(t, n.around, request{twice: true}), "acb"+"cab"+"cab"+"cab"; got != want {
		t.Errorf("%q are asked, want %q", got, want)
	}
}

func TestASilentNodeIsProbedByIdempotentRequests(t *testing.T) {
	n := newNeighbourhood(t)
	for range silentAfter {
		n.came("a", time.Second, context.Canceled)
	}
	probes := 0
	for range 40 {
		n.want("bca") // never by a conditional write
		if got := handedOut(t, n.around, request{twice: true}); got == "abc" {
			probes++
		} else if got != "bca" {
			t.Errorf("%q are asked", got)
		}
		n.at = n.at.Add(probeEvery / 4)
	}
	if probes != 9 {
		t.Errorf("%d probes in ten of their times", probes)
	}
	n.came("a", time.Millisecond, nil)
	n.want("abc")
	if line := n.log.String(); !strings.Contains(line, "answers again") {
		t.Errorf("it is reported as %q", line)
	}
}

func TestANodeThatHasLeftTheRingIsForgotten(t *testing.T) {
	n := newNeighbourhood(t)
	n.HostSelectionPolicy = gocql.RoundRobinHostPolicy()
	n.came("a", time.Minute, context.Canceled)
	n.RemoveHost(hosts["a"])
	if len(n.silences.nodes) > 0 {
		t.Error("it is kept")
	}
}
