package residue_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
	"github.com/mayflyhq/mayfly/test/residue"
	"github.com/mayflyhq/mayfly/test/tables"
)

// The bounds that are stated in docs/decisions/0014.
const (
	mediaBound = time.Hour
	rowsBound  = 24 * time.Hour
)

// A pattern is one of the marks and a number of eight digits.
const (
	inMedia    = "PixelSecret#"
	inCaption  = "CaptnSecret#"
	inOverlays = "StickSecret#"
	length     = len(inMedia) + 8
)

func pattern(mark string, n int) string { return fmt.Sprintf("%s%08d", mark, n) }

// picture returns a PNG of about size bytes whose pixels hold a pattern: they are not
// compressed, and nothing in it is metadata.
func picture(rng *rand.Rand, text string, size int) string {
	const width = 64
	height := size/(3*width+1) + 2
	var raw bytes.Buffer
	for y := range height {
		row := make([]byte, 1+3*width)
		for i := range row[1:] {
			row[1+i] = byte(rng.Uint32())
		}
		if y == height/2 {
			copy(row[1:], text)
		}
		raw.Write(row)
	}
	var packed bytes.Buffer
	z, _ := zlib.NewWriterLevel(&packed, zlib.NoCompression)
	_, _ = z.Write(raw.Bytes())
	_ = z.Close()
	png := []byte("\x89PNG\r\n\x1a\n")
	chunk := func(kind string, data []byte) {
		png = binary.BigEndian.AppendUint32(png, uint32(len(data)))
		body := append([]byte(kind), data...)
		png = binary.BigEndian.AppendUint32(append(png, body...), crc32.ChecksumIEEE(body))
	}
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, width), uint32(height))
	chunk("IHDR", append(head, 8, 2, 0, 0, 0))
	chunk("IDAT", packed.Bytes())
	chunk("IEND", nil)
	return string(png)
}

// world is a node on the data folder of an embedded profile.
type world struct {
	*nodetest.Server
	t       *testing.T
	disk    *vfs.MemFS
	profile *profile.Store
	rng     *rand.Rand
	stories int
}

const folder = "data"

// open opens the data folder as a process does and starts a node on it at now.
func (w *world) open(now mayfly.Instant) {
	w.t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Disk.Floor = folder, 0
	cfg.Memory.Cache, cfg.Memory.MediaCache = config.MiB, config.MiB
	cfg.Memory.Memtable, cfg.Memory.MediaMemtable = config.MiB, config.MiB
	root, err := w.disk.OpenDir("")
	if err == nil {
		err = errors.Join(w.disk.MkdirAll(folder, 0o700), root.Sync(), root.Close())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	p, err := profile.EmbeddedOn(w.disk, folder, cfg, tables.All())
	if err != nil {
		w.t.Fatal(err)
	}
	w.profile = p
	w.t.Cleanup(func() { _ = p.Close() })
	e := &fixture.Engine{TB: w.t, Set: p.Set, Real: p.Set, Hooks: &fixture.Hooks{}, Now: now}
	w.Server = nodetest.Serve(w.t, nodetest.Options{Engine: e})
	w.Machine.Advance(now.Sub(fixture.Start))
}

// story is a planted story.
type story struct {
	n     int
	id    mayfly.ID
	owner string
}

// publish publishes a story with a pattern in its pixels, its caption and an overlay.
func (w *world) publish(owner string) story {
	w.t.Helper()
	s := story{n: w.stories, owner: owner}
	w.stories++
	size := 3_000
	if s.n%20 == 0 {
		size = 100_000 // a file of its own
	}
	fields := fmt.Sprintf(`{"audience":"everyone","caption":%q,"overlays":[{"kind":"text","x":0.5,"y":0.5,"text":%q}]}`, pattern(inCaption, s.n), pattern(inOverlays, s.n))
	body, contentType := nodetest.Form(w.t, "story", fields, "media", picture(w.rng, pattern(inMedia, s.n), size))
	answer := w.Want(nodetest.Request{As: owner, Method: http.MethodPost, Path: "/v1/stories", Type: contentType, Body: body}, http.StatusCreated)
	s.id = nodetest.ReadJSON[wire.Story](w.t, answer).ID
	return s
}

// put publishes a story of a fate, past the API.
func (w *world) put(fate mayfly.Fate) story {
	w.t.Helper()
	s := story{n: w.stories}
	w.stories++
	d := w.Draft()
	d.Fate, d.Text = fate, pattern(inCaption, s.n)
	s.id = w.Engine.Publish(d, w.Now(), strings.Repeat("-", 3_000)+pattern(inMedia, s.n)).ID
	return s
}

// delete deletes stories as their authors.
func (w *world) delete(all []story) {
	w.t.Helper()
	for _, s := range all {
		w.Want(nodetest.Request{As: s.owner, Method: http.MethodDelete, Path: "/v1/stories/" + s.id.String()}, http.StatusNoContent)
	}
}

// remind does what reminders ask for that are due within a few minutes.
func (w *world) remind() {
	w.t.Helper()
	w.Machine.Advance(erasure.Soon)
	fx := &erasure.Fixture{Engine: w.Engine, Origin: fixture.Start.Add(-time.Minute)}
	fx.Remind(w.Erase(), w.Now())
}

// upkeep lets time pass without any traffic, and does what the loops of a node do.
func (w *world) upkeep(d time.Duration) {
	w.t.Helper()
	for end := w.Now().Add(d); w.Now() < end; w.Machine.Advance(time.Minute) {
		w.Must(w.profile.Reclaim(w.t.Context(), w.Now()))
		if w.Now().Minute()%10 == 0 {
			w.Must(w.profile.EraseRows(w.t.Context(), w.Now()))
		}
	}
}

// crash goes on after a power loss.
func (w *world) crash() {
	w.t.Helper()
	now := w.Now()
	w.disk = w.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: w.rng})
	w.open(now)
}

// left counts the patterns of a mark in the files, by number.
func (w *world) left(mark string) (map[int]bool, residue.Search) {
	w.t.Helper()
	all, err := residue.In(w.disk, folder, mark, length)
	if err != nil {
		w.t.Fatal(err)
	}
	found := map[int]bool{}
	for _, f := range all.Found {
		if n, err := strconv.Atoi(strings.TrimPrefix(f.Pattern, mark)); err == nil && len(f.Pattern) == length {
			found[n] = true
		}
	}
	return found, all
}

func TestErasedMeansErasedInEveryState(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &world{t: t, disk: vfs.NewCrashableMem(), rng: rand.New(rand.NewPCG(seed, 0))}
	w.open(fixture.Start)
	ctx := t.Context()

	// 1,000 stories of fifty authors, and between them, in the same files, so many that
	// stay that no volume goes as a whole.
	const each = 125
	states := []string{"live", "expired", "cold", "held and released", "restored", "restored and cold again", "purged by expiry", "account erased"}
	by := map[string][]story{}
	var hot, cold []story // they stay
	for n := range each {
		for i, state := range states {
			switch state {
			case "purged by expiry":
				by[state] = append(by[state], w.put(mayfly.Purge))
			case "account erased":
				by[state] = append(by[state], w.publish(fmt.Sprintf("leaver%d", n%5)))
			default:
				by[state] = append(by[state], w.publish(fmt.Sprintf("author%d", (n+i)%45)))
			}
		}
		for i := range 20 {
			if i < 16 {
				hot = append(hot, w.put(mayfly.Archive))
			} else {
				cold = append(cold, w.put(mayfly.Archive))
			}
		}
	}
	ids := func(of ...string) (all []mayfly.ID) {
		for _, state := range of {
			for _, s := range by[state] {
				all = append(all, s.id)
			}
		}
		return all
	}
	gone := map[int]bool{}
	for _, all := range by {
		for _, s := range all {
			gone[s.n] = true
		}
	}
	missing := func(mark string) (n int) {
		found, _ := w.left(mark)
		for number := range gone {
			if !found[number] {
				n++
			}
		}
		return n
	}
	if n := missing(inMedia); n > 0 {
		t.Fatalf("%d of %d media are in no file before they were deleted: the search does not see them", n, len(gone))
	}
	if n := missing(inCaption); n > 0 {
		t.Fatalf("%d of %d captions are in no file before they were deleted: the search does not see them", n, len(gone))
	}

	// Each into its state.
	w.delete(by["live"])
	held := by["held and released"]
	for _, s := range held {
		w.Must(w.Restore().Hold(ctx, s.id, audit.Actor{Subject: "moderator"}, "report", w.Now()))
		_, err := w.Erase().Delete(ctx, s.id, mayfly.ByUser, w.Now())
		w.Must(err)
	}
	w.remind()
	w.Machine.Advance(25 * time.Hour)
	sweep := func(ids ...mayfly.ID) {
		for len(ids) > 0 {
			n := min(500, len(ids))
			w.Sweep(w.Now(), 1, ids[:n]...)
			ids = ids[n:]
		}
	}
	archive := func(ids ...mayfly.ID) {
		for len(ids) > 0 {
			n := min(500, len(ids))
			w.Archive(w.Now(), 2, ids[:n]...)
			ids = ids[n:]
		}
	}
	var keptCold []mayfly.ID
	for _, s := range cold {
		keptCold = append(keptCold, s.id)
	}
	sweep(append(ids("expired", "cold", "restored", "restored and cold again", "purged by expiry", "account erased"), keptCold...)...)
	archive(append(ids("cold", "restored", "restored and cold again", "account erased")[:4*each-each/2], keptCold...)...) // of the leavers' half is hot
	until := w.Now().Add(2 * time.Hour)
	for _, s := range append(by["restored"], by["restored and cold again"]...) {
		_, err := w.Restore().Item(ctx, restore.Request{ID: s.id, Until: until, By: audit.Actor{Subject: "support"}, Reason: "asked for"}, w.Now())
		w.Must(err)
	}
	w.delete(by["restored"])
	w.Machine.Advance(3 * time.Hour)
	again := w.Rows(ids("restored and cold again")...)
	sweep(ids("restored and cold again")...)
	w.WantActed(w.Restore().Clean(ctx, walk.Batch{Items: again, Now: w.Now()}))
	archive(ids("restored and cold again")...)

	// The last acts of users and support: from here on there is no traffic.
	w.Must(w.profile.EraseRows(ctx, w.Now())) // the next time is half a day later
	w.delete(by["expired"])
	w.delete(by["cold"])
	w.delete(by["restored and cold again"])
	for _, s := range held {
		w.Must(w.Restore().Release(ctx, s.id, audit.Actor{Subject: "moderator"}, "cleared", w.Now()))
	}
	for n := range 5 {
		_, err := w.AccountErase().Account(ctx, nodetest.User(fmt.Sprintf("leaver%d", n)), audit.Actor{Subject: "support"}, "asked for", w.Now())
		w.Must(err)
	}
	ended := w.Now()
	t.Run("a day passes", func(t *testing.T) { // when it ends the node has stopped
		w.t = t
		w.crash() // everything that was answered goes on
		for range 10 {
			w.remind()
			_, err := w.AccountErase().RunDue(ctx, w.Now())
			w.Must(err)
		}
		for _, id := range ids(states...) {
			if row, found := w.Find(id); found && w.HasBody(id) {
				t.Fatalf("%s is %s and not erased: this shows nothing", id, row.State)
			}
		}
		w.upkeep(ended.Add(mediaBound).Sub(w.Now()))
		found, all := w.left(inMedia)
		for _, state := range states {
			left := 0
			for _, s := range by[state] {
				if found[s.n] {
					left++
				}
			}
			if left > 0 {
				t.Errorf("%s: %d of %d media are still in files after %s", state, left, each, mediaBound)
			}
		}
		storetest.Proof(t, "erased means erased", "stories deleted or erased", len(gone))
		storetest.Proof(t, "erased means erased", "files searched for media", all.Files)

		if found, _ := w.left(inCaption); len(found) < each {
			t.Errorf("only %d captions are in files after %s: the rest of this shows little", len(found), mediaBound)
		}
		w.upkeep(ended.Add(rowsBound).Sub(w.Now()))
	})
	w.t = t
	for _, mark := range []string{inMedia, inCaption, inOverlays} {
		found, all := w.left(mark)
		for _, state := range states {
			left := 0
			for _, s := range by[state] {
				if found[s.n] {
					left++
				}
			}
			if left > 0 {
				t.Errorf("%s: %d of %d patterns %s are still in files after %s", state, left, each, mark, rowsBound)
			}
		}
		for _, s := range append(hot, cold...) {
			if mark != inOverlays && !found[s.n] {
				t.Errorf("%s of a story that was not deleted is gone, or the search does not see it", pattern(mark, s.n))
				break
			}
		}
		storetest.Proof(t, "erased means erased", "keys of tables searched for "+mark, all.Keys)
	}
	w.open(ended.Add(rowsBound)) // and what was not deleted is whole
	for _, s := range append(hot, cold...) {
		row := w.Row(s.id)
		tier, generation := w.Set.Hot, row.Keys.Hot
		if row.Keys.Cold != 0 {
			tier, generation = w.Set.Cold, row.Keys.Cold
		}
		r, _, err := tier.Open(ctx, row.MediaKey(generation, 0), store.Span{})
		w.Must(err)
		data, err := io.ReadAll(r)
		if w.Must(errors.Join(err, r.Close())); !bytes.Contains(data, []byte(pattern(inMedia, s.n))) {
			t.Errorf("LOST: the medium of %s", s.id)
		}
	}
}
