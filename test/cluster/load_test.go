//go:build servers

package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
)

// load is people who publish and read all the while, at random nodes.
type load struct {
	*testCluster
	o      loadOptions
	people sync.WaitGroup
	ending chan struct{}
	once   sync.Once
}

type loadOptions struct {
	seed      uint64
	writers   int
	readers   int
	lifetimes []string      // of the stories
	pause     time.Duration // of a writer after each story, and of a reader after ten; longer where answers are slow
	patience  time.Duration // how long one story is tried; default 20 s
	nodes     []*process    // that are asked; all of the cluster if none
	otherNode bool          // readers ask the other nodes too before they take a failure for an answer
}

// unhurried leaves room for the tests beside this one.
var unhurried = pick(40*time.Millisecond, 15*time.Millisecond)

// begin lets them work until finish.
func (w *testCluster) begin(o loadOptions) *load {
	if o.patience == 0 {
		o.patience = 20 * time.Second
	}
	if o.nodes == nil {
		o.nodes = w.nodes
	}
	l := &load{testCluster: w, o: o, ending: make(chan struct{})}
	for n := range o.writers {
		l.people.Go(func() { l.work(n, l.write) })
	}
	for n := range o.readers {
		l.people.Go(func() { l.work(1000+n, l.read) })
	}
	w.Cleanup(l.finish)
	return l
}

// finish lets everybody finish what they are at.
func (l *load) finish() {
	l.once.Do(func() { close(l.ending) })
	l.people.Wait()
}

// hand is one of them.
type hand struct {
	number, count int
	*rand.Rand
	at []*person // the same user at each node
}

func (l *load) work(number int, do func(*hand)) {
	h := &hand{number: number, Rand: rand.New(rand.NewPCG(l.o.seed, uint64(number)))}
	for _, node := range l.o.nodes {
		h.at = append(h.at, l.person(node, fmt.Sprintf("user-%d", number)))
	}
	for {
		select {
		case <-l.ending:
			return
		default:
			do(h)
		}
	}
}

// write publishes one story, with one key however often it takes and wherever. A
// key that has outlived its story is answered 410, and by its hint the story is
// published once more, with a new key.
func (l *load) write(h *hand) {
	h.count++
	key := fmt.Sprintf("%s-%d-%d-%d", l.name, l.o.seed, h.number, h.count)
	lifetime := l.o.lifetimes[h.IntN(len(l.o.lifetimes))]
	what := publication(key, "everyone", lifetime)
	for began, again := time.Now(), 0; ; {
		p := h.at[h.IntN(len(h.at))]
		s, err := p.Publish(context.Background(), what)
		if err == nil {
			l.record.born(s, p.name)
			l.rest(began)
			return
		}
		l.record.failedTry(err)
		over := errors.Is(err, mayfly.Gone)
		if !over && (!errors.Is(err, mayfly.Unavailable) && !errors.Is(err, mayfly.Unknown) || time.Since(began) > l.o.patience) {
			l.record.mu.Lock()
			l.record.givenUp++
			l.record.mu.Unlock()
			return
		}
		if over {
			began, again = time.Now(), again+1
			what = publication(fmt.Sprintf("%s-%d", key, again), "everyone", lifetime)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// read reads one of the younger stories, as its author or as another user.
func (l *load) read(h *hand) {
	n := l.record.some(400, h.IntN)
	if n == nil {
		time.Sleep(10 * time.Millisecond)
		return
	}
	first, author := h.IntN(len(h.at)), h.IntN(3) == 0
	for try := 0; ; try++ {
		node := (first + try) % len(h.at)
		p := h.at[node]
		if author {
			p = l.person(l.o.nodes[node], n.author)
		}
		asked := time.Now()
		s, err := p.Story(context.Background(), n.id)
		if l.o.otherNode && errors.Is(err, mayfly.Unavailable) && try+1 < len(h.at) {
			continue
		}
		l.record.read(n, author, asked, s, err)
		if h.count++; h.count%10 == 0 || err != nil {
			l.rest(asked)
		}
		return
	}
}

// rest pauses for three times as long as the answer took, between the pause of the load
// and a second: a slow machine is asked less, and not driven into time-outs.
func (l *load) rest(asked time.Time) {
	time.Sleep(min(max(l.o.pause, 3*time.Since(asked)), max(l.o.pause, time.Second)))
}

// goOn waits until so many more stories were published, and reads answered.
func (l *load) goOn(acks, reads int, within time.Duration) {
	l.Helper()
	a, r := l.record.figures()
	eventually(l, within, fmt.Sprintf("%d more stories and %d more reads", acks, reads), func() bool {
		acksNow, readsNow := l.record.figures()
		return acksNow-a >= acks && readsNow-r >= reads
	})
}
