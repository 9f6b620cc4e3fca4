package accounterase_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/erasure"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// isWhole reports whether a receipt counts all of Ana's belongings, each once.
func isWhole(r accounterase.Receipt) bool {
	return r.Items == 6 && r.Objects == 9 && r.Rows["owners"] == 6 && r.Rows["uploads"] == 6 &&
		r.Rows["relations"] == 2 && r.Rows["related"] == 2 && r.Rows["families"] == 1 && r.Rows["seen"] == 1 && r.Rows["idempotency"] == 1
}

func TestAnAccountErasureStoppedAnywhereIsFinishedLater(t *testing.T) {
	pace.Heavy(t, "hundreds of stops")
	random := fixture.Seeded(t)
	var calls []storetest.Call
	account := func(fx *erasure.Fixture) error {
		_, err := fx.Accounts().Account(context.Background(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
		return err
	}
	erasure.With(t, func(fx *erasure.Fixture) {
		fx.Belongings(fixture.Ana())
		set, landing := storetest.Prefix(fx.Real, storetest.Pass)
		fx.Set = set
		fx.Must(account(fx))
		calls = landing.Calls()
	})
	stops := 0
	stop := func(call storetest.Call, fault storetest.Fault) {
		fault.Halts = true
		stops++
		erasure.With(t, func(fx *erasure.Fixture) {
			mine, other := fx.Belongings(fixture.Ana()), fx.StoryOf(fixture.Ben(), 2)
			set, landing := storetest.Prefix(fx.Real, storetest.FailNth(call.N, fault))
			fx.Set = set
			acked := account(fx) == nil
			fx.Set = fx.Real
			_, err := landing.LandAll(t.Context(), random)
			fx.Must(err)
			fx.Now = fx.Now.Add(time.Minute)
			e := fx.Accounts()
			_, err = e.RunDue(t.Context(), fx.Now)
			fx.Must(err)
			r, err := accounterase.ReceiptOf(t.Context(), fx.Real.Rows, fixture.Ana())
			if errors.Is(err, mayfly.NotFound) { // it never began, and the caller got an error
				if got := fx.Scan(fixture.Ana()).Count; got < 22 || acked {
					t.Fatalf("call %d: no tombstone, and %d references are left", call.N, got)
				}
				fx.Must(account(fx))
				fx.Now = fx.Now.Add(time.Minute)
				_, err = e.RunDue(t.Context(), fx.Now)
				fx.Must(err)
				r, err = accounterase.ReceiptOf(t.Context(), fx.Real.Rows, fixture.Ana())
			}
			if err != nil || r.Finished == 0 || !isWhole(r) {
				t.Fatalf("call %d (%s): %+v, %v", call.N, call.Op, r, err)
			}
			fx.Remind(fx.Eraser(), fx.Now.Add(erasure.Soon))
			for _, item := range mine {
				if left := fx.Traces(item); len(left) > 0 {
					t.Fatalf("call %d (%s): left %v", call.N, call.Op, left)
				}
			}
			if after := fx.Scan(fixture.Ana()); after.Count != 0 || len(fx.Traces(other)) != 5 {
				t.Fatalf("call %d (%s): %+v", call.N, call.Op, after)
			}
		})
	}
	for _, call := range calls {
		for _, fault := range erasure.Some(storetest.Faults(call), random) {
			stop(call, fault)
		}
	}
	storetest.Proof(t, "account erasure stopped at every call", "stops", stops)
	if stops < 40 {
		t.Fatalf("%d stops prove little", stops)
	}
}

func TestAnAccountErasureStoppedAtAnyErasingCallIsFinishedLater(t *testing.T) {
	pace.Heavy(t, "hundreds of stops")
	stops := 0
	for at, reached := 1, true; reached; at++ {
		for _, how := range []storetest.BlobFault{storetest.Before, storetest.After, storetest.Short} {
			erasure.With(t, func(fx *erasure.Fixture) {
				mine, s := fx.Belongings(fixture.Ana()), &erasure.Stopper{At: at, How: how}
				fx.Set = s.Wrap(fx.Real)
				_, err := fx.Accounts().Account(t.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
				if reached = s.Stopped; !reached {
					fx.Must(err)
					return
				}
				stops++
				if err == nil {
					t.Fatalf("call %d: acknowledged, and it was stopped", at)
				}
				fx.Set = fx.Real
				fx.Now = fx.Now.Add(time.Minute)
				if n, err := fx.Accounts().RunDue(t.Context(), fx.Now); err != nil || n != 1 {
					t.Fatalf("call %d: %d passes, %v", at, n, err)
				}
				if r, err := accounterase.ReceiptOf(t.Context(), fx.Real.Rows, fixture.Ana()); err != nil || !isWhole(r) {
					t.Fatalf("call %d: %+v, %v", at, r, err)
				}
				fx.Remind(fx.Eraser(), fx.Now.Add(erasure.Soon))
				for _, item := range mine {
					if left := fx.Traces(item); len(left) > 0 {
						t.Fatalf("call %d: left %v", at, left)
					}
				}
				if after := fx.Scan(fixture.Ana()); after.Count != 0 {
					t.Fatalf("call %d: %+v", at, after)
				}
			})
		}
	}
	storetest.Proof(t, "account erasure stopped at every erasing call", "stops", stops)
	if stops < 9 {
		t.Fatalf("%d stops prove little", stops)
	}
}

// ST14: what was answered stays erased, what never began is whole, and what is
// held or another's stays.
func TestPowerLossWhileAnAccountIsErasedBringsNothingBack(t *testing.T) {
	var mine, others []mayfly.Item
	var held mayfly.Item
	erasure.PowerLoss(t, "power loss, account erasure", fixture.Seeded(t), erasure.Operation{
		Prepare: func(fx *erasure.Fixture) {
			mine, others = fx.Belongings(fixture.Ana()), fx.Belongings(fixture.Ben())
			held = fx.Story(1)
			fx.Hold(held.ID)
		},
		Do: func(fx *erasure.Fixture, ack func()) {
			e := fx.Accounts()
			_, err := e.Account(fx.Context(), fixture.Ana(), audit.Actor{Subject: "support"}, "asked to", fx.Now)
			fx.Must(err)
			ack()
			fx.Now = fx.Now.Add(time.Minute)
			_, err = e.RunDue(fx.Context(), fx.Now)
			fx.Must(err)
			ack()
		},
		After: func(fx *erasure.Fixture, acked int) string {
			e, ctx := fx.Accounts(), context.Background()
			_, err := e.Replay(ctx, fx.Now) // as a start does, before the first read
			fx.Must(err)
			_, err = accounterase.ReceiptOf(ctx, fx.Real.Rows, fixture.Ana())
			began := err == nil
			switch {
			case !began && !errors.Is(err, mayfly.NotFound):
				fx.Fatal(err)
			case !began && acked > 0:
				fx.Fatalf("RESURRECTED: the account, whose erasure was answered")
			case !began && fx.Scan(fixture.Ana()).Count < 22:
				fx.Fatalf("LOST: it never began, and %+v is left", fx.Scan(fixture.Ana()))
			}
			state := fmt.Sprint(began, acked, fx.Scan(fixture.Ana()).Count)
			if began {
				for range 2 {
					fx.Now = fx.Now.Add(time.Minute)
					_, err = e.RunDue(ctx, fx.Now)
					fx.Must(err)
				}
				fx.Remind(fx.Eraser(), fx.Now.Add(erasure.Soon))
				if left := fx.Scan(fixture.Ana()); left.Count != 0 {
					fx.Fatalf("RESURRECTED: %+v", left)
				}
				for _, item := range mine {
					if left := fx.Traces(item); len(left) > 0 {
						fx.Fatalf("ORPHAN: %v", left)
					}
				}
			}
			fx.WantIntact(held)
			if !fx.Row(held.ID).Held {
				fx.Fatalf("the hold is gone: %+v", fx.Row(held.ID))
			}
			for _, item := range others {
				if row, _ := fx.Find(item.ID); row.State != mayfly.Deleted {
					fx.WantIntact(item)
				}
			}
			return state
		},
	})
}
