package account_test

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

// noted notes every key that was written.
type noted struct {
	store.Rows
	mu   sync.Mutex
	keys map[store.Table]map[store.Key]bool
}

func (n *noted) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, at mayfly.Instant) (bool, []byte, error) {
	n.mu.Lock()
	if n.keys[t] == nil {
		n.keys[t] = map[store.Key]bool{}
	}
	n.keys[t][key] = true
	n.mu.Unlock()
	return n.Rows.Swap(ctx, t, key, old, new, at)
}

// naming returns the rows of tables that name a user, in the key or the value.
func (n *noted) naming(h *fixture, user mayfly.UserID, tables ...store.Table) (rows []string) {
	h.Helper()
	for _, t := range tables {
		for key := range n.keys[t] {
			found, err := h.rows.Get(h.Context(), t, key)
			h.must(err)
			if found[0] != nil && (strings.Contains(key.Partition+key.Clustering, string(user[:])) || bytes.Contains(found[0], user[:])) {
				rows = append(rows, t.String())
			}
		}
	}
	return rows
}

// An erasure that stops at any write, and an operation that did before, leave nothing
// that names the user once the erasure is done and the upkeep has run.
func TestAnErasedUserIsInNoEdgeCountProfileOrHandle(t *testing.T) {
	tables := []store.Table{account.Follows, account.Followers, account.Recounts, account.Profiles, account.Handles}
	stops := 0
	for at := range 60 {
		n := &noted{keys: map[store.Table]map[store.Key]bool{}}
		f := &faulty{left: -1}
		h := open(t, func(o *account.Options) { n.Rows = o.Rows; f.Rows = n; o.Rows, o.FollowersAbove = f, 1 })
		others := make([]mayfly.UserID, 6)
		for i := range others {
			others[i] = mayfly.UserOf("other", string(rune('a'+i)))
			h.follow(others[i], ana(), account.Following)
			if i == 2 {
				h.quiesce(start) // the next followers go elsewhere
			}
			h.follow(ana(), others[i], account.Following)
		}
		handle, private := "ana_1", true
		_, err := h.accounts.Change(t.Context(), ana(), account.ProfileChange{Handle: &handle, Private: &private}, start)
		h.must(err)
		h.follow(ben(), ana(), account.Requested)
		h.must(h.accounts.Mute(t.Context(), stranger(), ana(), mayfly.MutesPosts, 0, start))
		h.unfollow(ana(), others[0])
		f.left = at % 10
		_, _ = h.accounts.Follow(t.Context(), ana(), stranger(), start) // stops half-way, or not
		f.left = -1
		if before := len(n.naming(h, ana(), tables...)); before < 20 {
			t.Fatalf("only %d rows name the user", before)
		}
		h.erase(ana())
		part := account.ErasePart(h.rows)
		f.left = at
		if _, err := part.Erase(t.Context(), ana(), start); err != nil {
			stops++
			f.left = -1
			_, err := part.Erase(t.Context(), ana(), start)
			h.must(err)
		}
		f.left = -1
		for _, reader := range []mayfly.UserID{ben(), others[0]} {
			h.follow(reader, ana(), account.Following) // like a user who never was
			h.unfollow(reader, ana())
		}
		if left, err := part.Left(t.Context(), ana()); err != nil || left != 0 {
			t.Errorf("stopped after %d: %d left, %v", at, left, err)
		}
		h.quiesce(start)
		if left := n.naming(h, ana(), tables...); len(left) != 0 {
			t.Errorf("stopped after %d: rows of %v name the user", at, left)
		}
		h.verify(append(others, ben(), stranger())...)
		if erased, err := accounterase.Tombstones(t.Context(), h.rows, ana()); err != nil || !erased[0] {
			t.Error(err)
		}
	}
	if t.Logf("%d erasures stopped", stops); stops < 30 {
		t.Error("too few")
	}
}

// The answer of an erasure counts edges and what the user has said, not what the
// recount may or may not have written by then.
func TestErasingCountsTheSameBeforeAndAfterARecount(t *testing.T) {
	for _, recounted := range []bool{false, true} {
		h := open(t)
		h.follow(ana(), ben(), account.Following)
		if recounted {
			h.quiesce(start)
		}
		h.erase(ana())
		part := account.ErasePart(h.rows)
		if n, err := part.Erase(t.Context(), ana(), start); err != nil || n != 1 {
			t.Errorf("recounted %t: %d erased, %v", recounted, n, err)
		}
	}
}
