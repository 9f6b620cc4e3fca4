package store_test

import (
	"errors"
	"io"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestAFuseBlowsOnceAndTheFirstReasonStays(t *testing.T) {
	f := store.NewFuse()
	if f.Err() != nil {
		t.Fatal(f.Err())
	}
	select {
	case <-f.Blown():
		t.Fatal("a whole fuse is blown")
	default:
	}
	f.Blow(io.ErrShortWrite)
	<-f.Blown()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { f.Blow(io.EOF) })
	}
	wg.Wait()
	err := f.Err()
	if !errors.Is(err, io.ErrShortWrite) || errors.Is(err, io.EOF) || !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%v", err)
	}
	var e *mayfly.Error
	if !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("no hint: %v", err)
	}
}

func TestOfManyThatBlowAFuseOneIsHeard(t *testing.T) {
	f := store.NewFuse()
	reasons := []error{io.EOF, io.ErrShortWrite, io.ErrClosedPipe, io.ErrNoProgress}
	var wg sync.WaitGroup
	for _, reason := range reasons {
		wg.Go(func() { f.Blow(reason) })
	}
	wg.Wait()
	heard := 0
	for _, reason := range reasons {
		if errors.Is(f.Err(), reason) {
			heard++
		}
	}
	if heard != 1 {
		t.Errorf("%d reasons are heard: %v", heard, f.Err())
	}
}

func TestNoFuseNeverBlows(t *testing.T) {
	var f *store.Fuse
	if f.Err() != nil {
		t.Error(f.Err())
	}
	select {
	case <-f.Blown():
		t.Error("no fuse is blown")
	default:
	}
}
