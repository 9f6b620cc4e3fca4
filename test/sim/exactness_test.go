package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// How the sweep stands to the time that viewers come at.
const (
	stopped   = "stopped"
	running   = "running"
	early     = "early by a clock step"
	dayBehind = "a day behind"
)

// What the gate may remember.
const (
	cacheOn    = "cache on"
	cacheOff   = "cache off"
	leaseLost  = "lease lost"
	leaseComes = "lease comes and goes"
)

func TestEveryViewerIsServedToTheMillisecondAndNoneAfterIt(t *testing.T) {
	items := 60
	if pace.Long() {
		items = 1000
	}
	n, reads, total := seed(t), 0, newTally()
	for i, sweeping := range []string{stopped, running, early, dayBehind} {
		for j, caching := range []string{cacheOn, cacheOff, leaseLost, leaseComes} {
			t.Run(sweeping+", "+caching, func(t *testing.T) {
				v := newVillage(t, seeded(n+uint64(10*i+j)), sweeping, caching)
				v.settle(t, items)
				v.live(t)
				reads += v.reads
				total.merge(v.tally, sweeping+", "+caching)
				if v.served == 0 || v.refused == 0 || v.archived == 0 {
					t.Errorf("%d served, %d archived, %d refused: one of them was never tried", v.served, v.archived, v.refused)
				}
			})
		}
	}
	storetest.Proof(t, "exactness", "verdicts compared", reads)
	total.zero(t, "exactness")
	if reads < 20_000 {
		t.Errorf("%d verdicts are too few", reads)
	}
}

// resident is an item of the village in plain numbers.
type resident struct {
	id          mayfly.ID
	owner       mayfly.UserID
	deadline    int64 // 0: never
	servesUntil int64
	audience    mayfly.Audience
	held        bool
	purged      bool // its fate is purge
	text        string
}

// visit is one viewer at the gate.
type visit struct {
	at   int64
	item *resident
}

// village is a world of items whose deadlines lie close together, so that time
// can be walked through all of them, whatever their lifetimes.
type village struct {
	*tally
	engine   *engine
	rng      *rand.Rand
	sweeping string
	caching  string
	cast     *cast
	items    []*resident
	swept    int64 // up to when the sweep has run

	reads, served, archived, refused int
}

// firstDeadline is where the deadlines lie: here, and a day later.
const firstDeadline = int64(genesis) + 3_600_000

func newVillage(t *testing.T, rng *rand.Rand, sweeping, caching string) *village {
	v := &village{tally: newTally(), rng: rng, sweeping: sweeping, caching: caching, cast: newCast(rng)}
	p := plan{fs: vfs.NewMem(), random: randomBits(rng.Uint64()), relations: fixture.OneByOne(v.cast.relations)}
	if caching == cacheOff {
		p.cacheRows = -1
	}
	v.engine = mustOpen(t, p, genesis)
	if caching == leaseLost {
		v.engine.signals.SetCut(true)
	}
	return v
}

// live walks through time, from one interesting instant to the next.
func (v *village) live(t *testing.T) {
	var visits []visit
	for _, r := range v.items {
		for _, at := range v.instants(r) {
			visits = append(visits, visit{at, r})
		}
	}
	slices.SortStableFunc(visits, func(a, b visit) int { return int(a.at - b.at) })
	for _, visit := range visits {
		v.sweepAt(t, visit.at)
		if v.caching == leaseComes && v.rng.IntN(4) == 0 {
			v.engine.signals.SetCut(v.rng.IntN(2) == 0)
		}
		if v.rng.IntN(20) == 0 {
			v.turnHold(t, v.items[v.rng.IntN(len(v.items))], visit.at)
		}
		for _, who := range v.cast.viewers(visit.item.owner) {
			v.look(t, visit.item, who, visit.at)
		}
	}
}

// instants are when it is interesting to look at r.
func (v *village) instants(r *resident) (at []int64) {
	around := func(end int64) {
		for _, d := range []int64{-1_000, -2, -1, 0, 1, 1_000, v.rng.Int64N(2_000) - 1_000} {
			at = append(at, end+d)
		}
	}
	if r.deadline != 0 {
		around(r.deadline)
	} else {
		around(firstDeadline)
	}
	if r.servesUntil != 0 {
		around(r.servesUntil)
	}
	return at
}

func (v *village) sweepAt(t *testing.T, now int64) {
	switch v.sweeping {
	case stopped:
		return
	case early:
		now += int64(time.Hour / time.Millisecond)
	case dayBehind:
		now -= int64(24 * time.Hour / time.Millisecond)
	}
	if now-v.swept < 500 && v.rng.IntN(4) != 0 {
		return
	}
	if err := v.engine.pass(t.Context(), mayfly.Instant(now)); err != nil {
		t.Fatal(err)
	}
	v.swept = max(v.swept, now)
}

// look compares what the gate says with what plain arithmetic says.
func (v *village) look(t *testing.T, r *resident, who guest, now int64) {
	v.reads++
	found, err := v.engine.raw.Ledger.Get(t.Context(), r.id)
	if err != nil {
		t.Fatal(err)
	}
	deleted := found[0].Item.State == mayfly.Deleted
	if deleted && found[0].Item.Cause == mayfly.ByExpiry && v.swept < max(r.deadline, r.servesUntil) {
		v.Add(verify.Early, "%s: purged before its end", r.id)
	}
	want := expected(r, who, deleted, now)
	opened, err := v.engine.gate.Open(t.Context(), r.id, who.viewer, mayfly.Instant(now))
	got := outcome(opened, err)
	where := fmt.Sprintf("%s for %s, audience %s, held %t, at deadline %+d ms, at serves_until %+d ms: %s, want %s (%v)",
		r.id, who.name, r.audience, r.held, now-r.deadline, now-r.servesUntil, got, want, err)
	shows := func(s string) bool { return s == "serve" || s == "archived" }
	switch {
	case got == want && shows(got) && opened.Body.Text != r.text:
		v.Add(verify.Lost, "%s: another body: %q", where, opened.Body.Text)
	case got == want:
	case shows(want) && !shows(got):
		v.Add(verify.Early, "%s", where)
	case shows(got) && !shows(want) && r.deadline != 0 && now >= max(r.deadline, r.servesUntil):
		v.Add(verify.Late, "%s", where)
	default:
		v.Add(verify.Leak, "%s", where)
	}
	switch got {
	case "serve":
		v.served++
	case "archived":
		v.archived++
	default:
		v.refused++
		v.sameAsAbsence(t, r, who, now, err)
	}
}

// sameAsAbsence asks for an id that never was, of the same times: a viewer who is
// refused gets the same error value.
func (v *village) sameAsAbsence(t *testing.T, r *resident, who guest, now int64, refused error) {
	never := r.id
	never[10] ^= byte(1 + v.rng.IntN(255)) // random bits: neither its times nor its trace
	_, absent := v.engine.gate.Open(t.Context(), never, who.viewer, mayfly.Instant(now))
	if absent != refused || absent.Error() != refused.Error() {
		v.Add(verify.Leak, "%s refused %s: %#v, and an id that never was: %#v", who.name, r.id, refused, absent)
	}
}
