package loop_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly/store/loop"
)

// ran notes when steps began, since the test did.
type ran struct {
	start time.Time
	at    []time.Duration
}

func (r *ran) step(context.Context) error {
	r.at = append(r.at, time.Since(r.start))
	return nil
}

func (r *ran) want(t *testing.T, want ...time.Duration) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(r.at, want) {
		t.Fatalf("ran at %v, want %v", r.at, want)
	}
}

func TestLoopRunsAtOnceAndThenByItsTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &ran{start: time.Now()}
		l := loop.Start(t.Context(), loop.Options{Every: time.Second}, r.step)
		time.Sleep(2500 * time.Millisecond)
		r.want(t, 0, time.Second, 2*time.Second)
		stop(t, l)
		time.Sleep(time.Minute)
		r.want(t, 0, time.Second, 2*time.Second)
	})
}

func TestWakeRunsTheStepSoonAndIsNotLostDuringOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &ran{start: time.Now()}
		l := loop.Start(t.Context(), loop.Options{}, func(ctx context.Context) error {
			_ = r.step(ctx)
			time.Sleep(time.Second)
			return nil
		})
		time.Sleep(500 * time.Millisecond)
		for range 10 {
			l.Wake() // all of them during the first step: one more
		}
		time.Sleep(9500 * time.Millisecond)
		l.Wake()
		time.Sleep(10 * time.Second)
		r.want(t, 0, time.Second, 10*time.Second)
		stop(t, l)
	})
}

func TestErrorsBackOffDoublingAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, broken, inARow := &ran{start: time.Now()}, true, 0
		l := loop.Start(t.Context(), loop.Options{
			Every: time.Hour, Backoff: time.Second, BackoffMax: 5 * time.Second,
			Failed: func(_ error, n int) { inARow = n },
		}, func(ctx context.Context) error {
			_ = r.step(ctx)
			if broken {
				return errors.New("broken")
			}
			return nil
		})
		time.Sleep(13 * time.Second)
		r.want(t, 0, 1*time.Second, 3*time.Second, 7*time.Second, 12*time.Second)
		if inARow != 5 {
			t.Fatalf("%d errors in a row, want 5", inARow)
		}
		broken = false
		l.Wake() // does not wait for the back-off
		time.Sleep(time.Hour + time.Second)
		r.want(t, 0, 1*time.Second, 3*time.Second, 7*time.Second, 12*time.Second, 13*time.Second, time.Hour+13*time.Second)
		stop(t, l)
	})
}

func TestBackOffStaysBoundedForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := 0
		l := loop.Start(t.Context(), loop.Options{}, func(context.Context) error {
			steps++
			return errors.New("broken")
		})
		time.Sleep(time.Hour)
		synctest.Wait()
		if steps < 120 || steps > 140 {
			t.Fatalf("%d tries in an hour, want one each 30 s", steps)
		}
		stop(t, l)
	})
}

func TestJitterShortensAPauseByItsShareAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &ran{start: time.Now()}
		l := loop.Start(t.Context(), loop.Options{Every: 10 * time.Second, Jitter: 0.5}, r.step)
		time.Sleep(time.Hour)
		synctest.Wait()
		stop(t, l)
		shortest, longest := time.Hour, time.Duration(0)
		for i := 1; i < len(r.at); i++ {
			shortest, longest = min(shortest, r.at[i]-r.at[i-1]), max(longest, r.at[i]-r.at[i-1])
		}
		if shortest < 5*time.Second || longest > 10*time.Second || longest-shortest < 3*time.Second {
			t.Fatalf("%d pauses from %s to %s", len(r.at)-1, shortest, longest)
		}
	})
}

func TestStopCancelsTheStepAndWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var over atomic.Bool
		l := loop.Start(t.Context(), loop.Options{Every: time.Second}, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(3 * time.Second) // tidies up
			over.Store(true)
			return ctx.Err()
		})
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Stop(short); !errors.Is(err, context.DeadlineExceeded) || over.Load() {
			t.Fatalf("stopped with %v before the step was over", err)
		}
		stop(t, l)
		if !over.Load() {
			t.Fatal("Stop did not wait")
		}
		stop(t, l) // again
		l.Wake()   // and harmless after it
	})
}

func TestContextEndsALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		l := loop.Start(ctx, loop.Options{Every: time.Second}, func(context.Context) error { return nil })
		synctest.Wait()
		cancel()
		<-l.Done()
	})
}

func TestSignalTellsATestThatAStepIsOver(t *testing.T) {
	stepped, broken := loop.NewSignal[error](), errors.New("broken")
	l := loop.Start(t.Context(), loop.Options{Every: time.Hour, Stepped: stepped, BackoffMax: time.Hour, Backoff: time.Hour},
		func(context.Context) error { return broken })
	for range 3 {
		if err, waited := stepped.Wait(t.Context()); !errors.Is(err, broken) || waited != nil {
			t.Fatalf("signal %v, %v", err, waited)
		}
		l.Wake()
	}
	stop(t, l)
}

func TestPanicOfAStepEndsTheProcess(t *testing.T) {
	if os.Getenv("LOOP_TEST_PANIC") != "" {
		l := loop.Start(t.Context(), loop.Options{}, func(context.Context) error { panic("a step gone wrong") })
		<-l.Done()
		<-t.Context().Done()
		return
	}
	again := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	again.Env = append(os.Environ(), "LOOP_TEST_PANIC=1")
	out, err := again.CombinedOutput()
	if err == nil || !bytes.Contains(out, []byte("a step gone wrong")) {
		t.Fatalf("the process went on: %v\n%s", err, out)
	}
}

func stop(t *testing.T, l *loop.Loop) {
	t.Helper()
	if err := l.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestTheFirstStepWaitsForItsTimeOrAWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var steps []time.Duration
		l := loop.Start(t.Context(), loop.Options{First: time.Minute, Every: time.Hour}, func(context.Context) error {
			steps = append(steps, time.Since(start))
			return nil
		})
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if len(steps) != 1 || steps[0] != time.Minute {
			t.Errorf("steps at %v", steps)
		}
		if err := l.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
