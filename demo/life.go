package demo

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store/loop"
)

// publication is a story that a user wants to publish, and the key by which it
// is published once, however often it is sent.
type publication struct {
	author string
	what   client.Publication
	hash   string
	lasts  time.Duration
}

// newPublication is the n-th story: authors take turns, audiences and lifetimes too.
func newPublication(n int) (*publication, error) {
	picture, err := demoPicture(n)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(picture)
	p := &publication{author: []string{"ana", "ben"}[n%2], hash: hex.EncodeToString(sum[:]), lasts: time.Duration(3+n%5) * time.Second}
	audience := []mayfly.Audience{mayfly.Everyone, mayfly.Followers, mayfly.CloseFriends}[n%3]
	p.what = client.Publication{
		Story: wire.NewStory{Caption: fmt.Sprintf("story %d", n+1), Audience: audience.String(), Lifetime: p.lasts.String()},
		Media: []client.Source{client.Bytes("photo.jpg", picture)}, Key: "demo-" + rand.Text(),
	}
	return p, nil
}

// Picture draws a sun over the sea, always the same.
func Picture() ([]byte, error) {
	const width, height, horizon, radius = 480, 320, 200, 56
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			dx, dy := x-width/2, y-horizon
			inSun := dx*dx+dy*dy < radius*radius
			shade := uint8(y * 120 / height)
			c := color.RGBA{255 - shade/2, 150 + shade/2, 90 + shade, 255} // sky
			switch {
			case y > horizon && inSun && y%8 < 5:
				c = color.RGBA{255, 210, 120, 255} // its light on the water
			case y > horizon:
				c = color.RGBA{20, 60 + shade/2, 110 + shade/2, 255}
			case inSun:
				c = color.RGBA{255, 235, 160, 255}
			}
			picture.SetRGBA(x, y, c)
		}
	}
	out := new(bytes.Buffer)
	err := jpeg.Encode(out, picture, &jpeg.Options{Quality: 85})
	return out.Bytes(), err
}

// demoPicture is a small picture that is like no other.
func demoPicture(n int) ([]byte, error) {
	const width, height = 96, 72
	noise := make([]byte, width*height)
	if _, err := rand.Read(noise); err != nil {
		return nil, err
	}
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for i, b := range noise {
		picture.SetRGBA(i%width, i/width, color.RGBA{uint8(40*n) + b/8, uint8(90 + i/width + int(b/8)), 160 + b/8, 255})
	}
	out := new(bytes.Buffer)
	err := jpeg.Encode(out, picture, &jpeg.Options{Quality: 90})
	return out.Bytes(), err
}

// life is what the demonstration knows of one story, by its own reckoning: the
// deadline is birth plus lifetime in plain milliseconds, not asked of the id.
type life struct {
	n        int
	story    wire.Story // as it was acknowledged
	author   string
	hash     string
	deadline mayfly.Instant
	reshared bool
	serves   *window // until its deadline

	mu     sync.Mutex      // of what the table shows and the store must have
	stored verify.Expected // what the store must have of it
	until  mayfly.Instant
	state  string
	seen   []string
	remark string
	url    string        // of its medium, as its friend was given it
	cold   time.Duration // after its deadline
	opened time.Duration // how long its author waited for it, from cold storage
	last   string        // what became of it
}

// window is a time that ends for those who may see a story.
type window struct {
	end                      mayfly.Instant
	lastServed, firstRefused atomic.Int64 // to its friend: when they asked, when they were answered; in Unix milliseconds
}

// born is a story that was acknowledged, held against what was sent.
func (d *demo) born(p *publication, s wire.Story) *life {
	l := &life{story: s, author: p.author, hash: p.hash, deadline: s.BornAt + mayfly.Instant(p.lasts.Milliseconds()), state: s.State}
	l.serves, l.until = &window{end: l.deadline}, l.deadline
	if s.ExpiresAt != l.deadline {
		d.count.Add(verify.Early, "%s says it ends %d ms after its deadline", s.ID, s.ExpiresAt-l.deadline)
	}
	var sum [32]byte
	_, _ = hex.Decode(sum[:], []byte(p.hash)) // it was encoded here
	l.stored = verify.Expected{Media: [][32]byte{sum}, Moving: true}
	if len(s.Media) != 1 || s.Media[0].SHA256 != p.hash {
		d.count.Add(verify.Lost, "%s was acknowledged without its medium", s.ID)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, other := range d.all {
		if other.story.ID == s.ID {
			d.count.Add(verify.Double, "%s stands for two stories", s.ID)
		}
	}
	d.all = append(d.all, l)
	l.n = len(d.all)
	return l
}

func (d *demo) lives() []*life {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]*life(nil), d.all...)
}

// publish publishes, and once more as a client does that did not hear the answer.
func (d *demo) publish(ctx context.Context, p *publication) (*life, error) {
	who := d.people.named(p.author)
	story, err := who.act.Publish(ctx, p.what)
	if err != nil {
		return nil, fmt.Errorf("%s publishes: %w", p.author, err)
	}
	l := d.born(p, story)
	again, err := who.act.Publish(ctx, p.what)
	if err != nil {
		return nil, fmt.Errorf("%s publishes again: %w", p.author, err)
	}
	if again.ID != story.ID {
		d.count.Add(verify.Double, "a retry of %s became %s", story.ID, again.ID)
	}
	return l, nil
}

// live lets stories be published and lived, and a paste and a key beside them, each
// watched on its own.
func (d *demo) live(ctx context.Context, broken []*publication) error {
	ends, burned, err := d.createPastes(ctx)
	if err != nil {
		return err
	}
	key, err := d.createKey(ctx)
	if err != nil {
		return err
	}
	post, err := d.createPosts(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.seePaste(ctx, ends) })
	g.Go(func() error { return d.seePost(ctx, post) })
	g.Go(func() error { return d.seeKey(ctx, key) })
	burnedAt := d.host.now()
	g.Go(func() error { return d.eraseOf(ctx, burned, burnedAt) })
	begin := func(l *life) { g.Go(func() error { return d.see(ctx, l, g) }) }
	for _, l := range d.lives() { // of the killed server
		begin(l)
	}
	g.Go(func() error {
		for _, p := range broken {
			l, err := d.publish(ctx, p)
			if err != nil {
				return err
			}
			begin(l)
		}
		return d.publishAll(ctx, begin)
	})
	g.Go(func() error { return d.restartOnce(ctx) })
	return g.Wait()
}

// publishAll publishes all at once, or one after the other until it is time to end.
func (d *demo) publishAll(ctx context.Context, begin func(*life)) error {
	for n := len(d.lives()); d.goesOn(n); n++ {
		p, err := newPublication(n)
		if err != nil {
			return err
		}
		l, err := d.publish(ctx, p)
		if err != nil {
			return err
		}
		begin(l)
		if d.once {
			continue
		}
		if err := loop.Rest(ctx, 1200*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) goesOn(n int) bool {
	if d.once {
		return n < d.stories
	}
	return n == 0 || time.Since(d.began) < d.lasts-demoTail
}

// restartOnce stops and starts the server in the middle of it.
func (d *demo) restartOnce(ctx context.Context) error {
	if err := loop.Rest(ctx, 2500*time.Millisecond); err != nil {
		return err
	}
	took, err := d.host.restart(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	d.say("in the middle of it the server stops and starts again: ready after %s.", took.Round(time.Millisecond))
	return nil
}
