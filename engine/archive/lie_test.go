package archive_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// lyingDisk is a disk that does something else with the media of the cold tier
// than it says: below the driver, so that only reading back finds out.
type lyingDisk struct {
	vfs.FS
	mu   sync.Mutex
	lie  func(p []byte) []byte // what goes to the disk instead of p; nil is the truth
	lies int
}

func (d *lyingDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	if err == nil && strings.HasPrefix(name, "cold/files/") {
		f = &lyingFile{File: f, disk: d}
	}
	return f, err
}

func (d *lyingDisk) tell(lie func(p []byte) []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lie = lie
}

type lyingFile struct {
	vfs.File
	disk *lyingDisk
}

func (f *lyingFile) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	data := p
	if f.disk.lie != nil && len(p) > 8 { // not the head of a volume
		data = f.disk.lie(append([]byte(nil), p...))
		f.disk.lies++
	}
	f.disk.mu.Unlock()
	if _, err := f.File.Write(data); err != nil {
		return 0, err
	}
	return len(p), nil
}

// lies are the lies of a disk.
func lies() map[string]func([]byte) []byte {
	return map[string]func([]byte) []byte{
		"wrong bytes": func(p []byte) []byte {
			for i := range p {
				p[i] = 'x'
			}
			return p
		},
		"one bit":                 func(p []byte) []byte { p[len(p)/2] ^= 1; return p },
		"half is nothing":         func(p []byte) []byte { clear(p[len(p)/2:]); return p },
		"all is nothing":          func(p []byte) []byte { clear(p); return p },
		"truncated":               func(p []byte) []byte { return p[:len(p)-1] },
		"success without writing": func([]byte) []byte { return nil },
	}
}

func TestHotIsNeverErasedBehindALyingDisk(t *testing.T) {
	tried := 0
	for name, lie := range lies() {
		for _, media := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d media", name, media), func(t *testing.T) {
				disk := &lyingDisk{FS: vfs.NewMem()}
				h := openOn(t, disk)
				items := h.expire(h.Story(media), h.Story(media))
				disk.tell(lie)
				failures, err := h.archive(7, items...)
				if err != nil || len(failures) == 0 || disk.lies == 0 {
					t.Fatalf("%d failures, %v, %d lies", len(failures), err, disk.lies)
				}
				for _, item := range h.rows(items) { // each is readable from where its row says
					h.readable(0, item)
				}
				for _, f := range failures {
					if row := h.Row(f.Item.ID); row.State != mayfly.Archiving || row.Keys.Cold != 0 || !errors.Is(f.Err, mayfly.Corrupt) {
						t.Errorf("%+v: %v", row, f.Err)
					}
					h.readable(hydrate.Hot, f.Item)
				}
				disk.tell(nil)
				h.restart(disk) // what was cut short has moved the end of its volume
				for run := mayfly.Run(8); h.left(items) > 0; run++ {
					if run > 9 {
						t.Fatal("it does not come to an end")
					}
					if _, err := h.archive(run, h.rows(items)...); err != nil {
						t.Fatal(err)
					}
				}
				h.readable(hydrate.Cold, items...)
				h.WantNamed(items...)
				tried += disk.lies
			})
		}
	}
	storetest.Proof(t, "lying cold tier", "lies of the disk", tried)
}

// Whatever a tier does in whatever order, after every try every medium is
// readable and what it wrote of itself as cold was verified; when it behaves
// again everything is archived, and nothing is left over.
func TestNoOrderOfFaultsOfATierLosesAMedium(t *testing.T) {
	synctest.Test(t, testNoOrderOfFaults) // what is slow takes no time
}

func testNoOrderOfFaults(t *testing.T) {
	const seed, lives = 20261115, 25
	t.Logf("seed %d", seed)
	faults, tries := 0, 0
	for life := range uint64(lives) {
		r := rand.New(rand.NewPCG(seed, life))
		disk := &lyingDisk{FS: vfs.NewMem()}
		h := openOn(t, disk)
		items := h.expire(h.Story(1), h.Story(2), h.Story(0), h.Story(3))
		h.o.Workers = 1 // one at a time, so that the seed says it all
		trouble := true
		plan := func(storetest.BlobCall) storetest.BlobFault {
			if !trouble || r.IntN(3) > 0 {
				return storetest.NoFault
			}
			faults++
			return storetest.BlobFault(1 + r.IntN(4))
		}
		h.Set.Cold, h.Set.Hot = storetest.FaultyBlobs(h.Real.Cold, plan), storetest.FaultyBlobs(h.Real.Hot, plan)
		a := h.newArchive()
		for try := 0; h.left(items) > 0; try++ {
			if try > 100 {
				t.Fatalf("life %d does not come to an end", life)
			}
			if trouble = try < 12; trouble && r.IntN(2) == 0 {
				disk.tell(pick(r, lies()))
			} else {
				disk.tell(nil)
			}
			tries++
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // for what is slow
			failures, err := a.Act(ctx, h.batch(mayfly.Run(try+1), h.rows(items)...))
			cancel()
			for _, f := range failures {
				if f.Err == nil {
					t.Fatalf("life %d, try %d: a failure without a reason", life, try)
				}
			}
			_ = err // tried again
			h.readable(0, items...)
		}
		h.readable(hydrate.Cold, items...)
		h.WantNamed(items...)
		faults += disk.lies
		if t.Failed() {
			t.Fatalf("life %d", life)
		}
	}
	storetest.Proof(t, "lying cold tier", "faults in random order", faults)
	storetest.Proof(t, "lying cold tier", "tries, all media read after each", tries)
	if faults < 400 || tries < 200 {
		t.Errorf("%d faults in %d tries are too few to prove anything", faults, tries)
	}
}

func pick(r *rand.Rand, from map[string]func([]byte) []byte) func([]byte) []byte {
	names := []string{"wrong bytes", "one bit", "half is nothing", "all is nothing"} // those that a volume can be used after
	return from[names[r.IntN(len(names))]]
}

// The cold tier is down for 72 hours, while stories go on expiring. Nothing is
// parked and nothing is erased; when it is back everything is archived.
func TestAColdTierThatIsDownForThreeDaysLosesNothing(t *testing.T) {
	pace.Heavy(t, "every pass of three days")
	t.Run("altogether", func(t *testing.T) { testDownForThreeDays(t, true, 0) })
	// The first item might be its own fault, and is parked; the others tell that it is not.
	t.Run("for writes", func(t *testing.T) { testDownForThreeDays(t, false, 1) })
}

func testDownForThreeDays(t *testing.T, statsToo bool, mayPark int) {
	const outage, step = 72 * time.Hour, 30 * time.Minute
	h := open(t)
	calls, down := 0, true
	h.Set.Cold = storetest.FaultyBlobs(h.Real.Cold, func(c storetest.BlobCall) storetest.BlobFault {
		calls++
		if !down {
			return storetest.NoFault
		}
		if c.Op == "stat" {
			return map[bool]storetest.BlobFault{true: storetest.Before}[statsToo]
		}
		return []storetest.BlobFault{storetest.Before, storetest.After, storetest.Short}[calls%3]
	})
	parked := map[mayfly.ID]bool{}
	h.Hooks.OnReminder(func(r remind.Reminder) { parked[r.ID] = true })
	walkers := h.walkers(fixture.Start)
	var items []mayfly.Item
	start, passes := h.Now, 0
	for ; h.Now < start.Add(outage+6*time.Hour); h.Now = h.Now.Add(step) {
		if h.Now < start.Add(outage) {
			items = append(items, h.Story(1+len(items)%2))
		} else {
			down = false
		}
		for _, err := range h.passAll(walkers) {
			if passes++; err != nil && !(down && errors.Is(err, mayfly.Unavailable)) {
				t.Fatal(err)
			}
		}
		if down && h.Now.Minute()%60 == 0 {
			for _, item := range h.rows(items) {
				if item.State == mayfly.Cold || item.Keys.Cold != 0 {
					t.Fatalf("%+v", item)
				}
				h.readable(hydrate.Hot, item)
			}
		}
	}
	if len(parked) > mayPark {
		t.Fatalf("%d items were parked one by one", len(parked))
	}
	for id := range parked { // three days are longer than a reminder is patient
		if err := remind.Retry(t.Context(), h.Real, id, remind.Archive, h.Now.Add(2*time.Minute)); err != nil && !errors.Is(err, mayfly.NotFound) {
			t.Fatal(err)
		}
		h.Now = h.Now.Add(12 * time.Hour)
		h.passAll(walkers)
	}
	if n := h.left(items); n > 0 {
		t.Fatalf("%d of %d items are not archived", n, len(items))
	}
	h.readable(hydrate.Cold, items...)
	h.WantNamed(items...)
	storetest.Proof(t, "cold tier down for 72 h", "items", len(items))
	storetest.Proof(t, "cold tier down for 72 h", "passes", passes)
	if len(items) < 140 || calls < 1000 {
		t.Errorf("%d items, %d calls of the tier", len(items), calls)
	}
}

// walkers are sweep, archive and reminders of every shard, from an origin on.
func (h *env) walkers(origin mayfly.Instant) (all []passing) {
	h.Helper()
	a := h.newArchive()
	o := walk.Options{Holder: "test", Unpaced: true}
	for number := range mayfly.Shard(mayfly.Shards) {
		shard := walk.NewShard(h.Set.Rows, number, o.Holder, time.Minute, origin)
		for _, w := range []walk.Walk{h.sweep(), a.Walk()} {
			walker, err := walk.New(h.Set, w, shard, o)
			h.Must(err)
			all = append(all, walker)
		}
		reminders, err := remind.New(h.Set, shard, remind.Acts{remind.Archive: a.Act, remind.Erase: h.EraseMedia}, remind.Options{})
		h.Must(err)
		all = append(all, reminders)
	}
	return all
}

// passAll lets every walker walk up to now, and answers with what each pass said.
func (h *env) passAll(walkers []passing) (errs []error) {
	for _, w := range walkers {
		for more := true; more; {
			var err error
			more, err = w.Pass(context.Background(), h.Now)
			errs = append(errs, err)
		}
	}
	return errs
}

type passing interface {
	Pass(ctx context.Context, now mayfly.Instant) (bool, error)
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	for name, o := range map[string]archive.Options{
		"a window before the deadline": {Window: -1},
		"no workers":                   {Workers: -1},
		"no sample":                    {Sample: -1},
		"another way to verify":        {Verify: archive.Checksum + 1},
	} {
		if _, err := archive.New(store.Set{}, o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
