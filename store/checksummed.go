package store

import (
	"context"

	"github.com/mayflyhq/mayfly"
)

// Checksummed is a tier whose store computes hashes by itself and can be asked
// for them. Stat may answer with what the writer said of the bytes and a copy
// took along: that is no verification (L9), this is.
type Checksummed interface {
	// Checksum is the SHA-256 that the store has computed over the whole object
	// as it lies there, asked for apart from the call that wrote it. Errors:
	// NotFound, Unsupported (this store cannot, or not for this object: read it
	// back), Corrupt (it differs from what the writer said), Unavailable.
	Checksum(ctx context.Context, key mayfly.BlobKey) ([32]byte, error)
}
