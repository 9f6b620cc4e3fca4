package main

import (
	"context"
	"errors"
	"os"
	"time"
)

// lockFile holds a file until it is closed or this program ends. waiting is
// called once if somebody else holds it.
func lockFile(ctx context.Context, name string, waiting func()) (*os.File, error) {
	for first := true; ; first = false {
		f, err := tryLock(name)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, errHeld) {
			return nil, err
		}
		if first {
			waiting()
		}
		if err := rest(ctx, 100*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

var errHeld = errors.New("held by another run")

func tryLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if flock(f) != nil {
		return nil, errors.Join(errHeld, f.Close())
	}
	return f, nil
}
