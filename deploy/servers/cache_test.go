package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// toy is software of one file with known bytes; calls counts the downloads.
func toy(bytes, want string, calls *atomic.Int32) software {
	list := sums{"toy.jar": fmt.Sprintf("%x", sha256.Sum256([]byte(want)))}
	return software{
		name: "toy-1.0-abc", cost: "nothing",
		get: func(_ context.Context, into string) error {
			calls.Add(1)
			if err := os.MkdirAll(into, 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(into, "toy.jar"), []byte(bytes), 0o644)
		},
		verify: list.verify,
	}
}

func quietCache(t *testing.T) cache {
	return cache{folder: t.TempDir(), say: t.Logf}
}

func TestParallelRunsDownloadSoftwareOnce(t *testing.T) {
	c := quietCache(t)
	var calls atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := c.ensure(t.Context(), toy("wings", "wings", &calls)); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if calls.Load() != 1 {
		t.Fatalf("downloaded %d times", calls.Load())
	}
}

func TestADownloadWithAnotherChecksumIsDiscarded(t *testing.T) {
	c := quietCache(t)
	var calls atomic.Int32
	s := toy("wasps", "wings", &calls)
	if _, err := c.ensure(t.Context(), s); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Fatalf("other bytes are accepted: %v", err)
	}
	entries, err := os.ReadDir(c.folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			t.Errorf("%s stays in the cache", e.Name())
		}
	}
}

func TestDamageInTheCacheIsDetectedAndRepaired(t *testing.T) {
	c := quietCache(t)
	var calls atomic.Int32
	s := toy("wings", "wings", &calls)
	folder, err := c.ensure(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []func() error{
		func() error { return os.WriteFile(filepath.Join(folder, "toy.jar"), []byte("wingz"), 0o644) },
		func() error { return os.WriteFile(filepath.Join(folder, "more.jar"), nil, 0o644) },
		func() error { return os.Remove(filepath.Join(folder, "toy.jar")) },
	} {
		if err := damage(); err != nil {
			t.Fatal(err)
		}
		if c.has(s) {
			t.Fatal("the damage is not detected")
		}
		if _, err := c.ensure(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if !c.has(s) {
			t.Fatal("the damage is not repaired")
		}
	}
	if calls.Load() != 4 {
		t.Fatalf("downloaded %d times", calls.Load())
	}
}

func TestAnInterruptedDownloadDoesNotAffectTheNext(t *testing.T) {
	c := quietCache(t)
	var calls atomic.Int32
	s := toy("wings", "wings", &calls)
	left := filepath.Join(c.folder, s.name+".partial")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, "half.jar"), []byte("wi"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ensure(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedDownloadIsRetriedALimitedNumberOfTimes(t *testing.T) {
	c := quietCache(t)
	for failures, want := range map[int]int{0: 1, 2: 3, 9: 3} {
		calls := 0
		err := c.retry(t.Context(), "toy", func() error {
			if calls++; calls <= failures {
				return errors.New("network down")
			}
			return nil
		})
		if calls != want || (err == nil) != (failures < want) {
			t.Errorf("after %d failures it was tried %d times: %v", failures, calls, err)
		}
	}
	given, stop := context.WithCancel(t.Context())
	stop()
	calls := 0
	if err := c.retry(given, "toy", func() error { calls++; return given.Err() }); err == nil || calls != 1 {
		t.Errorf("an interrupted run continues: %d attempts, %v", calls, err)
	}
}

func TestTheWaitForALockEndsWithTheContext(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	held, err := lockFile(t.Context(), name, t.FailNow)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := lockFile(ctx, name, cancel); !errors.Is(err, context.Canceled) {
		t.Fatalf("a held lock was acquired: %v", err)
	}
}

func TestABuiltProgramIsVerifiedByItsChecksum(t *testing.T) {
	folder := t.TempDir()
	if err := verifyBuilt(folder); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("an empty folder: %v", err)
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("gate", "program")
	write(sumName, fmt.Sprintf("%x  gate\n", sha256.Sum256([]byte("program"))))
	if err := verifyBuilt(folder); err != nil {
		t.Fatal(err)
	}
	write("gate", "progrem")
	if err := verifyBuilt(folder); err == nil {
		t.Fatal("another program is accepted")
	}
}
