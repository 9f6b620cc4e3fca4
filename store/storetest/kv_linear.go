package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// KVHistory records what concurrent clients do to a few keys by compare-and-set, and
// checks that each key behaved as one register would: an order of the operations explains all answers.
type KVHistory struct {
	Space store.KVSpace
	Keys  []string
	Now   mayfly.Instant
	Gets  bool          // also reads by Get, which may see what is not durable yet
	Pause time.Duration // of a client after each operation

	began   time.Time
	mu      sync.Mutex
	ops     []porcupine.Operation
	values  int
	unknown int
	lost    map[string]int // writes of unknown outcome, by key
	swapped int            // by version, done
}

// NewKVHistory returns an empty history of so many keys in a fresh namespace.
func NewKVHistory(keys int) *KVHistory {
	h := &KVHistory{Space: store.KVSpace{Name: freshName("linear")}, Now: wall(), began: time.Now()}
	for i := range keys {
		h.Keys = append(h.Keys, fmt.Sprintf("linear%d", i))
	}
	return h
}

// kvDid is an operation of a history and its answer. A value is unique; "" is absence.
type kvDid struct {
	key  string
	kind string // read, set, delete, create, swap
	from string // of a swap
	to   string // of a write; of a read what it saw
	done bool   // of a conditional write, and of a delete
	lost bool   // it is not known whether it was done
}

// Client does random operations until ctx ends. It may be stopped by the crash of its
// store: then crashed returns true, and what returns after that is not known.
func (h *KVHistory) Client(ctx context.Context, kv store.KV, r *rand.Rand, client int, crashed func() bool) {
	seen := map[string]store.KVEntry{} // as this client saw it last
	for ctx.Err() == nil {
		h.mu.Lock()
		key := h.Keys[r.IntN(len(h.Keys))]
		h.values++
		did := kvDid{key: key, to: fmt.Sprintf("v%d", h.values)}
		h.mu.Unlock()
		o := store.KVOp{Key: key, Action: store.KVSet, Value: []byte(did.to), Old: true}
		switch n := r.IntN(10); {
		case n < 3:
			did.kind, o.Action = "read", store.KVRead
		case n < 4:
			did.kind = "set"
		case n < 5:
			did.kind, o.Action, did.to = "delete", store.KVDelete, ""
		case n < 6 || !seen[key].Found:
			did.kind, o.If = "create", store.KVIfAbsent
		default:
			did.kind, o.If, o.Version, did.from = "swap", store.KVIfVersion, seen[key].Version, string(seen[key].Value)
		}
		call := time.Since(h.began)
		var e store.KVEntry
		var err error
		if h.Gets && did.kind == "read" && r.IntN(2) == 0 {
			var found []store.KVEntry
			if found, err = kv.Get(context.WithoutCancel(ctx), h.Space, h.Now, key); err == nil {
				e = found[0]
			}
		} else {
			var results []store.KVResult
			if results, err = kv.Apply(context.WithoutCancel(ctx), h.Space, h.Now, store.KVGroup{Ops: []store.KVOp{o}}); err == nil {
				e, did.done = results[0].Old, results[0].Done
				if did.done && did.kind != "read" {
					seen[key] = store.KVEntry{Found: did.to != "", Version: results[0].New.Version, Value: []byte(did.to)}
				} else {
					seen[key] = e
				}
			}
		}
		if did.kind == "read" && err == nil {
			did.to, seen[key] = string(e.Value), e
		}
		h.note(client, did, call, err, crashed())
		if h.Pause > 0 {
			time.Sleep(h.Pause)
		}
	}
}

// Swapped returns how many writes by version were done.
func (h *KVHistory) Swapped() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.swapped
}

// note adds an operation, unless it can have had no effect and no answer.
func (h *KVHistory) note(client int, did kvDid, call time.Duration, err error, crashed bool) {
	did.lost = crashed || errors.Is(err, mayfly.Unknown)
	if did.kind == "read" && (err != nil || crashed) || err != nil && !did.lost {
		return
	}
	end := int64(time.Since(h.began))
	if did.lost {
		end = math.MaxInt64
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if did.lost {
		h.unknown++
		h.retire(did.key)
	} else if did.kind == "swap" && did.done {
		h.swapped++
	}
	h.ops = append(h.ops, porcupine.Operation{ClientId: client, Input: did, Call: int64(call), Return: end})
}

// retire replaces a key by a new one when many of its writes are of unknown outcome: each
// doubles the orders that are to be tried.
func (h *KVHistory) retire(key string) {
	const most = 8
	if h.lost == nil {
		h.lost = map[string]int{}
	}
	h.lost[key]++
	if i := slices.Index(h.Keys, key); i >= 0 && h.lost[key] == most {
		h.Keys[i] = fmt.Sprintf("%s after %d", key, len(h.ops))
	}
}

// Check checks the history, and that it has at least so many swaps that were done.
func (h *KVHistory) Check(t *testing.T, proof string, least int) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	Proof(t, proof, "operations, done by version, of unknown outcome", fmt.Sprintf("%d, %d, %d", len(h.ops), h.swapped, h.unknown))
	if h.swapped < least {
		t.Errorf("only %d writes by version were done, want %d", h.swapped, least)
	}
	if result := judgeKV(h.ops); result != porcupine.Ok {
		t.Errorf("no order of the operations explains their answers (%s)", result)
	}
}

// judgeKV reports whether each key of a history behaved as a register.
func judgeKV(ops []porcupine.Operation) porcupine.CheckResult {
	model := porcupine.NondeterministicModel{
		Partition: func(all []porcupine.Operation) (parts [][]porcupine.Operation) {
			byKey := map[string]int{}
			for _, o := range all {
				key := o.Input.(kvDid).key
				if _, there := byKey[key]; !there {
					byKey[key] = len(parts)
					parts = append(parts, nil)
				}
				parts[byKey[key]] = append(parts[byKey[key]], o)
			}
			return parts
		},
		Init: func() []any { return []any{""} },
		Step: func(state, input, _ any) []any {
			now, did := state.(string), input.(kvDid)
			if did.kind == "read" {
				if now == did.to {
					return []any{now}
				}
				return nil
			}
			done := true
			switch did.kind {
			case "delete":
				done = now != ""
			case "create":
				done = now == ""
			case "swap":
				done = now == did.from
			}
			switch {
			case did.lost && done:
				return []any{now, did.to}
			case did.lost, !done && !did.done:
				return []any{now}
			case done && did.done:
				return []any{did.to}
			}
			return nil
		},
	}
	return porcupine.CheckOperationsTimeout(model.ToModel(), ops, 20*time.Second)
}
