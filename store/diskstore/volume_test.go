package diskstore

import (
	"bytes"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
)

func TestManyVolumesAreReadWithFewOfThemOpen(t *testing.T) {
	s := mustOpen(t, tinyVolumes(vfs.NewMem()))
	const objects = 3 * maxHandles // a volume each
	for n := range objects {
		mustPut(t, s, testKey(n), bytes.Repeat([]byte{byte(n)}, testInline))
	}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for i := range objects {
				n := (i*(2*w+1) + w) % objects
				data, err := readAll(t.Context(), s, testKey(n), store.Span{Offset: 7, Length: 1})
				if err != nil || data[0] != byte(n) {
					t.Errorf("object %d: %x, %v", n, data, err)
				}
			}
		})
	}
	all.Wait()
	if open := len(s.handles.open); open == 0 || open > maxHandles+4 {
		t.Errorf("%d volumes are open", open)
	}
	mustClose(t, s)
	if open := len(s.handles.open); open != 0 {
		t.Errorf("%d volumes are open in a closed store", open)
	}
}
