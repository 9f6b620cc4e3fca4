package gate_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// cutOff is the signals of a node that cannot publish, while the other nodes reach
// each other and keep their leases.
type cutOff struct{ store.Signals }

func (cutOff) Publish(context.Context, store.Signal) error {
	return mayfly.Errorf(mayfly.Unavailable, "this node is cut off")
}

// A node that holds its lease and got no signal does not serve an item after a node
// that is cut off has acknowledged its end (ST5, ST10, I7).
func TestNoNodeServesWhatACutOffNodeHasAcknowledgedAsEnded(t *testing.T) {
	for name, operation := range map[string]func(*pair, mayfly.Item) error{
		"delete": func(p *pair, item mayfly.Item) error {
			_, err := p.eraser.Delete(context.Background(), item.ID, mayfly.ByUser, birth)
			return err
		},
		"hold": func(p *pair, item mayfly.Item) error {
			return p.support.Hold(context.Background(), item.ID, audit.Actor{Subject: "ben"}, "a court", birth)
		},
		"block": func(p *pair, _ mayfly.Item) error {
			return p.accounts.Relate(context.Background(), ana, ben, mayfly.Blocked, 0, birth)
		},
		"end of a friendship": func(p *pair, _ mayfly.Item) error {
			return p.accounts.Relate(context.Background(), ana, ben, 0, mayfly.CloseFriend, birth)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t)
				item := story(t)
				item.Audience = mayfly.CloseFriends
				p.put(item, mayfly.Body{Text: "sea"})
				now := birth.Add(2 * time.Minute) // a refusal of a younger id is not taken from the cache
				// The other node is asked all the time, so that its cache stays fresh.
				stop := make(chan struct{})
				done := make(chan struct{})
				served := 0
				go func() {
					defer close(done)
					for {
						select {
						case <-stop:
							return
						case <-time.After(10 * time.Millisecond):
							if verdict, err := p.open(item.ID, mayfly.ViewerOf(ben), now); verdict == gate.Serve && err == nil {
								served++
							}
						}
					}
				}()
				time.Sleep(10 * time.Second)
				if err := operation(p, item); err != nil {
					t.Fatal(err)
				}
				p.want(item.ID, mayfly.ViewerOf(ben), now, gate.Hidden)
				all, err := p.gate.OpenAll(context.Background(), []mayfly.ID{item.ID}, mayfly.ViewerOf(ben), now)
				if err != nil || len(all) != 0 {
					t.Errorf("OpenAll returned %v, %v; want nothing", all, err)
				}
				close(stop)
				<-done
				if _, held := p.wire.Lease(); !held || served < 900 {
					t.Fatalf("lease held: %t, served %d times; want a held lease and 900 times at least", held, served)
				}
				if gets := p.calls("ledger get"); gets > 10 {
					t.Errorf("%d reads in 10 s: nothing was cached", gets)
				}
			})
		})
	}
}

// pair is the gate of one node, and the operations of another node that is cut off.
type pair struct {
	*engine
	eraser   *erase.Erase
	accounts *account.Accounts
	support  *restore.Restore
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{}
	p.engine = open(t, gate.Options{Relations: fixture.OneByOne(func(ctx context.Context, owner, viewer mayfly.UserID) (mayfly.Relation, error) {
		return p.accounts.Relation(ctx, owner, viewer)
	})})
	there := p.Set
	there.Signals = cutOff{p.wire}
	key, err := account.LoadKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	friends, err := account.New(t.Context(), account.Options{Rows: p.Set.Rows, Signals: p.wire, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Must(friends.Close()) })
	if err := friends.Relate(context.Background(), ana, ben, mayfly.CloseFriend, 0, birth); err != nil {
		t.Fatal(err)
	}
	if p.accounts, err = account.New(t.Context(), account.Options{Rows: there.Rows, Signals: there.Signals, Key: key}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Must(p.accounts.Close()) })
	if p.eraser, err = erase.New(there, erase.Options{}); err != nil {
		t.Fatal(err)
	}
	log, err := audit.Open(context.Background(), there.Rows, "support", birth)
	if err != nil {
		t.Fatal(err)
	}
	if p.support, err = restore.New(there, log, restore.Options{}); err != nil {
		t.Fatal(err)
	}
	return p
}
