// Package story implements stories: publish, open, ring, views, archive, reshare
// and delete.
//
// Whatever it shows has passed the gate, and it refuses exactly as the gate does
// (C2, I18). It never touches ledger or media but through the engine.
package story

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Options are the parts of the engine that Stories use, and their rules.
type Options struct {
	Rows    store.Rows
	Writer  store.Writer
	Uploads *upload.Uploads
	Intake  *intake.Intake
	Gate    *gate.Gate
	Hydrate *hydrate.Hydrate
	Erase   *erase.Erase
	// Following tells whose rings are in a tray; nil: no user follows another.
	Following Following

	// Lifetimes are those that an author may choose; the first is the default.
	// Default 24, 6, 12 and 48 h.
	Lifetimes []mayfly.Lifetime
	// Longest is the longest lifetime that stories of this store were ever born
	// with: how far back a ring looks. Default the longest of Lifetimes, 48 h at least.
	Longest time.Duration
	// Live is how many live stories an author may have; default 100.
	Live int
	// Alone says that no other process publishes to the store: then a count of live
	// stories needs no look for those of others.
	Alone bool
	// ViewsKept is how long after a story's birth its views are counted and listed, or
	// until its deadline if that is later; default 48 h.
	ViewsKept time.Duration
	// Node names this process among those that count views; default "node".
	Node string
	// Problem is called with errors of background work. May be nil.
	Problem func(error)
}

func (o Options) withDefaults() (Options, error) {
	if o.Rows == nil || o.Writer == nil || o.Uploads == nil || o.Intake == nil || o.Gate == nil || o.Hydrate == nil || o.Erase == nil {
		return o, mayfly.Errorf(mayfly.Invalid, "stories: a part of the engine is missing")
	}
	if len(o.Lifetimes) == 0 {
		for _, hours := range []time.Duration{24, 6, 12, 48} {
			l, err := mayfly.LifetimeOf(hours * time.Hour)
			if err != nil {
				return o, err
			}
			o.Lifetimes = append(o.Lifetimes, l)
		}
	}
	for _, l := range o.Lifetimes {
		if l == mayfly.Never || !l.Valid() {
			return o, mayfly.Errorf(mayfly.Invalid, "stories: a lifetime of %s", l).WithHint("a story ends: choose lifetimes such as 24h")
		}
		o.Longest = max(o.Longest, l.Duration(), 48*time.Hour)
	}
	if o.Following == nil {
		o.Following = func(context.Context, mayfly.UserID, string, int) ([]account.Edge, string, error) { return nil, "", nil }
	}
	if o.Live == 0 {
		o.Live = mayfly.DefaultLive
	}
	if o.ViewsKept == 0 {
		o.ViewsKept = 48 * time.Hour
	}
	o.Node = cmp.Or(o.Node, "node")
	if o.Problem == nil {
		o.Problem = func(error) {}
	}
	if o.Live < 0 || o.ViewsKept < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "stories: a setting is out of range: live %d, views kept %s", o.Live, o.ViewsKept)
	}
	return o, nil
}

// Stories is the product. Safe for concurrent use.
type Stories struct {
	o       Options
	authors *userLocks
	counts  *counts
	viewers *userLocks
	views   *viewCounts
	storing atomic.Pointer[loop.Loop] // stores the counts of views
}

// New returns the product on the engine.
func New(o Options) (*Stories, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Stories{o: o, authors: newUserLocks(), counts: newCounts(), viewers: newUserLocks(), views: newViewCounts()}, nil
}

// Story is a story that its viewer may see.
type Story struct {
	Item     mayfly.Item
	Body     mayfly.Body
	Overlays json.RawMessage // nil without
	Archived bool            // past its end: for its author and moderators
	Seen     bool            // by the viewer; in rings
	Again    bool            // an earlier request with the same key had published it
}

// Tier returns where its media are stored.
func (s Story) Tier() hydrate.Tier {
	if s.Item.Keys.Hot == 0 && s.Item.Keys.Cold != 0 {
		return hydrate.Cold
	}
	return hydrate.Hot
}

// shown returns as a story what the gate has opened.
func shown(o gate.Opened) (Story, error) {
	overlays, err := readOverlays(o.Body.Data)
	if err != nil {
		return Story{}, err
	}
	return Story{Item: o.Item, Body: o.Body, Overlays: overlays, Archived: o.Verdict == gate.Archived}, nil
}

// Open returns the story for viewer at now. Errors: the gate's Gone and NotFound,
// unwrapped; Corrupt, Unavailable.
func (s *Stories) Open(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (Story, error) {
	opened, err := s.open(ctx, id, viewer, now)
	if err != nil {
		return Story{}, err
	}
	return shown(opened)
}

// open asks the gate. An item of another product is refused.
func (s *Stories) open(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, now mayfly.Instant) (gate.Opened, error) {
	opened, err := s.o.Gate.Open(ctx, id, viewer, now)
	if err != nil {
		return gate.Opened{}, err
	}
	if opened.Item.Product != mayfly.Story {
		return gate.Opened{}, gate.Refusal(id, now)
	}
	return opened, nil
}

// openOwn is open for what only the author may do: any other user is refused as if
// there were no such story (I18).
func (s *Stories) openOwn(ctx context.Context, id mayfly.ID, author mayfly.UserID, now mayfly.Instant) (gate.Opened, error) {
	opened, err := s.open(ctx, id, mayfly.ViewerOf(author), now)
	if err != nil {
		return gate.Opened{}, err
	}
	if author.IsZero() || opened.Item.Owner != author {
		return gate.Opened{}, gate.Refusal(id, now)
	}
	return opened, nil
}

// Delete ends the author's own story for good, in whatever state it is (ST5):
// when it returns nil no route shows it any more, and a reminder has its bytes
// erased soon. A story that is deleted already, as long as its tombstone is kept,
// is no error. Any other user gets the gate's refusal. Errors: the gate's,
// Unavailable, Unknown.
func (s *Stories) Delete(ctx context.Context, id mayfly.ID, author mayfly.UserID, now mayfly.Instant) error {
	_, refused := s.openOwn(ctx, id, author, now)
	if errors.Is(refused, mayfly.NotFound) || errors.Is(refused, mayfly.Gone) {
		was, err := s.wasDeleted(ctx, id, author)
		if err != nil {
			return err
		}
		if !was {
			return refused
		}
	} else if refused != nil {
		return refused
	}
	_, err := s.o.Erase.Delete(ctx, id, mayfly.ByUser, now)
	if errors.Is(err, mayfly.NotFound) {
		return gate.Refusal(id, now)
	}
	if err == nil {
		s.counts.deleted(author, id)
	}
	return err
}

// wasDeleted reports by its tombstone whether id is a story of author's that is
// deleted, so that a retry gets the same answer whether its bytes are erased
// already or not. A held story is not reported to its author (L16).
func (s *Stories) wasDeleted(ctx context.Context, id mayfly.ID, author mayfly.UserID) (bool, error) {
	if author.IsZero() {
		return false, nil
	}
	left, found, err := s.o.Erase.Tombstone(ctx, id)
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", id, err)
	}
	return found && left.Owner == author && left.Product == mayfly.Story && !left.Held, nil
}
