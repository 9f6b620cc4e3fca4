package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
)

// wish is one thing that a user wants published. What is expected of it is
// computed from these numbers, never by the code under test.
type wish struct {
	number   int
	owner    mayfly.UserID
	key      string // idempotency key; empty without
	lifetime int64  // milliseconds
	fate     mayfly.Fate
	audience mayfly.Audience
	text     string // begins with the number: a row tells which wish it grants
	media    [][]byte
}

// ack is one acknowledgement, in the order in which they were given.
type ack struct {
	wish  int           // a birth was acknowledged for this wish …
	id    mayfly.ID     // … with this id
	row   *mayfly.Item  // or: a row was acknowledged to stand like this
	event *mayfly.Event // or: an event was acknowledged to be in the log
}

// record is the expected state: what was wished, tried and acknowledged. What was
// tried and not acknowledged may have happened or not. Safe for concurrent use.
type record struct {
	shards  int // in which ids may fall
	mu      sync.Mutex
	wishes  []*wish
	tries   map[int][]mayfly.Instant // by wish: when
	uploads map[mayfly.ID]int        // by upload: for which wish
	acks    []ack
}

func newRecord() *record {
	return &record{shards: mayfly.Shards, tries: map[int][]mayfly.Instant{}, uploads: map[mayfly.ID]int{}}
}

// page is how much has been acknowledged so far.
func (b *record) page() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.acks)
}

// known is how many wishes there are so far.
func (b *record) known() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.wishes)
}

// upTo returns the record as it was at that page. Tries made since are in it: they
// might have happened, for all that is known.
func (b *record) upTo(page int) *record {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := newRecord()
	c.shards = b.shards
	c.wishes, c.acks = slices.Clone(b.wishes), slices.Clone(b.acks[:page])
	for n, tries := range b.tries {
		c.tries[n] = slices.Clone(tries)
	}
	for id, n := range b.uploads {
		c.uploads[id] = n
	}
	return c
}

func (b *record) write(a ack) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acks = append(b.acks, a)
}

// granted is the id under which the wish was acknowledged.
func (b *record) granted(w *wish) (mayfly.ID, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.acks {
		if a.wish == w.number && !a.id.IsZero() {
			return a.id, true
		}
	}
	return mayfly.ID{}, false
}

// wishFor adds a wish with these traits and gives it its number and text.
func (b *record) wishFor(w wish, padding int) *wish {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.number = len(b.wishes)
	w.text = fmt.Sprintf("wish %d %s", w.number, bytes.Repeat([]byte("."), padding))
	b.wishes = append(b.wishes, &w)
	return &w
}

// ofText finds the wish that a row's text names.
func (b *record) ofText(text string) (*wish, bool) {
	var n int
	if _, err := fmt.Sscanf(text, "wish %d", &n); err != nil || n < 0 || n >= len(b.wishes) || b.wishes[n].text != text {
		return nil, false
	}
	return b.wishes[n], true
}

// errWrong is an answer that no rule allows; the audit counts it as a DOUBLE.
var errWrong = errors.New("an answer that no rule allows")

// publish tries to have the wish granted at now, and writes down what was
// acknowledged.
func (b *record) publish(ctx context.Context, uploads *upload.Uploads, in *intake.Intake, w *wish, now mayfly.Instant) (intake.Published, error) {
	lifetime, err := lifetimeOf(w.lifetime)
	if err != nil {
		return intake.Published{}, err
	}
	draft := intake.Draft{
		Owner: w.owner, Product: mayfly.Story, Fate: w.fate, Audience: w.audience, Lifetime: lifetime, Text: w.text, Key: w.key,
	}
	if len(w.media) > 0 {
		if draft.Upload, err = b.upload(ctx, uploads, w, now); err != nil {
			return intake.Published{}, err
		}
	}
	b.mu.Lock()
	b.tries[w.number] = append(b.tries[w.number], now)
	b.mu.Unlock()
	p, err := in.Publish(ctx, draft, now)
	if err != nil {
		return p, err
	}
	if before, ok := b.granted(w); ok && before != p.Item.ID {
		return p, fmt.Errorf("%w: wish %d was granted as %s and then as %s", errWrong, w.number, before, p.Item.ID)
	}
	b.write(ack{wish: w.number, id: p.Item.ID})
	return p, nil
}

func (b *record) upload(ctx context.Context, uploads *upload.Uploads, w *wish, now mayfly.Instant) (*upload.Upload, error) {
	u, err := uploads.Begin(w.owner, now)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.uploads[u.ID] = w.number
	b.mu.Unlock()
	for _, medium := range w.media {
		if _, err := u.Add(ctx, bytes.NewReader(medium)); err != nil {
			return nil, err
		}
	}
	return u, nil
}

func randomUser(r *rand.Rand) (u mayfly.UserID) {
	for i := range u {
		u[i] = byte(r.Uint32())
	}
	return u
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}
