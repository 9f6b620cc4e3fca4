package httpapi_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// samples is how many rings of each kind are timed.
const samples = 1_500

// The time of an empty ring must not tell a caller on the same machine whether it
// hides a hundred stories (I18). The samples of both kinds alternate, so that the load
// of the machine is the same for both, and an unlucky comparison is made again; the
// reads behind them are counted in product/story.
func TestTheTimeOfAnEmptyRingDoesNotTellWhatItHides(t *testing.T) {
	pace.Heavy(t, "times, which the detector changes")
	n := newTestNode(t)
	ring := n.timer("ben")
	reasons := append(n.hiddenAuthors("ben", 100), "another who never was")
	// What is held or deleted leaves the index at once. What remains until the store
	// gives up deleted rows is their tombstones, which take some 60 ns each to pass.
	n.Must(n.Real.Writer.(interface {
		EraseDeleted(ctx context.Context, now mayfly.Instant) error
	}).EraseDeleted(t.Context(), n.Node.Now()))
	for _, author := range reasons {
		var tries []float64
		for len(tries) < 4 {
			var hidden, never []time.Duration
			for i := range samples {
				if i%2 == 0 {
					hidden, never = append(hidden, ring(author)), append(never, ring("never was"))
				} else {
					never, hidden = append(never, ring("never was")), append(hidden, ring(author))
				}
			}
			got := auc(hidden, never)
			slices.Sort(hidden)
			slices.Sort(never)
			t.Logf("%s: AUC %.3f, n = %d; medians %s and %s", author, got, samples, hidden[samples/2], never[samples/2])
			if tries = append(tries, got); got > 0.4 && got < 0.6 {
				break
			}
		}
		if got := tries[len(tries)-1]; got <= 0.4 || got >= 0.6 {
			t.Errorf("%s: the time of a ring tells it from an author who never was: AUC %.3f", author, tries)
		}
	}
}

// timer returns a function that asks for a ring as a user, over a connection that is
// kept open, and returns how long the answer took. The ring must be empty.
func (n *testNode) timer(as string) func(author string) time.Duration {
	server := httptest.NewServer(n.Handlers.Public())
	n.Cleanup(server.Close)
	client, token := server.Client(), n.Token(as)
	return func(author string) time.Duration {
		n.Helper()
		user := nodetest.User(author)
		request, err := http.NewRequest(http.MethodGet, server.URL+"/v1/users/"+user.String()+"/ring", http.NoBody)
		n.Must(err)
		request.Header.Set("Authorization", "Bearer "+token)
		begun := time.Now()
		answer, err := client.Do(request)
		n.Must(err)
		body, err := io.ReadAll(answer.Body)
		took := time.Since(begun)
		n.Must(err)
		n.Must(answer.Body.Close())
		if want := fmt.Sprintf("{\"user\":%q,\"stories\":[]}\n", user); answer.StatusCode != http.StatusOK || string(body) != want {
			n.Fatalf("%s: %d %s, want %s", author, answer.StatusCode, body, want)
		}
		return took
	}
}

// hiddenAuthors makes an author of many stories for each reason for which viewer sees
// none of them, named after the reason.
func (n *testNode) hiddenAuthors(viewer string, stories int) (reasons []string) {
	add := func(reason string, audience mayfly.Audience, relation mayfly.Relation, end func(id mayfly.ID)) {
		reasons = append(reasons, reason)
		author := nodetest.User(reason)
		if relation != 0 {
			n.Must(n.Accounts().Relate(n.Context(), author, nodetest.User(viewer), relation, 0, n.Node.Now()))
		}
		for range stories {
			d := n.Draft()
			d.Owner, d.Audience, d.Lifetime = author, audience, fixture.Lifetime(n, 24*time.Hour)
			if item := n.Engine.Publish(d, n.Node.Now()); end != nil {
				end(item.ID)
			}
		}
	}
	add("blocked", mayfly.Everyone, mayfly.Blocked|mayfly.Follower|mayfly.CloseFriend, nil)
	add("not a follower", mayfly.Followers, mayfly.CloseFriend, nil)
	add("not a close friend", mayfly.CloseFriends, mayfly.Follower, nil)
	add("only for the author", mayfly.OnlyAuthor, 0, nil)
	add("held", mayfly.Everyone, 0, func(id mayfly.ID) {
		n.Want(nodetest.Request{As: "moderator", Admin: true, Method: http.MethodPut, Path: "/v1/holds/" + id.String(), Body: `{"reason":"case 9"}`}, http.StatusNoContent)
	})
	add("deleted", mayfly.Everyone, 0, func(id mayfly.ID) {
		n.Must(n.Stories().Delete(n.Context(), id, nodetest.User("deleted"), n.Node.Now()))
	})
	return reasons
}

// auc returns how probable it is that a value of a is above one of b: 0.5 when they
// cannot be distinguished.
func auc(a, b []time.Duration) float64 {
	type sample struct {
		value time.Duration
		ofA   bool
	}
	var all []sample
	for _, v := range a {
		all = append(all, sample{v, true})
	}
	for _, v := range b {
		all = append(all, sample{v, false})
	}
	slices.SortFunc(all, func(x, y sample) int { return cmp.Compare(x.value, y.value) })
	var ranks float64
	for from := 0; from < len(all); {
		to := from
		for to < len(all) && all[to].value == all[from].value {
			to++
		}
		for _, s := range all[from:to] { // equal values share their rank
			if s.ofA {
				ranks += float64(from+to+1) / 2
			}
		}
		from = to
	}
	n, m := float64(len(a)), float64(len(b))
	return (ranks - n*(n+1)/2) / (n * m)
}
