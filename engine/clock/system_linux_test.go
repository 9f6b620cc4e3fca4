package clock

import (
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestSystemReturnsTheBootTimeOfTheKernel(t *testing.T) {
	source := System()
	for range 1000 {
		var before, after unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &before); err != nil {
			t.Fatal(err)
		}
		got := source.Read().Boot
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &after); err != nil {
			t.Fatal(err)
		}
		const slop = 2 * time.Millisecond
		if got < time.Duration(before.Nano())-slop || got > time.Duration(after.Nano())+slop {
			t.Fatalf("boot time %s, the kernel says between %s and %s", got, time.Duration(before.Nano()), time.Duration(after.Nano()))
		}
	}
	if source.BootID == "" {
		t.Log("this system has no boot id")
	}
	t.Logf("synchronised: %v", source.Synchronised())
}

func TestSystemCountsSuspension(t *testing.T) {
	s := &system{start: time.Now()}
	s.read()
	for _, as := range []string{"wall clock moved", "wall clock stepped back as far"} {
		k := *s.known.Load()
		k.suspended -= time.Hour // as known before an hour of suspension
		if as == "wall clock moved" {
			k.skew -= int64(time.Hour)
		} else {
			k.until = 0 // a tenth of a second has passed
		}
		before := time.Since(s.start) + k.suspended
		s.known.Store(&k)
		if rose := s.read().Boot - before; rose < time.Hour-time.Millisecond || rose > time.Hour+time.Second {
			t.Fatalf("%s: boot time rose by %s", as, rose)
		}
	}
}

func TestReadingIsMonotonicAcrossGoroutines(t *testing.T) {
	c := New(System(), Options{}, Mark{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			last := c.Read()
			for range 20_000 {
				r := c.Read()
				if r.Steady < last.Steady || !r.Confirmed {
					t.Errorf("%+v after %+v", r, last)
					return
				}
				last = r
			}
		})
	}
	wg.Wait()
}

func TestReadAllocatesNothing(t *testing.T) {
	c := New(System(), Options{}, Mark{})
	if n := testing.AllocsPerRun(1000, func() { c.Read() }); n >= 1 {
		t.Fatalf("%v allocations per reading", n)
	}
}

func BenchmarkRead(b *testing.B) {
	c := New(System(), Options{}, Mark{})
	b.ReportAllocs()
	for b.Loop() {
		c.Read()
	}
}
