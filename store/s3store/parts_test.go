package s3store

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
)

type torned struct{ err error }

func (r *torned) Read([]byte) (int, error) { return 0, r.err }

// A reader that wraps io.EOF has failed: what came before it is no object.
func TestAReaderThatWrapsTheEndHasFailed(t *testing.T) {
	s := connect(t, fakeServer(t))
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	key := freshKey()
	wrapped := errors.Join(errors.New("the uploader went away"), io.EOF)
	if _, err := hot.Put(t.Context(), key, io.MultiReader(strings.NewReader("half"), &torned{wrapped})); !errors.Is(err, wrapped) {
		t.Errorf("put answers %v, want what the reader returned", err)
	}
	_, err := hot.Stat(t.Context(), key)
	wantKind(t, mayfly.NotFound, err)
}
