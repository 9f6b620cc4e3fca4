package node

import (
	"errors"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/tables"
)

func TestANodeWithAnotherKeyThanTheOthersIsRefused(t *testing.T) {
	cfg := config.Default()
	cfg.Data, cfg.Disk.Floor = t.TempDir(), 0
	s, err := profile.Embedded(cfg, Tables())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i, step := range []struct {
		id      string
		changed bool
		refused bool
	}{
		{"a", false, false}, // the first says which it is
		{"a", false, false},
		{"b", false, true},
		{"a", false, false}, // a refusal has changed nothing
		{"b", true, false},
		{"b", false, false},
		{"a", false, true},
	} {
		err := sameKey(t.Context(), s.Set.Rows, step.id, step.changed)
		var said *mayfly.Error
		if step.refused != errors.Is(err, mayfly.Conflict) || !step.refused && err != nil || step.refused && (!errors.As(err, &said) || said.Hint == "") {
			t.Errorf("step %d, %+v: %v", i, step, err)
		}
	}
}

// A store that is opened with this list refuses a table without an erasure rule.
func TestEveryTableOfANodeHasAnErasureRule(t *testing.T) {
	if _, err := store.NewTableSet(Tables()); err != nil {
		t.Error(err)
	}
	if !slices.Equal(Tables(), tables.All()) {
		t.Error("tests open stores with other tables than a node does: see test/tables")
	}
}
