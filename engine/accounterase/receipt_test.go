package accounterase_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// afterBodies is a ledger that calls do after the nth call of EraseBody.
type afterBodies struct {
	store.Ledger
	calls, nth int
	do         func()
}

func (l *afterBodies) EraseBody(ctx context.Context, ids ...mayfly.ID) error {
	err := l.Ledger.EraseBody(ctx, ids...)
	if l.calls++; l.calls == l.nth {
		l.do()
	}
	return err
}

// finish makes passes until the erasure is finished and returns its receipt.
func finish(fx *erasure.Fixture, user mayfly.UserID) accounterase.Receipt {
	fx.Helper()
	for range 10 {
		fx.Now = fx.Now.Add(time.Minute)
		_, err := fx.Accounts().RunDue(context.Background(), fx.Now)
		fx.Must(err)
		r, err := accounterase.ReceiptOf(context.Background(), fx.Real.Rows, user)
		if fx.Must(err); r.Finished != 0 {
			return r
		}
	}
	fx.Fatal("the erasure is not finished after ten passes")
	return accounterase.Receipt{}
}

// The loop of a node looks every ten seconds; a first pass over a large account
// takes longer than the time after which the second one is due.
func TestAPassThatOverlapsTheNodesLoopKeepsItsCounts(t *testing.T) {
	fx := erasure.Open(t)
	const items = 350 // more than nth pages
	for range items {
		fx.Story(1)
	}
	loop := fx.Accounts()
	l := &afterBodies{Ledger: fx.Set.Ledger, nth: 3}
	l.do = func() {
		if n, err := loop.RunDue(t.Context(), fx.Now.Add(61*time.Second)); err != nil {
			t.Errorf("the loop meanwhile: %d passes, %v", n, err)
		}
	}
	fx.Set.Ledger = l
	r, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	if err != nil || l.calls < l.nth {
		t.Errorf("the operator gets %+v, %v", r, err)
	}
	fx.Set.Ledger = fx.Real.Ledger
	if r := finish(fx, fixture.Ana()); r.Items != items || r.Objects != items || r.Rows["owners"] != items {
		t.Errorf("the receipt has %d items, %d objects and %v, want %d", r.Items, r.Objects, r.Rows, items)
	}
}

func TestTheLoopReadsOverNoFinishedErasures(t *testing.T) {
	fx := erasure.Open(t)
	g := fixture.NewGraves(&fx.Set)
	e := fx.Accounts()
	for n := range 40 {
		_, err := e.Account(t.Context(), fixture.User(fmt.Sprint(n)), audit.Actor{Subject: "support"}, "asked to", fx.Now)
		fx.Must(err)
		fx.Now = fx.Now.Add(5 * time.Minute)
		_, err = e.RunDue(t.Context(), fx.Now)
		fx.Must(err)
	}
	ranges := fx.Hooks.Count("range")
	before := g.Read()
	for range 60 {
		fx.Now = fx.Now.Add(10 * time.Second)
		if n, err := e.RunDue(t.Context(), fx.Now); err != nil || n != 0 {
			t.Fatalf("%d passes, %v", n, err)
		}
	}
	if ranges = fx.Hooks.Count("range") - ranges; g.Read() != before || ranges > 2*60 {
		t.Errorf("sixty calls read over %d deleted rows in %d ranges", g.Read()-before, ranges)
	}
}

// A process that is slower than its lease goes on beside the one that took over.
func TestAPassThatIsTakenOverIsCountedOnce(t *testing.T) {
	fx := erasure.Open(t)
	const items = 250
	for range items {
		fx.Story(1)
	}
	second := fx.Accounts()
	l := &afterBodies{Ledger: fx.Set.Ledger, nth: 2}
	l.do = func() { // the lease has run out
		if n, err := second.RunDue(t.Context(), fx.Now.Add(10*time.Minute)); err != nil || n != 1 {
			t.Errorf("the other process: %d passes, %v", n, err)
		}
	}
	fx.Set.Ledger = l
	r, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	if err != nil || r.Finished == 0 || r.Items != items || r.Objects != items {
		t.Errorf("the operator gets %+v, %v", r, err)
	}
	if kept, err := accounterase.ReceiptOf(t.Context(), fx.Real.Rows, fixture.Ana()); err != nil || kept.Items != items || kept.Rows["owners"] != items {
		t.Errorf("%+v, %v", kept, err)
	}
}

func TestTheLeaseOfASlowPageIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := erasure.Open(t)
		fx.Story(1)
		second, begun := fx.Accounts(), time.Now()
		l := &afterBodies{Ledger: fx.Set.Ledger, nth: 1}
		l.do = func() { // a page that takes minutes
			for range 20 {
				time.Sleep(15 * time.Second)
				if n, err := second.RunDue(t.Context(), fx.Now.Add(time.Since(begun))); err != nil || n != 0 {
					t.Fatalf("after %s the other process made %d passes, %v", time.Since(begun), n, err)
				}
			}
		}
		fx.Set.Ledger = l
		r, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
		if err != nil || r.Items != 1 || r.Passes != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

func TestASecondCallerIsRefusedWhileAnAccountIsErased(t *testing.T) {
	fx := erasure.Open(t)
	fx.Story(1)
	second := fx.Accounts()
	l := &afterBodies{Ledger: fx.Set.Ledger, nth: 1}
	l.do = func() {
		if _, err := second.Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked twice", fx.Now); !errors.Is(err, mayfly.Conflict) {
			t.Errorf("%v, want Conflict", err)
		}
	}
	fx.Set.Ledger = l
	_, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	fx.Must(err)
	if r := finish(fx, fixture.Ana()); r.Items != 1 {
		t.Errorf("%+v", r)
	}
}

// An erasure that keeps failing is tried again with growing pauses, and each try
// leaves one entry in the queue. What was erased before is counted.
func TestAnErasureThatFailsIsTriedAgainWithGrowingPauses(t *testing.T) {
	fx := erasure.Open(t)
	for range 120 { // more than a page
		fx.Story(1)
	}
	fx.Hooks.Append = fixture.FailAppend(mayfly.Unavailable)
	_, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
	if !errors.Is(err, mayfly.Unavailable) {
		t.Fatal(err)
	}
	tries := 0
	for range 60 * 12 { // twelve hours, every minute
		fx.Now = fx.Now.Add(time.Minute)
		if _, err := fx.Accounts().RunDue(t.Context(), fx.Now); err != nil {
			tries++
		}
	}
	if tries < 12 || tries > 40 {
		t.Errorf("%d tries in twelve hours", tries)
	}
	fx.Hooks.Append = nil
	fx.Now = fx.Now.Add(time.Hour)
	if r := finish(fx, fixture.Ana()); r.Items != 120 || r.Objects != 120 || r.Rows["owners"] != 120 {
		t.Errorf("%+v", r)
	}
}

// The loop waits for the lease of a process that dies then: the account stays in
// the queue.
func TestAnErasureWhoseProcessDiesIsFinishedByTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fx := erasure.Open(t)
		fx.Story(1)
		begun, second := time.Now(), fx.Accounts()
		ctx, die := context.WithCancel(t.Context())
		l := &afterBodies{Ledger: fx.Set.Ledger, nth: 1}
		l.do = func() {
			for range 30 {
				time.Sleep(10 * time.Second)
				_, err := second.RunDue(t.Context(), fx.Now.Add(time.Since(begun)))
				fx.Must(err)
			}
			die()
		}
		fx.Set.Ledger = l
		fx.Hooks.Swap = func(ctx context.Context, _ store.Table, _ store.Key, do fixture.Swap) (bool, []byte, error) {
			if ctx.Err() != nil {
				return false, nil, mayfly.Wrap(mayfly.Unavailable, ctx.Err(), "")
			}
			return do()
		}
		fx.Hooks.Commit = func(ctx context.Context, _ *store.Batch, do func() error) error {
			return errors.Join(ctx.Err(), do())
		}
		if _, err := fx.Accounts().Account(ctx, fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now); err == nil {
			t.Fatal("the process did not die")
		}
		fx.Set.Ledger, fx.Hooks.Swap, fx.Hooks.Commit = fx.Real.Ledger, nil, nil
		fx.Now = fx.Now.Add(time.Since(begun))
		if r := finish(fx, fixture.Ana()); r.Items != 1 {
			t.Errorf("%+v", r)
		}
	})
}
