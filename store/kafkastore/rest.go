package kafkastore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/loop"
)

// restFor is how long nobody asks brokers that have just not answered.
const restFor = time.Second

// rest keeps calls from waiting one after the other for brokers that do not
// answer: the first that waited in vain speaks for those behind it, until one has
// tried again and was answered. Nothing in the engine waits for the log (L8).
type rest struct {
	elapsed func() time.Duration

	mu     sync.Mutex
	away   bool
	until  time.Duration
	trying bool
}

func newRest() *rest { return &rest{elapsed: loop.Stopwatch()} }

// ask says whether a call may go on; if not, nothing of it was sent.
func (r *rest) ask() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.away && (r.trying || r.elapsed() < r.until) {
		return mayfly.Errorf(mayfly.Unavailable, "kafka: the brokers did not answer a moment ago")
	}
	r.trying = r.away
	return nil
}

// tell says how a call ended. One whose caller went away says nothing about the
// brokers.
func (r *rest) tell(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.trying = false
	if errors.Is(err, context.Canceled) {
		return
	}
	if r.away = err != nil && !errors.Is(err, mayfly.Invalid); r.away {
		r.until = r.elapsed() + restFor
	}
}
