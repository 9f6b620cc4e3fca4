package store

import (
	"sync"

	"github.com/mayflyhq/mayfly"
)

// Fuse blows once, when a store can no longer promise durability: a failed fsync, or a
// write-ahead log that cannot be written (I20). A driver checks it before it
// acknowledges a write; the node ends the process when it blows. A nil Fuse never
// blows.
type Fuse struct {
	mu    sync.Mutex
	err   error
	blown chan struct{}
}

// NewFuse returns a fuse that has not blown.
func NewFuse() *Fuse { return &Fuse{blown: make(chan struct{})} }

// FuseError is the reason for which a fuse has blown.
type FuseError struct{ Err error }

// Error returns why the store no longer acknowledges writes.
func (e *FuseError) Error() string { return "the store has stopped acknowledging: " + e.Err.Error() }

// Unwrap returns what failed first.
func (e *FuseError) Unwrap() error { return e.Err }

// Blow blows the fuse with its reason; the first reason stays.
func (f *Fuse) Blow(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return
	}
	f.err = mayfly.Wrap(mayfly.Unavailable, &FuseError{Err: reason},
		"check the disk and its free space, then start again; all acknowledged writes are kept")
	close(f.blown)
}

// Blown returns a channel that is closed when the fuse has blown.
func (f *Fuse) Blown() <-chan struct{} {
	if f == nil {
		return nil
	}
	return f.blown
}

// Err returns why the fuse has blown; nil while it has not.
func (f *Fuse) Err() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
