package resp

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/kv"
)

// expiredChannel is the only channel: the keys that have just expired.
const expiredChannel = "__keyevent@0__:expired"

// subscription sends expired keys to a client.
type subscription struct {
	mu     *sync.Mutex
	three  bool // the protocol of the messages
	cancel context.CancelFunc
	done   chan struct{}
}

func (s *subscription) on() bool { return s.cancel != nil }

func (s *subscription) setProtocol(three bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.three = three
}

func subscribe(c *conn, w *Reply, args [][]byte) {
	for _, channel := range args[1:] {
		switch {
		case string(channel) != expiredChannel:
			w.Error("ERR the only channel is " + expiredChannel)
			continue
		case !c.space.Settings().Events:
			w.Error("ERR the namespace has no events; make one with events")
			continue
		}
		w.Push(3)
		w.Text("subscribe")
		w.Bulk(channel)
		w.Int(1)
		if !c.subscribed.on() {
			c.follow()
		}
	}
}

func unsubscribe(c *conn, w *Reply, args [][]byte) {
	channels := args[1:]
	if len(channels) == 0 {
		channels = [][]byte{nil}
		if c.subscribed.on() {
			channels[0] = []byte(expiredChannel)
		}
	}
	for _, channel := range channels {
		if string(channel) == expiredChannel {
			c.unsubscribe()
		}
		w.Push(3)
		w.Text("unsubscribe")
		if channel == nil {
			w.Null()
		} else {
			w.Bulk(channel)
		}
		w.Bool(c.subscribed.on())
	}
}

// follow starts to send the keys that expire from now on.
func (c *conn) follow() {
	ctx, cancel := context.WithCancel(c.ctx)
	s := &c.subscribed
	s.cancel, s.done = cancel, make(chan struct{})
	s.setProtocol(c.reply.three)
	after := kv.AllUntil(c.at.Steady)
	space, check, done := c.space, c.check, s.done
	c.flush() // the answer comes before the first message
	go func() {
		defer close(done)
		good := func(ctx context.Context) error {
			err := check(ctx, c.s.o.Read().Now)
			if err != nil && ctx.Err() == nil {
				_ = c.nc.Close() // what opened the namespace is not good any more
			}
			return err
		}
		err := space.Follow(ctx, c.s.o.Read, after, good, func(due []kv.Expired) error {
			if !c.out.send(s.messages(due), 0) {
				return net.ErrClosed
			}
			return nil
		})
		if errors.Is(err, mayfly.Limited) { // it did not end with the subscription, and messages are lost
			_ = c.nc.Close()
		}
	}()
}

// messages returns the messages about expired keys.
func (s *subscription) messages(due []kv.Expired) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := Reply{three: s.three}
	for _, d := range due {
		w.Push(3)
		w.Text("message")
		w.Text(expiredChannel)
		w.Text(d.Key)
	}
	return w.buf
}

// unsubscribe ends the subscription, if there is one.
func (c *conn) unsubscribe() {
	if s := &c.subscribed; s.on() {
		s.cancel()
		<-s.done
		s.cancel = nil
	}
}
