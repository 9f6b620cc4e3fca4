package gate_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// Publish an item for followers, and open it as several viewers, before and at its
// deadline. Nothing has to run in between: the id tells the time.
func Example() {
	if err := openAsSeveralViewers(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// a follower after 23h59m59.999s: serve
	// another user after 23h59m59.999s: not found
	// a follower after 24h0m0s: gone
	// its author after 24h0m0s: archived
}

func openAsSeveralViewers(ctx context.Context) error {
	set, closeSet, err := fixture.OpenSet(vfs.NewMem())
	if err != nil {
		return err
	}
	defer func() { _ = closeSet() }() // it is in memory
	g, err := gate.New(ctx, set, gate.Options{Relations: fixture.OneByOne(func(_ context.Context, _, viewer mayfly.UserID) (mayfly.Relation, error) {
		if viewer == fixture.Ben() {
			return mayfly.Follower, nil
		}
		return 0, nil
	})})
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }() // only its subscription
	in, err := intake.New(set, intake.Options{})
	if err != nil {
		return err
	}
	day, err := mayfly.LifetimeOf(24 * time.Hour)
	if err != nil {
		return err
	}
	born, err := in.Publish(ctx, intake.Draft{
		Owner: fixture.Ana(), Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Followers, Lifetime: day, Text: "sea",
	}, fixture.Start)
	if err != nil {
		return err
	}
	for _, at := range []struct {
		who    string
		viewer mayfly.UserID
		after  time.Duration
	}{
		{"a follower", fixture.Ben(), 24*time.Hour - time.Millisecond},
		{"another user", fixture.User("carl"), 24*time.Hour - time.Millisecond},
		{"a follower", fixture.Ben(), 24 * time.Hour},
		{"its author", fixture.Ana(), 24 * time.Hour},
	} {
		opened, err := g.Open(ctx, born.Item.ID, mayfly.ViewerOf(at.viewer), fixture.Start.Add(at.after))
		answer := opened.Verdict.String()
		switch {
		case errors.Is(err, mayfly.NotFound):
			answer = "not found"
		case errors.Is(err, mayfly.Gone):
			answer = "gone"
		case err != nil:
			return err
		}
		fmt.Printf("%s after %s: %s\n", at.who, at.after, answer)
	}
	return nil
}
