package paste_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/paste"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

func TestAGETConsumesNothingAndTheLastClaimDeletes(t *testing.T) {
	e := open(t)
	id := e.create(paste.Draft{Author: ana, Reads: 2}, "words").Item.ID
	var limited paste.ReadsLimited
	for range 3 {
		if _, err := e.read(id, ""); !errors.As(err, &limited) || limited.Paste.Left != 2 {
			t.Fatalf("%v", err)
		}
	}
	if got, err := e.claim(id, ""); got != "words" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if p, err := e.pastes.Open(t.Context(), id, mayfly.Viewer{}, "", e.clock()); err != nil || p.Left != 1 {
		t.Errorf("%d left, %v", p.Left, err)
	}
	if got, err := e.claim(id, ""); got != "words" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if e.Row(id).State != mayfly.Deleted {
		t.Error("it is not deleted")
	}
	for _, viewer := range []mayfly.Viewer{{}, mayfly.ViewerOf(ana), mayfly.ModeratorOf(ben)} {
		if _, err := e.pastes.Claim(t.Context(), id, viewer, "", e.clock); err != error(mayfly.NotFound) {
			t.Errorf("%v", err)
		}
	}
}

func TestAWrongPasswordConsumesNothing(t *testing.T) {
	e := open(t)
	id := e.create(paste.Draft{Reads: 1, Password: "secret"}, "words").Item.ID
	for _, password := range []string{"", "wrong"} {
		if _, err := e.claim(id, password); !errors.As(err, new(paste.Locked)) {
			t.Errorf("%q: %v", password, err)
		}
	}
	if n := e.Hooks.Count("swap claims"); n > 0 {
		t.Errorf("%d claims", n)
	}
	if got, err := e.claim(id, "secret"); got != "words" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestContentThatCannotBeReadConsumesNothing(t *testing.T) {
	e := open(t)
	id := e.create(paste.Draft{Reads: 1}, "words").Item.ID
	e.Hooks.Hot.Open = failOpen(mayfly.Errorf(mayfly.Unavailable, "the tier is away"))
	if _, err := e.claim(id, ""); !errors.Is(err, mayfly.Unavailable) {
		t.Fatal(err)
	}
	e.Hooks.Hot.Open = nil
	if got, err := e.claim(id, ""); got != "words" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAModeratorReadsWithoutConsuming(t *testing.T) {
	e := open(t)
	id := e.create(paste.Draft{Reads: 1}, "words").Item.ID
	for range 2 {
		if got, err := e.readAs(id, mayfly.ModeratorOf(ben), ""); got != "words" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if got, err := e.claim(id, ""); got != "words" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Readers on several nodes, whose answers are lost at random after the claim was
// written and before, never exceed what the author allowed, and every read that was
// allowed succeeds for one of them.
func TestOfRacingReadersExactlyTheAllowedNumberSucceeds(t *testing.T) {
	random := fixture.Seeded(t)
	for _, reads := range []int{1, 7} {
		for _, lossy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d reads, answers lost %t", reads, lossy), func(t *testing.T) {
				e := open(t)
				nodes := []*paste.Pastes{e.pastes, e.node(), e.node()}
				id := e.create(paste.Draft{Reads: reads}, "words").Item.ID
				if lossy {
					e.loseClaims(random.Uint64())
				}
				const racing = 1000
				var succeeded, refused, others atomic.Int64
				var wg sync.WaitGroup
				begin := make(chan struct{})
				for i := range racing {
					wg.Go(func() {
						<-begin
						content, err := readAll(nodes[i%len(nodes)].Claim(context.Background(), id, mayfly.Viewer{}, "", e.clock))
						switch {
						case err == nil && content == "words":
							succeeded.Add(1)
						case errors.Is(err, mayfly.NotFound):
							refused.Add(1)
						default:
							others.Add(1)
						}
					})
				}
				close(begin)
				wg.Wait()
				t.Logf("%d readers: %d read, %d refused, %d other", racing, succeeded.Load(), refused.Load(), others.Load())
				if succeeded.Load() != int64(reads) || refused.Load()+succeeded.Load()+others.Load() != racing {
					t.Errorf("%d of %d succeeded", succeeded.Load(), reads)
				}
				if e.Row(id).State != mayfly.Deleted {
					t.Error("it is not deleted after its last read")
				}
			})
		}
	}
}

// loseClaims lets claims be written, or not, and then loses the answer.
func (e *env) loseClaims(seed uint64) {
	var n atomic.Uint64
	n.Store(seed)
	e.Hooks.Swap = func(_ context.Context, t store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
		if t != paste.Claims {
			return do()
		}
		switch n.Add(1) % 3 {
		case 0:
			_, _, err := do()
			return false, nil, errors.Join(mayfly.Errorf(mayfly.Unknown, "the answer is lost"), err)
		case 1:
			return false, nil, mayfly.Errorf(mayfly.Unknown, "the request is lost")
		default:
			return do()
		}
	}
}

func TestAReaderWhoStopsAfterTheLastClaimLeavesItToTheReminder(t *testing.T) {
	e := open(t)
	id := e.create(paste.Draft{Reads: 1}, "words").Item.ID
	e.Hooks.Transition = func(context.Context, []mayfly.Change, fixture.Transition) ([]store.Outcome, error) {
		return nil, mayfly.Errorf(mayfly.Unavailable, "the store is away")
	}
	if got, err := e.claim(id, ""); got != "words" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	if _, err := e.claim(id, ""); err != error(mayfly.NotFound) {
		t.Errorf("claimed twice: %v", err)
	}
	if _, err := e.read(id, ""); err != error(mayfly.NotFound) {
		t.Errorf("opened after its last read: %v", err)
	}
	if e.Row(id).State == mayfly.Deleted {
		t.Fatal("the test deletes nothing")
	}
	e.Hooks.Transition = nil
	burn := 0
	for _, r := range e.Reminders(start, start.Add(5*time.Minute)) {
		if r.ID == id && r.Step.String() == "burn" {
			burn++
		}
	}
	if burn != 1 {
		t.Errorf("%d reminders", burn)
	}
	e.pass(3 * time.Minute)
	unread := e.create(paste.Draft{Reads: 1}, "words").Item.ID
	failures, err := e.pastes.Burn(t.Context(), walk.Batch{Now: e.clock(), Items: []mayfly.Item{e.Row(id), e.Row(unread)}})
	e.WantActed(failures, err)
	if e.Row(id).State != mayfly.Deleted || e.Row(unread).State != mayfly.Active {
		t.Errorf("%s and %s", e.Row(id).State, e.Row(unread).State)
	}
}

// The last claim deletes the paste while its content is being sent: what was opened
// is read to its end, however large it is, also when its bytes are erased meanwhile.
func TestWhatALastClaimHasOpenedIsReadToItsEnd(t *testing.T) {
	for _, size := range []int{10, 64 << 10, 3 << 20} {
		e := open(t)
		text := strings.Repeat("x", size)
		id := e.create(paste.Draft{Reads: 1}, text).Item.ID
		c, err := e.pastes.Claim(t.Context(), id, mayfly.Viewer{}, "", e.clock)
		e.Must(err)
		e.WantActed(e.erase.Act(t.Context(), walk.Batch{Now: e.clock(), Items: []mayfly.Item{e.Row(id)}}))
		if left := e.Objects(e.Real.Hot); len(left) > 0 {
			t.Fatalf("not erased: %v", left)
		}
		if got, err := readAll(c, nil); err != nil || got != text {
			t.Errorf("%d bytes: %d read, %v", size, len(got), err)
		}
	}
}

// beforeClaim runs do once, between the look at a paste and the claim of a read.
func (e *env) beforeClaim(do func()) {
	var begun atomic.Bool
	e.Hooks.Swap = func(_ context.Context, t store.Table, _ store.Key, swap fixture.Swap) (bool, []byte, error) {
		if t == paste.Claims && begun.CompareAndSwap(false, true) {
			do()
		}
		return swap()
	}
}

func (e *env) eraseNow(id mayfly.ID) {
	e.Helper()
	e.WantActed(e.erase.Act(context.Background(), walk.Batch{Now: e.clock(), Items: []mayfly.Item{e.Row(id)}}))
	if n := len(e.Partition(paste.Claims, string(id[:]))); n > 0 || e.HasBody(id) {
		e.Fatalf("not erased: %d claims", n)
	}
}

// A reader may stall between the look at a paste and the claim. What has happened to
// the paste meanwhile decides, whether its claims were erased or not.
func TestAClaimThatLandsAfterItsPasteHasEndedReadsNothing(t *testing.T) {
	for name, end := range map[string]func(*env, mayfly.ID){
		"read by another reader": func(e *env, id mayfly.ID) {
			for range 2 {
				if got, err := readAll(e.node().Claim(context.Background(), id, mayfly.Viewer{}, "", e.clock)); got != "words" || err != nil {
					e.Errorf("another reader: %q, %v", got, err)
				}
				if e.Row(id).State == mayfly.Deleted {
					return
				}
			}
		},
		"deleted": func(e *env, id mayfly.ID) { e.Must(e.pastes.Delete(context.Background(), id, ana, "", e.clock())) },
		"expired": func(e *env, id mayfly.ID) {
			e.at(id.Deadline())
			e.Now = e.clock()
			e.Change(id, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByExpiry})
		},
		"at its deadline": func(e *env, id mayfly.ID) { e.at(id.Deadline()) },
	} {
		for _, reads := range []int{1, 2} {
			for _, erased := range []bool{false, true} {
				if erased && name == "at its deadline" {
					continue
				}
				t.Run(fmt.Sprintf("%s, %d reads, erased %t", name, reads, erased), func(t *testing.T) {
					e := open(t)
					id := e.create(paste.Draft{Author: ana, Reads: reads}, "words").Item.ID
					e.beforeClaim(func() {
						end(e, id)
						if erased {
							e.eraseNow(id)
						}
					})
					if got, err := e.claim(id, ""); !errors.Is(err, mayfly.NotFound) && !errors.Is(err, mayfly.Gone) {
						t.Errorf("read: %q, %v", got, err)
					}
					if n := len(e.Partition(paste.Claims, string(id[:]))); erased && n > 0 {
						t.Errorf("%d claims of what was erased", n)
					}
				})
			}
		}
	}
}

// reclaims notes when the rows of claims may be reclaimed.
type reclaims struct {
	store.Rows
	at []mayfly.Instant
}

func (r *reclaims) Swap(ctx context.Context, t store.Table, key store.Key, old, next []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if t == paste.Claims {
		r.at = append(r.at, reclaimAt)
	}
	return r.Rows.Swap(ctx, t, key, old, next, reclaimAt)
}

// A claim goes after the end of its paste, also where nothing removes it.
func TestAClaimIsReclaimedAfterTheEndOfItsPaste(t *testing.T) {
	var noted *reclaims
	e := open(t, func(o *paste.Options) {
		o.Never = true
		noted = &reclaims{Rows: o.Rows}
		o.Rows = noted
	})
	id, never := e.create(paste.Draft{Reads: 2, Lifetime: "10m"}, "words").Item.ID, e.create(paste.Draft{Reads: 2, Lifetime: "never"}, "words").Item.ID
	for _, id := range []mayfly.ID{id, never} {
		if _, err := e.claim(id, ""); err != nil {
			t.Fatal(err)
		}
	}
	if end := id.Deadline(); len(noted.at) != 2 || noted.at[0] <= end || noted.at[0] > end.Add(48*time.Hour) || noted.at[1] != 0 {
		t.Errorf("%v, deadline %s", noted.at, end)
	}
}

// The ledger that does not answer after a claim costs no read.
func TestAClaimThatCannotBeConfirmedIsGivenBack(t *testing.T) {
	e := open(t)
	id := e.create(paste.Draft{Reads: 1}, "words").Item.ID
	e.beforeClaim(func() {
		e.Hooks.LedgerGet = func(context.Context, []mayfly.ID, func() ([]store.Found, error)) ([]store.Found, error) {
			return nil, mayfly.Errorf(mayfly.Unavailable, "the store is away")
		}
	})
	if got, err := e.claim(id, ""); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%q, %v", got, err)
	}
	e.Hooks.LedgerGet = nil
	if got, err := e.claim(id, ""); got != "words" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A reader of several whose claim came before the last one has its read, also if the
// last one has deleted the paste before the row was read again.
func TestAReadThatWasClaimedBeforeTheLastOneSucceeds(t *testing.T) {
	e := open(t)
	id := e.create(paste.Draft{Reads: 2}, "words").Item.ID
	var begun atomic.Bool
	e.Hooks.Swap = func(_ context.Context, table store.Table, _ store.Key, swap fixture.Swap) (bool, []byte, error) {
		swapped, current, err := swap()
		if table == paste.Claims && begun.CompareAndSwap(false, true) {
			if got, err := readAll(e.node().Claim(context.Background(), id, mayfly.Viewer{}, "", e.clock)); got != "words" || err != nil {
				t.Errorf("the last reader: %q, %v", got, err)
			}
			if e.Row(id).State != mayfly.Deleted {
				t.Error("the last reader has not deleted it")
			}
		}
		return swapped, current, err
	}
	if got, err := e.claim(id, ""); got != "words" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestAHoldThatLandsDuringAReadKeepsThePaste(t *testing.T) {
	e := open(t)
	id := e.create(paste.Draft{Reads: 1}, "evidence").Item.ID
	e.beforeClaim(func() { e.Hold(id) })
	if got, err := e.claim(id, ""); !errors.Is(err, mayfly.NotFound) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := readAll(e.node().Read(t.Context(), id, mayfly.ModeratorOf(ben), "", e.clock())); got != "evidence" || err != nil {
		t.Errorf("the moderator: %q, %v", got, err)
	}
	e.Release(id)
	if got, err := readAll(e.node().Claim(t.Context(), id, mayfly.Viewer{}, "", e.clock)); got != "evidence" || err != nil {
		t.Errorf("released: %q, %v", got, err)
	}
}

func TestAHeldPasteWhoseReadsAreUsedUpIsDeletedAfterItsRelease(t *testing.T) {
	e := open(t)
	id := e.create(paste.Draft{Reads: 1}, "evidence").Item.ID
	e.Hooks.Transition = func(context.Context, []mayfly.Change, fixture.Transition) ([]store.Outcome, error) {
		return nil, mayfly.Errorf(mayfly.Unavailable, "the store is away")
	}
	if got, err := e.claim(id, ""); got != "evidence" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	e.Hooks.Transition = nil
	e.Hold(id)
	e.burnDue()
	if row := e.Row(id); row.State == mayfly.Deleted {
		t.Error("a held paste was deleted")
	}
	if got, err := readAll(e.node().Read(t.Context(), id, mayfly.ModeratorOf(ben), "", e.clock())); got != "evidence" || err != nil {
		t.Errorf("the moderator: %q, %v", got, err)
	}
	e.Release(id)
	e.burnDue()
	if e.Row(id).State != mayfly.Deleted {
		t.Error("it is not deleted after its release")
	}
}

// burnDue runs the reminders to burn that come due in the next two hours.
func (e *env) burnDue() {
	e.Helper()
	before := e.clock()
	e.pass(2 * time.Hour)
	for _, r := range e.Reminders(before, e.clock()) {
		if r.Step == remind.Burn {
			e.WantActed(e.pastes.Burn(context.Background(), walk.Batch{Now: e.clock(), Items: []mayfly.Item{e.Row(r.ID)}}))
		}
	}
}
