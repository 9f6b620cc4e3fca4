//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package diskfs

import (
	"io"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
)

func (r *RootFS) lock(name string) (io.Closer, error) {
	held, err := vfs.Default.Lock(filepath.Join(r.root.Name(), name))
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Conflict, err, "one process at a time uses a data folder")
	}
	return held, nil
}
