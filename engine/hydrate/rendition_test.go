package hydrate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// photo returns a JPEG. Most tests take a flat one, which is made in no time and yet has
// both renditions.
func photo(width, height int) []byte {
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range picture.Pix {
		picture.Pix[i] = byte(i / 16)
	}
	picture.Set(0, 0, color.White)
	var b bytes.Buffer
	if err := jpeg.Encode(&b, picture, nil); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// gallery is a fixture whose story has pictures. Its hooks run while a rendition is
// made.
type gallery struct {
	*env
	h        *hydrate.Hydrate
	made     loop.Signal[mayfly.ID]
	problems atomic.Int32
	opens    atomic.Int32 // of originals in hot
	puts     atomic.Int32
	reading  func(context.Context) // before every Open
	putting  func()                // after the object of a rendition is stored, before its description
	writing  func(*store.Batch)    // after its description is stored, before the row is read again
}

func openGallery(t *testing.T, o hydrate.Options, pictures ...[]byte) *gallery {
	t.Helper()
	g := &gallery{env: open(t), made: loop.NewSignal[mayfly.ID]()}
	g.publishPictures(pictures...)
	g.Set = g.Real
	g.Set.Hot, g.Set.Writer = galleryHot{g.Real.Hot, g}, galleryWriter{g.Real.Writer, g}
	o.Made, o.Problem = g.made, func(mayfly.ID, error) { g.problems.Add(1) }
	h, err := hydrate.New(g.Set, o)
	g.Must(err)
	g.h = h
	t.Cleanup(h.Close)
	return g
}

// publishPictures publishes a story with pictures and makes it the story of the
// fixture.
func (g *gallery) publishPictures(pictures ...[]byte) {
	g.Helper()
	g.Now = fixture.Start
	uploads, err := upload.New(g.Real, upload.Options{})
	g.Must(err)
	u := fixture.UploadTo(g, uploads, fixture.Ana(), g.Now)
	for _, p := range pictures {
		c, err := media.Clean(bytes.NewReader(p), media.Limits{})
		g.Must(err)
		m, err := u.Add(context.Background(), c)
		g.Must(err)
		if m.Width == 0 {
			g.Fatalf("%+v", m)
		}
	}
	d := g.Draft()
	d.Lifetime, d.Upload = fixture.Lifetime(g, time.Hour), u
	g.id = g.Publish(d, g.Now).ID
	g.body, _ = g.Body(g.id)
}

type galleryHot struct {
	store.Blobs
	g *gallery
}

func (b galleryHot) Open(ctx context.Context, key mayfly.BlobKey, span store.Span) (io.ReadCloser, store.Object, error) {
	b.g.opens.Add(1)
	if b.g.reading != nil {
		b.g.reading(ctx)
	}
	return b.Blobs.Open(ctx, key, span)
}

func (b galleryHot) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	b.g.puts.Add(1)
	o, err := b.Blobs.Put(ctx, key, r)
	if b.g.putting != nil {
		b.g.putting()
	}
	return o, err
}

type galleryWriter struct {
	store.Writer
	g *gallery
}

func (w galleryWriter) Commit(ctx context.Context, b *store.Batch) error {
	err := w.Writer.Commit(ctx, b)
	if w.g.writing != nil {
		w.g.writing(b)
	}
	return err
}

// look requests a rendition and decodes it.
func (g *gallery) look(ctx context.Context, m, longest int) (image.Image, *hydrate.Medium, error) {
	found, err := g.h.Rendition(ctx, g.row(), g.body, m, longest, g.Now)
	if err != nil {
		return nil, nil, err
	}
	read, err := io.ReadAll(found)
	if err := errors.Join(err, found.Close()); err != nil {
		return nil, nil, err
	}
	if int64(len(read)) != found.Size {
		return nil, nil, fmt.Errorf("%d bytes of %d", len(read), found.Size)
	}
	picture, _, err := image.Decode(bytes.NewReader(read))
	return picture, found, err
}

// objects returns the keys of the renditions in the hot tier.
func (g *gallery) objects() (found []mayfly.BlobKey) {
	g.Helper()
	row := g.row()
	all, err := g.Real.Hot.List(context.Background(), "", "", 1000)
	g.Must(err)
	for _, listed := range all {
		for _, n := range g.body.Renditions() {
			for generation := mayfly.Born; generation <= row.Generation+1; generation++ {
				if row.MediaKey(generation, n) == listed.Key {
					found = append(found, listed.Key)
				}
			}
		}
	}
	return found
}

func (g *gallery) descriptions() int {
	g.Helper()
	rows, err := g.Real.Rows.Range(context.Background(), upload.Renditions, store.Range{Partition: string(g.id[:]), Limit: 100})
	g.Must(err)
	return len(rows)
}

func TestARenditionIsMadeOnceAndStoredBesideItsOriginal(t *testing.T) {
	g := openGallery(t, hydrate.Options{}, photo(400, 300), photo(300, 600))
	for m, want := range []image.Point{{320, 240}, {160, 320}} {
		for range 3 {
			picture, found, err := g.look(t.Context(), m, 320)
			g.Must(err)
			if picture.Bounds().Size() != want || found.Type != media.JPEG || found.Tier != hydrate.Hot || found.SHA256 == [32]byte{} {
				t.Errorf("%v, %+v", picture.Bounds(), found)
			}
		}
	}
	if g.puts.Load() != 2 || len(g.objects()) != 2 || g.descriptions() != 2 {
		t.Errorf("%d puts, %d objects, %d descriptions", g.puts.Load(), len(g.objects()), g.descriptions())
	}
}

func TestConcurrentRequestsGetTheSameRendition(t *testing.T) {
	g := openGallery(t, hydrate.Options{}, photo(1200, 30))
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, _, err := g.look(t.Context(), 0, 1080); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(g.objects()) != 1 || g.descriptions() != 1 || g.puts.Load() > 2 {
		t.Errorf("%d puts, %d objects, %d descriptions", g.puts.Load(), len(g.objects()), g.descriptions())
	}
}

func TestASmallImageIsItsOwnRendition(t *testing.T) {
	g := openGallery(t, hydrate.Options{}, photo(320, 100))
	picture, found, err := g.look(t.Context(), 0, 320)
	g.Must(err)
	if picture.Bounds().Dx() != 320 || found.SHA256 != g.body.Media[0].SHA256 || g.puts.Load() != 0 {
		t.Errorf("%v", picture.Bounds())
	}
	g.h.MakeRenditions(g.row(), g.body)
	if len(g.objects()) != 0 {
		t.Error("a rendition was made")
	}
}

func TestTheSmallRenditionIsMadeFromTheLargeOne(t *testing.T) {
	g := openGallery(t, hydrate.Options{}, photo(1200, 30))
	g.h.MakeRenditions(g.row(), g.body)
	for range 2 {
		_, err := g.made.Wait(t.Context())
		g.Must(err)
	}
	if len(g.objects()) != 2 || g.descriptions() != 2 || g.problems.Load() != 0 {
		t.Fatalf("%d objects, %d problems", len(g.objects()), g.problems.Load())
	}
	if opens := g.opens.Load(); opens != 2 {
		t.Errorf("%d opens", opens)
	}
	original := g.row().MediaKey(mayfly.Born, 0)
	g.Must(g.Real.Hot.Delete(t.Context(), original)) // it is not needed any more
	for _, longest := range []int{320, 1080} {
		if picture, _, err := g.look(t.Context(), 0, longest); err != nil || picture.Bounds().Dx() != longest {
			t.Errorf("%d: %v", longest, err)
		}
	}
}

func TestRenditionsBeyondTheQueueAreMadeOnRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openGallery(t, hydrate.Options{Queue: 3}, photo(1200, 30), photo(1150, 30), photo(1100, 30))
		hold := make(chan struct{})
		g.reading = func(context.Context) { <-hold }
		g.h.MakeRenditions(g.row(), g.body) // one is being made and three wait, or three wait
		synctest.Wait()
		close(hold)
		synctest.Wait()
		if made := len(g.objects()); made < 3 || made > 4 {
			t.Fatalf("%d were made", made)
		}
		for m := range 3 {
			if _, _, err := g.look(t.Context(), m, 320); err != nil {
				t.Error(err)
			}
		}
		g.h.Close()
	})
}

// The row changes in every possible way, at every step of making a rendition. No
// rendition is left that must not stay.
func TestTheRenditionOfAChangedRowIsRemoved(t *testing.T) {
	moves := map[string]func(g *gallery){
		"deleted": func(g *gallery) { g.move(mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByUser}) },
		"claimed": func(g *gallery) {
			g.Now = g.id.Deadline()
			g.move(mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
			g.claim()
		},
		"archived": func(g *gallery) {
			g.Now = g.id.Deadline()
			g.move(mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
			g.claim()
			item := g.row()
			_, err := g.Real.Hot.CopyTo(context.Background(), g.Real.Cold, item.MediaKey(item.Keys.Hot, 0), item.MediaKey(item.Generation, 0))
			g.Must(err)
			g.move(mayfly.Change{To: mayfly.Archiving, Keys: &mayfly.Keys{Hot: item.Keys.Hot, Cold: item.Generation}})
			g.Must(g.Real.Hot.Delete(context.Background(), item.MediaKey(mayfly.Born, 0)))
			g.finish()
		},
		"restored": func(g *gallery) {
			g.Now = g.id.Deadline()
			item := g.move(mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
			_, err := g.Real.Hot.CopyTo(context.Background(), g.Real.Hot, item.MediaKey(mayfly.Born, 0), item.MediaKey(item.Generation+1, 0))
			g.Must(err)
			g.move(mayfly.Change{To: mayfly.Active, Cause: mayfly.BySupport, ServesUntil: g.Now + 3_600_000, Keys: &mayfly.Keys{Hot: item.Generation + 1}})
		},
	}
	tried := 0
	for name, move := range moves {
		for _, moment := range []string{"before its bytes", "after its bytes", "after its description"} {
			t.Run(name+" "+moment, func(t *testing.T) {
				tried++
				g := openGallery(t, hydrate.Options{}, photo(1200, 30))
				did := false
				once := func() {
					if !did {
						did = true
						move(g)
					}
				}
				switch moment {
				case "before its bytes":
					g.reading = func(context.Context) { once() }
				case "after its bytes":
					g.putting = once
				default:
					g.writing = func(*store.Batch) { once() }
				}
				_, _, err := g.look(t.Context(), 0, 320)
				if err != nil && (name != "deleted" || !errors.Is(err, mayfly.NotFound)) {
					t.Fatal(err)
				}
				if !did {
					t.Fatal("the row was not changed")
				}
				stays := 0
				if name == "restored" && moment == "before its bytes" {
					stays = 1 // it was made for the changed row
				}
				if got := g.objects(); len(got) != stays || g.descriptions() != stays {
					t.Fatalf("%v and %d descriptions are left", got, g.descriptions())
				}
				if name == "deleted" {
					return
				}
				if picture, _, err := g.look(t.Context(), 0, 320); err != nil || picture.Bounds().Dx() != 320 {
					t.Error(err)
				}
			})
		}
	}
	if tried != 12 {
		t.Errorf("%d tried", tried)
	}
}

func TestRenditionsOfHeldOrColdItemsAreNotStored(t *testing.T) {
	for name, move := range map[string]func(g *gallery){
		"held": func(g *gallery) {
			g.move(mayfly.Change{To: mayfly.Active, Hold: mayfly.SetHold, Cause: mayfly.BySupport})
		},
		"cold": func(g *gallery) {
			g.Now = g.id.Deadline()
			g.move(mayfly.Change{To: mayfly.ExpiredHot, Cause: mayfly.ByExpiry})
			item := g.claim()
			_, err := g.Real.Hot.CopyTo(context.Background(), g.Real.Cold, item.MediaKey(item.Keys.Hot, 0), item.MediaKey(item.Generation, 0))
			g.Must(err)
			g.move(mayfly.Change{To: mayfly.Archiving, Keys: &mayfly.Keys{Hot: item.Keys.Hot, Cold: item.Generation}})
			g.Must(g.Real.Hot.Delete(context.Background(), item.MediaKey(mayfly.Born, 0)))
			g.finish()
		},
	} {
		g := openGallery(t, hydrate.Options{}, photo(1200, 30))
		move(g)
		picture, _, err := g.look(t.Context(), 0, 1080)
		g.Must(err)
		if picture.Bounds().Dx() != 1080 || len(g.objects()) != 0 || g.descriptions() != 0 || g.puts.Load() != 0 {
			t.Errorf("%s: %d objects, %d descriptions", name, len(g.objects()), g.descriptions())
		}
	}
}

func TestAPictureThatCannotBeDecodedIsTriedOnce(t *testing.T) {
	broken := photo(1200, 30)
	scan := bytes.Index(broken, []byte{0xff, 0xda})
	broken[scan+6] = 0x33 // tables that do not exist
	g := openGallery(t, hydrate.Options{}, broken)
	for range 3 {
		if _, _, err := g.look(t.Context(), 0, 320); !errors.Is(err, mayfly.Unsupported) {
			t.Fatal(err)
		}
	}
	if g.opens.Load() != 1 || len(g.objects()) != 0 || g.descriptions() != 1 {
		t.Errorf("%d opens, %d objects", g.opens.Load(), len(g.objects()))
	}
}

func TestADamagedOriginalMakesNoRendition(t *testing.T) {
	g := openGallery(t, hydrate.Options{}, photo(1200, 30))
	key := g.row().MediaKey(mayfly.Born, 0)
	other := photo(1200, 30)
	other = append(other[:g.body.Media[0].Size-2:g.body.Media[0].Size-2], 0, 0) // without its end of image
	_, err := g.Real.Hot.Put(t.Context(), key, bytes.NewReader(other))
	g.Must(err)
	if _, _, err := g.look(t.Context(), 0, 320); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
	if len(g.objects()) != 0 || g.descriptions() != 0 {
		t.Error("a rendition was stored")
	}
}

func TestDamageAfterTheFirstFrameIsFound(t *testing.T) {
	var film gif.GIF
	for range 4 {
		frame := image.NewPaletted(image.Rect(0, 0, 500, 500), palette.Plan9)
		for i := range frame.Pix {
			frame.Pix[i] = byte(i * i)
		}
		film.Image, film.Delay = append(film.Image, frame), append(film.Delay, 1)
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, &film); err != nil {
		t.Fatal(err)
	}
	g := openGallery(t, hydrate.Options{}, b.Bytes())
	other := bytes.Clone(b.Bytes())
	other[len(other)-1] = 0
	_, err := g.Real.Hot.Put(t.Context(), g.row().MediaKey(mayfly.Born, 0), bytes.NewReader(other))
	g.Must(err)
	if _, _, err := g.look(t.Context(), 0, 320); !errors.Is(err, mayfly.Corrupt) || len(g.objects()) != 0 {
		t.Error(err)
	}
}

func TestAnInvalidRenditionIsRefused(t *testing.T) {
	g := openGallery(t, hydrate.Options{}, photo(1200, 30))
	for _, tc := range []struct{ m, longest int }{{0, 321}, {0, 0}, {-1, 320}, {1, 320}, {10, 320}} {
		if _, _, err := g.look(t.Context(), tc.m, tc.longest); !errors.Is(err, mayfly.NotFound) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
	body := mayfly.Body{Media: []mayfly.Medium{{Type: media.MP4, Size: 1}}}
	if _, err := g.h.Rendition(t.Context(), g.row(), body, 0, 320, g.Now); !errors.Is(err, mayfly.Unsupported) {
		t.Error(err)
	}
}

// Up to four small pictures are decoded at once: one that takes more than a quarter of the
// memory waits until it is alone.
func TestAPictureThatTakesMoreThanItsShareOfMemoryIsDecodedAlone(t *testing.T) {
	const takes = 512 * 400 * 3 / 2 // bytes to decode it
	for _, c := range []struct {
		memory int64
		opens  int32
		want   error
	}{
		{4 * takes, 1, nil},
		{2 * takes, 2, nil},
		{takes / 2, 2, mayfly.Unsupported},
	} {
		g := openGallery(t, hydrate.Options{Limits: media.Limits{Pixels: 4_000_000, Memory: c.memory}}, photo(512, 400))
		_, _, err := g.look(t.Context(), 0, mayfly.SmallRendition)
		if !errors.Is(err, c.want) || g.opens.Load() != c.opens {
			t.Errorf("of %d bytes: %v, decoded %d times", c.memory, err, g.opens.Load())
		}
	}
}

func TestLargePicturesAreDecodedOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openGallery(t, hydrate.Options{Limits: media.Limits{Pixels: 1200 * 30}}, photo(1200, 30), photo(1199, 30), photo(1198, 30))
		var under, most atomic.Int32
		g.reading = func(context.Context) {
			most.Store(max(most.Load(), under.Add(1)))
			time.Sleep(time.Second) // virtual time: all that can start have started
			under.Add(-1)
		}
		for m := range 3 {
			go func() {
				if _, _, err := g.look(t.Context(), m, 1080); err != nil {
					t.Error(err)
				}
			}()
		}
		time.Sleep(time.Minute)
		if most.Load() != 1 || len(g.objects()) != 3 {
			t.Errorf("%d at once, %d made", most.Load(), len(g.objects()))
		}
		g.h.Close()
	})
}

func TestACanceledRequestDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openGallery(t, hydrate.Options{Queue: 2}, photo(1200, 30))
		hold := make(chan struct{})
		g.reading = func(context.Context) { <-hold }
		impatient, stop := context.WithCancel(t.Context())
		answers := make(chan error, 2)
		for _, ctx := range []context.Context{impatient, t.Context()} {
			go func() {
				_, _, err := g.look(ctx, 0, 1080)
				answers <- err
			}()
			synctest.Wait()
		}
		if _, _, err := g.look(t.Context(), 0, 320); !errors.Is(err, mayfly.Unavailable) { // I17
			t.Errorf("a third: %v", err)
		}
		stop()
		if err := <-answers; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		close(hold)
		if err := <-answers; err != nil {
			t.Error(err)
		}
		g.h.Close()
		if _, _, err := g.look(t.Context(), 0, 320); !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("closed: %v", err)
		}
	})
}

func TestBadSettingsAreRefused(t *testing.T) {
	for _, o := range []hydrate.Options{{Workers: -1}, {Queue: -1}, {Limits: media.Limits{Pixels: -1}}} {
		if _, err := hydrate.New(store.Set{}, o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// Queued renditions wait while a user waits for other work, each for a second at most;
// one that a user asks for does not wait.
func TestQueuedRenditionsMakeWayForOtherWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openGallery(t, hydrate.Options{}, photo(1200, 30), photo(1150, 30))
		first, second := g.h.Yield(), g.h.Yield()
		g.h.MakeRenditions(g.row(), g.body)
		want := func(when string, n int) {
			t.Helper()
			synctest.Wait()
			if made := len(g.objects()); made != n {
				t.Errorf("%s: %d were made, want %d", when, made, n)
			}
		}
		want("two publish", 0)
		first()
		want("one publishes", 0)
		time.Sleep(time.Second)
		want("a second later", 1)
		_, _, err := g.look(t.Context(), 1, 320)
		g.Must(err)
		want("one was asked for", 2)
		second()
		want("none publishes", 4)
	})
}
