package media_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

func cleaner(t *testing.T, o media.CleanerOptions) *media.Cleaner {
	t.Helper()
	c, err := media.NewCleaner(o)
	must(t, err)
	return c
}

// stuck is a sender that sends no more until it is released.
type stuck struct {
	head    io.Reader
	waits   chan struct{}
	release chan struct{}
	once    sync.Once
}

func (s *stuck) Read(p []byte) (int, error) {
	if n, err := s.head.Read(p); err == nil {
		return n, nil
	}
	s.once.Do(func() { close(s.waits) })
	<-s.release
	return 0, io.EOF
}

// I17: who sends slowly does not hold up others, however many they are.
func TestSlowSendersHoldUpNoOtherMedium(t *testing.T) {
	cl := cleaner(t, media.CleanerOptions{Work: 1, Videos: 1, Wait: time.Minute})
	var all sync.WaitGroup
	var slow []*stuck
	for _, s := range samples(t) {
		sender := &stuck{head: bytes.NewReader(s.bytes[:len(s.bytes)/2]), waits: make(chan struct{}), release: make(chan struct{})}
		slow = append(slow, sender)
		all.Go(func() {
			c, err := cl.Clean(sender)
			if err != nil {
				return // so few bytes have no type
			}
			_, _ = io.Copy(io.Discard, c)
			_ = c.Close()
		})
		<-sender.waits
	}
	for _, s := range samples(t) {
		c, err := cl.Clean(bytes.NewReader(s.bytes))
		must(t, err)
		_, err = io.Copy(io.Discard, c)
		must(t, err)
	}
	for _, sender := range slow {
		close(sender.release)
	}
	all.Wait()
}

// I17: a node runs more threads than it has processors; media get half of the latter.
func TestMediaLeaveHalfOfTheProcessorsToOthers(t *testing.T) {
	before := runtime.GOMAXPROCS(runtime.NumCPU() + 2)
	defer runtime.GOMAXPROCS(before)
	if work, most := cleaner(t, media.CleanerOptions{}).Work(), max(1, runtime.NumCPU()/2); work > most {
		t.Errorf("%d media are parsed at the same time on %d processors, at most %d should be", work, runtime.NumCPU(), most)
	}
}

// A medium that is cleaned and not read on keeps others waiting for a bounded time.
func TestAMediumWaitsForItsTurnForABoundedTime(t *testing.T) {
	cl := cleaner(t, media.CleanerOptions{Work: 1, Videos: 1, Wait: time.Millisecond})
	first, err := cl.Clean(bytes.NewReader(dirtyMP4()))
	must(t, err)
	_, err = first.Read(make([]byte, 1)) // it has arrived, and the rest of it is not read
	must(t, err)
	second, err := cl.Clean(bytes.NewReader(dirtyMP4()))
	must(t, err)
	_, err = io.ReadAll(second)
	var e *mayfly.Error
	if !errors.Is(err, mayfly.Unavailable) || !errors.As(err, &e) || e.Hint == "" {
		t.Errorf("a second video: %v", err)
	}
	image, err := cl.Clean(bytes.NewReader(dirtyPNG(t)))
	must(t, err)
	if _, err := io.ReadAll(image); err != nil {
		t.Errorf("an image beside a video: %v", err)
	}
	must(t, first.Close())
	must(t, first.Close())
	if _, err := first.Read(make([]byte, 1<<20)); err == nil {
		_, err = first.Read(make([]byte, 1))
		if err == nil {
			t.Error("a closed medium is read on")
		}
	}
	third, err := cl.Clean(bytes.NewReader(dirtyMP4()))
	must(t, err)
	if _, err := io.ReadAll(third); err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
	fourth, err := cl.Clean(bytes.NewReader(dirtyMP4())) // the third was read to its end and not closed
	must(t, err)
	if _, err := io.ReadAll(fourth); err != nil {
		t.Errorf("after the third has ended: %v", err)
	}
}

// I17: media of many parts take turns with others, a few KiB at a time.
func TestASmallImageDoesNotWaitForMediaOfManyParts(t *testing.T) {
	cl := cleaner(t, media.CleanerOptions{Work: 1, Wait: time.Minute})
	var all sync.WaitGroup
	var stop atomic.Bool
	var large [8][]time.Duration
	for i := range large {
		all.Go(func() {
			for !stop.Load() {
				began := time.Now()
				c, err := cl.Clean(&repeated{head: webmHead + "\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff", part: "\xec\x80", most: 60 << 20})
				if err == nil {
					_, err = io.Copy(io.Discard, c)
				}
				if !errors.Is(err, mayfly.TooLarge) {
					t.Error(err)
				}
				large[i] = append(large[i], time.Since(began))
			}
		})
	}
	var small []time.Duration
	for range 5 {
		began := time.Now()
		c, err := cl.Clean(bytes.NewReader(dirtyPNG(t)))
		must(t, err)
		_, err = io.Copy(io.Discard, c)
		must(t, err)
		small = append(small, time.Since(began))
	}
	stop.Store(true)
	all.Wait()
	median := func(all []time.Duration) time.Duration { return slices.Sorted(slices.Values(all))[len(all)/2] }
	image, other := median(small), median(slices.Concat(large[:]...))
	t.Logf("a small image took %v beside 8 media of many parts, which took %v each", image, other)
	if image > other/4 { // about as long if it waited for one after the other
		t.Errorf("a small image took %v, and a medium of many parts %v", image, other)
	}
}

func TestASpoolLeavesNoFileBehind(t *testing.T) {
	dir := t.TempDir()
	cl := cleaner(t, media.CleanerOptions{Spool: dir})
	index := string(dirtyMP4())
	long := []byte(index[:len(index)-8-len(secret)] + box("mdat", string(make([]byte, 1<<20))))
	c, err := cl.Clean(bytes.NewReader(long))
	must(t, err)
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
	if rest, err := io.ReadAll(c); err != nil || len(rest) != len(long)-100 {
		t.Errorf("%d bytes of %d: %v", len(rest), len(long), err)
	}
	missing := cleaner(t, media.CleanerOptions{Spool: dir + "/missing"})
	c, err = missing.Clean(bytes.NewReader(long))
	must(t, err)
	if _, err := io.ReadAll(c); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("without a folder: %v", err)
	}
}

func TestACleanerRefusesSettingsBelowNothing(t *testing.T) {
	for _, o := range []media.CleanerOptions{{Work: -1}, {Videos: -1}, {Wait: -1}, {Limits: media.Limits{Image: -1}}} {
		if _, err := media.NewCleaner(o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
