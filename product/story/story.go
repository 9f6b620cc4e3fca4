// Package story is in charge of the product: publish, open, ring, views,
// archive, reshare, delete, and uploads that arrive one by one.
//
// Whatever it shows has gone through the gate, and whatever it refuses it
// refuses in the gate's words (C2, I18). It never touches ledger or media but
// through the engine.
package story

import (
	"encoding/json"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/store"
)

// Options are what Stories stand on, and their rules.
type Options struct {
	Rows    store.Rows
	Writer  store.Writer
	Intake  *intake.Intake
	Gate    *gate.Gate
	Hydrate *hydrate.Hydrate
	Erase   *erase.Erase

	// Lifetimes are those that an author may choose; the first is the default.
	// Default 24, 6, 12 and 48 h.
	Lifetimes []mayfly.Lifetime
	// Longest is the longest lifetime that stories of this store were ever born
	// with: how far back a ring looks. Default the longest of Lifetimes, 48 h at least.
	Longest time.Duration
	// Live is how many live stories an author may have; default 100.
	Live int
	// MaxMedia is how many media a story may have; default 10.
	MaxMedia int
	// Media bounds each of them.
	Media media.Limits
	// ViewsKept is how long after a story's end its views are kept; default 48 h.
	ViewsKept time.Duration
}

func (o Options) withDefaults() (Options, error) {
	if o.Rows == nil || o.Writer == nil || o.Intake == nil || o.Gate == nil || o.Hydrate == nil || o.Erase == nil {
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
	if o.Live == 0 {
		o.Live = 100
	}
	if o.MaxMedia == 0 {
		o.MaxMedia = 10
	}
	if o.ViewsKept == 0 {
		o.ViewsKept = 48 * time.Hour
	}
	def := func(n *int64, v int64) {
		if *n == 0 {
			*n = v
		}
	}
	def(&o.Media.Image, 20<<20)
	def(&o.Media.Video, 64<<20)
	def(&o.Media.Pixels, 50_000_000)
	if o.Live < 0 || o.MaxMedia < 1 || o.MaxMedia > mayfly.MaxMedia || o.ViewsKept < 0 {
		return o, mayfly.Errorf(mayfly.Invalid, "stories: a setting is out of range: live %d, media %d, views kept %s", o.Live, o.MaxMedia, o.ViewsKept)
	}
	return o, nil
}

// Stories is the product. Safe for concurrent use.
type Stories struct {
	o       Options
	authors *authorLocks
}

// New is the product on the engine.
func New(o Options) (*Stories, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Stories{o: o, authors: newAuthorLocks()}, nil
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

// Tier is where its media lie.
func (s Story) Tier() hydrate.Tier {
	if s.Item.Keys.Hot == 0 && s.Item.Keys.Cold != 0 {
		return hydrate.Cold
	}
	return hydrate.Hot
}

// shown is what the gate has opened, as a story.
func shown(o gate.Opened) (Story, error) {
	overlays, err := readOverlays(o.Body.Data)
	if err != nil {
		return Story{}, err
	}
	return Story{Item: o.Item, Body: o.Body, Overlays: overlays, Archived: o.Verdict == gate.Archived}, nil
}
