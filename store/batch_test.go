package store_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

const noon = mayfly.Instant(1_767_268_800_000)

func born(t testing.TB, random uint64) store.Birth {
	t.Helper()
	owner := mayfly.UserOf("i", "ana")
	id, err := mayfly.NewID(noon, 60, owner.Trace(), random)
	if err != nil {
		t.Fatal(err)
	}
	return store.Birth{Item: mayfly.Item{
		ID: id, Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: 1, Changed: noon,
	}}
}

func TestABatchKeepsItsStagesApartAndInOrder(t *testing.T) {
	birth := born(t, 1)
	event := mayfly.EventOf(birth.Item, mayfly.WasCreated)
	var b store.Batch
	b.Then() // nothing before it: no empty stage
	b.Put(engine.Owners, store.Key{Partition: "p", Clustering: "a"}, []byte("v"), 7)
	b.Delete(engine.Owners, store.Key{Partition: "p", Clustering: "b"})
	b.Then()
	b.Then()
	b.Insert(birth)
	b.Insert(birth)
	b.DeletePartition(engine.Uploads, "q")
	b.Then()
	b.Append(event)
	b.Append(event)
	b.Then() // nothing behind it either
	stages := b.Stages()
	if len(stages) != 3 {
		t.Fatalf("%d stages", len(stages))
	}
	if s := stages[0]; len(s.Puts) != 1 || s.Puts[0].ReclaimAt != 7 || string(s.Puts[0].Value) != "v" || len(s.Deletes) != 1 || len(s.Inserts)+len(s.Drops)+len(s.Events) != 0 {
		t.Errorf("stage 1: %+v", s)
	}
	if s := stages[1]; len(s.Inserts) != 2 || len(s.Drops) != 1 || s.Drops[0] != (store.Drop{Table: engine.Uploads, Partition: "q"}) || len(s.Puts)+len(s.Events) != 0 {
		t.Errorf("stage 2: %+v", s)
	}
	if s := stages[2]; len(s.Events) != 2 || s.Events[0] != event {
		t.Errorf("stage 3: %+v", s)
	}
	if err := b.Validate(); err != nil {
		t.Error(err)
	}
	b.Put(engine.Owners, store.Key{Partition: "p"}, nil, 0) // goes on in the stage that Then began
	if n := len(b.Stages()); n != 4 {
		t.Errorf("%d stages after going on", n)
	}
}

func TestAnEmptyBatchHasNoStagesAndIsValid(t *testing.T) {
	var b store.Batch
	if b.Stages() != nil || b.Validate() != nil {
		t.Errorf("%v, %v", b.Stages(), b.Validate())
	}
	b.Then()
	b.Then()
	if len(b.Stages()) != 0 {
		t.Errorf("%v", b.Stages())
	}
	b.Insert()
	b.Append()
	if len(b.Stages()) != 0 {
		t.Errorf("%v", b.Stages())
	}
}

func TestABadBatchIsInvalidAndSaysWhichStage(t *testing.T) {
	long := func(n int) string { return strings.Repeat("k", n) }
	key := store.Key{Partition: "p", Clustering: "s"}
	for name, spoil := range map[string]func(*store.Batch){
		"a bad birth":              func(b *store.Batch) { b.Insert(store.Birth{}) },
		"a second bad birth":       func(b *store.Batch) { b.Insert(born(t, 1), store.Birth{}) },
		"a swapped table, put":     func(b *store.Batch) { b.Put(walk.Leases, key, nil, 0) },
		"a swapped table, deleted": func(b *store.Batch) { b.Delete(clock.MarksTable, key) },
		"a swapped table, dropped": func(b *store.Batch) { b.DeletePartition(intake.Idempotency, "p") },
		"no table":                 func(b *store.Batch) { b.Put(store.Table{}, key, nil, 0) },
		"no partition":             func(b *store.Batch) { b.Put(engine.Owners, store.Key{Clustering: "s"}, nil, 0) },
		"no partition to drop":     func(b *store.Batch) { b.DeletePartition(engine.Owners, "") },
		"a long partition": func(b *store.Batch) {
			b.Delete(engine.Owners, store.Key{Partition: long(store.MaxPartition + 1)})
		},
		"a long clustering key": func(b *store.Batch) {
			b.Put(engine.Owners, store.Key{Partition: "p", Clustering: long(store.MaxClustering + 1)}, nil, 0)
		},
		"an event of nothing":      func(b *store.Batch) { b.Append(mayfly.Event{Product: mayfly.Story, Verb: mayfly.WasHeld}) },
		"an event without a verb":  func(b *store.Batch) { b.Append(mayfly.Event{ID: born(t, 1).Item.ID, Product: mayfly.Story}) },
		"an event without a sort":  func(b *store.Batch) { b.Append(mayfly.Event{ID: born(t, 1).Item.ID, Verb: mayfly.WasHeld}) },
		"two faults in two stages": func(b *store.Batch) { b.Insert(store.Birth{}); b.Then(); b.Insert(store.Birth{}) },
	} {
		var b store.Batch
		b.Put(engine.Owners, store.Key{Partition: long(store.MaxPartition), Clustering: long(store.MaxClustering)}, nil, 0)
		b.Then()
		spoil(&b)
		err := b.Validate()
		if !errors.Is(err, mayfly.Invalid) || !strings.Contains(err.Error(), "stage 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAStageErrorSaysHowFarItCameAndWhy(t *testing.T) {
	err := error(&store.StageError{Stage: 1, Err: mayfly.Wrap(mayfly.Unavailable, io.ErrClosedPipe, "")})
	var staged *store.StageError
	if !errors.As(err, &staged) || !errors.Is(err, mayfly.Unavailable) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("%v", err)
	}
	if err.Error() != "commit: stage 2: io: read/write on closed pipe" {
		t.Errorf("%v", err)
	}
}
