package kvapi

import (
	"errors"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestLargeValuesOfANamespaceLeaveRoomForOthers(t *testing.T) {
	const mib = 1 << 20
	m := newMemory(16 * mib)
	take := func(space string, n int64, good bool) {
		t.Helper()
		if err := m.take(space, n); good && err != nil || !good && !errors.Is(err, mayfly.Unavailable) {
			t.Errorf("%s takes %d: %v", space, n, err)
		}
	}
	take("a", 4*mib, true)
	take("a", small+1, false)
	take("a", small, true) // small values are free
	for _, space := range []string{"b", "c", "d"} {
		take(space, 4*mib, true)
	}
	take("e", small+1, false)
	m.give("b", 4*mib)
	take("e", 4*mib, true)
	for _, space := range []string{"a", "c", "d", "e"} {
		m.give(space, 4*mib)
	}
	m.give("a", small)
	if m.used != 0 || len(m.by) != 0 {
		t.Errorf("%d bytes are taken after all: %v", m.used, m.by)
	}
}
