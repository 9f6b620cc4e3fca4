package node

import (
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/profile"
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
