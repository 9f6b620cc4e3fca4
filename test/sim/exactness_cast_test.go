package sim

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	rowtables "github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
)

// guest is a viewer and what every owner grants him.
type guest struct {
	name      string
	user      mayfly.UserID
	viewer    mayfly.Viewer
	moderator bool
	follows   bool
	close     bool
	blocked   bool
}

// cast are the people of a village.
type cast struct {
	owners []mayfly.UserID
	guests []guest
}

func newCast(rng *rand.Rand) *cast {
	c := &cast{}
	for range 4 {
		c.owners = append(c.owners, randomUser(rng))
	}
	add := func(g guest) {
		if g.name != "anonymous" {
			for g.user = randomUser(rng); g.name == "double" && g.user.Trace() != c.owners[0].Trace(); {
				g.user = randomUser(rng) // whom the id alone cannot tell from the author
			}
		}
		g.viewer = mayfly.ViewerOf(g.user)
		if g.moderator {
			g.viewer = mayfly.ModeratorOf(g.user)
		}
		c.guests = append(c.guests, g)
	}
	add(guest{name: "anonymous"})
	add(guest{name: "stranger"})
	add(guest{name: "double"})
	add(guest{name: "follower", follows: true})
	add(guest{name: "close friend", follows: true, close: true})
	add(guest{name: "close friend who does not follow", close: true})
	add(guest{name: "blocked", blocked: true})
	add(guest{name: "blocked follower", follows: true, close: true, blocked: true})
	add(guest{name: "moderator", moderator: true})
	add(guest{name: "blocked moderator", moderator: true, blocked: true})
	return c
}

// viewers are the guests, the author, and the other owners as strangers.
func (c *cast) viewers(author mayfly.UserID) []guest {
	all := c.guests
	for _, owner := range c.owners {
		name := "another author"
		if owner == author {
			name = "author"
		}
		all = append(all, guest{name: name, user: owner, viewer: mayfly.ViewerOf(owner)})
	}
	return all
}

// relations is what the gate asks.
func (c *cast) relations(_ context.Context, owner, viewer mayfly.UserID) (r mayfly.Relation, _ error) {
	if owner.IsZero() { // no user grants or denies anything
		return 0, nil
	}
	for _, g := range c.guests {
		if g.user != viewer {
			continue
		}
		if g.follows {
			r |= mayfly.Follower
		}
		if g.close {
			r |= mayfly.CloseFriend
		}
		if g.blocked {
			r |= mayfly.Blocked
		}
	}
	return r, nil
}

// randomLifetime is anything from a second to 1,023 days, in milliseconds that
// an id can say; rarely never.
func randomLifetime(rng *rand.Rand) int64 {
	if rng.IntN(12) == 0 {
		return 0
	}
	unit := []int64{1_000, 60_000, 3_600_000, 86_400_000}[rng.IntN(4)]
	return unit * (1 + rng.Int64N(1023))
}

// settle lets n items be born, at whatever time brings their deadlines together.
func (v *village) settle(t *testing.T, n int) {
	for i := range n {
		life := randomLifetime(v.rng)
		r := &resident{audience: mayfly.Everyone + mayfly.Audience(v.rng.IntN(4)), text: string(randomBytes(v.rng, 8))}
		birth := firstDeadline - 1_000*v.rng.Int64N(1_000_000)
		if life != 0 {
			r.deadline = firstDeadline + v.rng.Int64N(600_000)
			if v.rng.IntN(2) == 0 {
				r.deadline += 86_400_000
			}
			birth = r.deadline - life
		}
		if i%10 != 0 { // the others have no owner
			r.owner = v.cast.owners[v.rng.IntN(len(v.cast.owners))]
		}
		lifetime, err := lifetimeOf(life)
		if err != nil {
			t.Fatal(err)
		}
		fate := mayfly.Archive + mayfly.Fate(v.rng.IntN(2))
		r.purged = fate == mayfly.Purge
		p, err := v.engine.intake.Publish(t.Context(), intake.Draft{
			Owner: r.owner, Product: mayfly.Story, Fate: fate,
			Audience: r.audience, Lifetime: lifetime, Text: r.text,
		}, mayfly.Instant(birth))
		if err != nil {
			t.Fatal(err)
		}
		r.id = p.Item.ID
		v.items = append(v.items, r)
		switch v.rng.IntN(6) {
		case 0:
			v.turnHold(t, r, birth)
		case 1:
			v.restore(t, r)
		}
	}
}

// turnHold holds the item, or releases it.
func (v *village) turnHold(t *testing.T, r *resident, now int64) {
	change := mayfly.Change{Hold: mayfly.SetHold, Cause: mayfly.BySupport, At: mayfly.Instant(now)}
	if r.held {
		change.Hold = mayfly.ReleaseHold
	}
	if v.change(t, r, change, store.RowChanged) {
		r.held = !r.held
	}
}

// restore puts the item back after its deadline, as support does.
func (v *village) restore(t *testing.T, r *resident) {
	if r.deadline == 0 {
		return
	}
	until := r.deadline + 1 + v.rng.Int64N(int64(2*time.Hour/time.Millisecond))
	if !v.change(t, r, mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry, At: mayfly.Instant(r.deadline)}, store.RowChanged) {
		t.Fatal("the item cannot be expired")
	}
	var list store.Batch
	rowtables.ListRestored(&list, r.id, mayfly.Instant(until))
	if err := v.engine.raw.Writer.Commit(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	if _, _, err := v.engine.raw.Rows.Swap(t.Context(), rowtables.Restored, rowtables.RestoredKey(r.id), nil, []byte{1}, 0); err != nil {
		t.Fatal(err)
	}
	back := mayfly.Change{To: mayfly.Active, Cause: mayfly.BySupport, At: mayfly.Instant(r.deadline), ServesUntil: mayfly.Instant(until)}
	if !v.change(t, r, back, store.RestoredSet) {
		t.Fatal("the item cannot be restored")
	}
	r.servesUntil = until
}

// change makes one change of the item's row and tells the caches.
func (v *village) change(t *testing.T, r *resident, c mayfly.Change, topic store.Topic) bool {
	found, err := v.engine.raw.Ledger.Get(t.Context(), r.id)
	if err != nil {
		t.Fatal(err)
	}
	item := found[0].Item
	if item.State == mayfly.Deleted {
		return false
	}
	c.ID, c.From, c.Generation, c.Nonce = r.id, item.State, item.Generation, mayfly.Nonce(v.rng.Uint64()|1)
	if c.Hold != mayfly.KeepHold {
		c.To = item.State
	}
	out, err := v.engine.raw.Ledger.Transition(t.Context(), []mayfly.Change{c})
	if err != nil || out[0].Result != store.Applied {
		t.Fatalf("%s: %v, %v", r.id, out, err)
	}
	for _, topic := range []store.Topic{store.RowChanged, topic} {
		if err := v.engine.signals.Publish(t.Context(), store.Signal{Topic: topic, ID: r.id}); err != nil {
			t.Fatal(err)
		}
	}
	return true
}
