package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
)

// benchLoad writes stories in bulk: every row that intake writes for a story
// with one medium (owner index, upload, row, body, event), thousands to a commit.
// The media objects themselves are stored only where media is set.
type benchLoad struct {
	set    store.Set
	media  bool
	random *rand.Rand
	owners []benchOwner
	stage  *progress.Stage
}

type benchOwner struct {
	user  mayfly.UserID
	trace mayfly.Trace
}

const (
	loadBatch    = 4_000
	loadWriters  = 2
	loadCaption  = "a caption of the length that captions have" // 42 bytes
	storiesEach  = 10                                           // of an owner, on average
	benchMedium  = 8 << 10
	benchMinOwns = 1_000
)

func newBenchLoad(set store.Set, seed uint64, stories int, stage *progress.Stage) *benchLoad {
	l := &benchLoad{set: set, random: rand.New(rand.NewPCG(seed, 0)), stage: stage}
	l.owners = make([]benchOwner, max(benchMinOwns, stories/storiesEach))
	for i := range l.owners {
		l.owners[i] = newBenchOwner(l.random)
	}
	return l
}

func newBenchOwner(r *rand.Rand) benchOwner {
	var u mayfly.UserID
	binary.BigEndian.PutUint64(u[:], r.Uint64())
	binary.BigEndian.PutUint64(u[8:], r.Uint64())
	return benchOwner{user: u, trace: u.Trace()}
}

// spread returns the instant of the i-th of n births that are spread evenly over a span.
func spread(from mayfly.Instant, span time.Duration, i, n int) mayfly.Instant {
	return from + mayfly.Instant(float64(span.Milliseconds())*float64(i)/float64(n))
}

// benchBirth returns the birth and the lifetime of the i-th story of a load.
type benchBirth func(i int) (mayfly.Instant, mayfly.Lifetime)

// run loads n stories in the order of their births, and calls keep for each unless it
// is nil.
func (l *benchLoad) run(ctx context.Context, n int, born benchBirth, keep func(i int, item mayfly.Item)) error {
	full := make(chan *store.Batch)
	g, ctx := errgroup.WithContext(ctx)
	for range loadWriters {
		g.Go(func() error {
			for b := range full {
				if err := l.putMedia(ctx, b); err != nil {
					return err
				}
				if err := l.set.Writer.Commit(ctx, b); err != nil {
					return err
				}
			}
			return nil
		})
	}
	g.Go(func() error {
		defer close(full)
		for done := 0; done < n; done += loadBatch {
			size := min(loadBatch, n-done)
			b, err := l.batch(done, size, born, keep)
			if err != nil {
				return err
			}
			select {
			case full <- b:
				l.stage.Add(size)
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	return g.Wait()
}

func (l *benchLoad) batch(first, size int, born benchBirth, keep func(int, mayfly.Item)) (*store.Batch, error) {
	births := make([]store.Birth, size)
	events := make([]mayfly.Event, size)
	b := &store.Batch{}
	for i := range births {
		at, lifetime := born(first + i)
		birth, err := l.birth(at, lifetime)
		if err != nil {
			return nil, err
		}
		item := birth.Item
		births[i], events[i] = birth, mayfly.EventOf(item, mayfly.WasCreated)
		b.Put(engine.Owners, engine.OwnerKey(item.Owner, item.ID), []byte{byte(item.Product)}, 0)
		engine.AddToRings(b, item)
		b.Put(engine.Uploads, engine.UploadKey(item.Upload), item.ID[:], 0)
		if keep != nil {
			keep(first+i, item)
		}
	}
	b.Then()
	b.Insert(births...)
	b.Then()
	b.Append(events...)
	return b, nil
}

func (l *benchLoad) birth(at mayfly.Instant, lifetime mayfly.Lifetime) (store.Birth, error) {
	owner := l.owners[l.random.IntN(len(l.owners))]
	id, err := mayfly.NewID(at, lifetime, owner.trace, l.random.Uint64())
	if err != nil {
		return store.Birth{}, err
	}
	upload, err := mayfly.NewID(at-1, lifetime, owner.trace, l.random.Uint64())
	if err != nil {
		return store.Birth{}, err
	}
	medium := mayfly.Medium{Type: "image/jpeg", Size: benchMedium, Width: 1080, Height: 1920}
	if l.media {
		medium.SHA256 = sha256.Sum256(benchContent(upload))
	} else {
		for i := 0; i < len(medium.SHA256); i += 8 {
			binary.BigEndian.PutUint64(medium.SHA256[i:], l.random.Uint64())
		}
	}
	item := mayfly.Item{
		ID: id, Owner: owner.user, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
		Media: 1, Upload: upload, Keys: mayfly.Keys{Hot: mayfly.Born},
		State: mayfly.Active, Generation: mayfly.Born, Nonce: mayfly.Nonce(l.random.Uint64() | 1), Changed: at,
	}
	return store.Birth{Item: item, Body: mayfly.Body{Text: loadCaption, Media: []mayfly.Medium{medium}}}, nil
}

// putMedia stores the media of a batch: content first (L12).
func (l *benchLoad) putMedia(ctx context.Context, b *store.Batch) error {
	if !l.media {
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(128)
	for _, s := range b.Stages() {
		for _, birth := range s.Inserts {
			g.Go(func() error {
				_, err := l.set.Hot.Put(ctx, birth.Item.MediaKey(mayfly.Born, 0), bytes.NewReader(benchContent(birth.Item.Upload)))
				return err
			})
		}
	}
	return g.Wait()
}

// benchContent is the medium of an upload: opaque, and no two are the same.
func benchContent(upload mayfly.ID) []byte {
	r := rand.New(rand.NewPCG(binary.BigEndian.Uint64(upload[:]), binary.BigEndian.Uint64(upload[8:])))
	content := make([]byte, benchMedium)
	for i := 0; i < len(content); i += 8 {
		binary.BigEndian.PutUint64(content[i:], r.Uint64())
	}
	return content
}

// benchLifetime returns d as a lifetime; it panics if d has no exact encoding.
func benchLifetime(d time.Duration) mayfly.Lifetime {
	l, err := mayfly.LifetimeOf(d)
	if err != nil {
		panic(err) // d is a constant of the trials
	}
	return l
}
