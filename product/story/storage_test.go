package story_test

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// storage is a tier that has presigned URLs, which say what they are for, and in
// whose way things come.
type storage struct {
	store.Blobs
	name string

	mu       sync.Mutex
	signed   []string
	read     map[mayfly.BlobKey]int64   // bytes that were read
	signing  func()                     // before a URL is made
	opened   func(mayfly.BlobKey)       // when an object was opened
	deleting func(mayfly.BlobKey) error // before an object is deleted
	putting  func(mayfly.BlobKey) error // before an object is written
	spoiling func(mayfly.BlobKey) error // instead of the end of an object
}

func (s *storage) PresignGet(_ context.Context, key mayfly.BlobKey, lasts time.Duration) (string, error) {
	return s.sign(fmt.Sprintf("GET %s %s %s", s.name, key, lasts))
}

func (s *storage) PresignPut(_ context.Context, key mayfly.BlobKey, length int64, lasts time.Duration) (string, error) {
	return s.sign(fmt.Sprintf("PUT %s %s %d bytes %s", s.name, key, length, lasts))
}

func (s *storage) sign(url string) (string, error) {
	if s.signing != nil {
		s.signing()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signed = append(s.signed, url)
	return url, nil
}

func (s *storage) Delete(ctx context.Context, keys ...mayfly.BlobKey) error {
	for _, key := range keys {
		if s.deleting != nil {
			if err := s.deleting(key); err != nil {
				return err
			}
		}
	}
	return s.Blobs.Delete(ctx, keys...)
}

func (s *storage) Put(ctx context.Context, key mayfly.BlobKey, r io.Reader) (store.Object, error) {
	if s.putting != nil {
		if err := s.putting(key); err != nil {
			return store.Object{}, err
		}
	}
	return s.Blobs.Put(ctx, key, r)
}

func (s *storage) Open(ctx context.Context, key mayfly.BlobKey, span store.Span) (io.ReadCloser, store.Object, error) {
	r, object, err := s.Blobs.Open(ctx, key, span)
	if err != nil {
		return nil, object, err
	}
	if s.opened != nil {
		s.opened(key)
	}
	return &watched{ReadCloser: r, s: s, key: key}, object, nil
}

// watched is an object that is being read.
type watched struct {
	io.ReadCloser
	s   *storage
	key mayfly.BlobKey
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.s.read == nil {
		w.s.read = map[mayfly.BlobKey]int64{}
	}
	w.s.read[w.key] += int64(n)
	if err == io.EOF && w.s.spoiling != nil {
		if spoiled := w.s.spoiling(w.key); spoiled != nil {
			return n, spoiled
		}
	}
	return n, err
}
