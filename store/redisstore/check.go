package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// oldest is the first major version of Redis with sharded channels.
const oldest = 7

// Check runs every operation that a node needs against the servers and reports
// what fails, so that an operator can test them before starting a node. It uses
// temporary keys with the hash tags of the real ones: they are on the same servers
// and no node sees them. They are deleted, or expire soon. Errors: those of Open,
// Unsupported, Unavailable.
func Check(ctx context.Context, o Options) (err error) {
	o, err = o.complete()
	if err != nil {
		return err
	}
	cn, err := openConnection(o)
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		err = errors.Join(err, cn.close(ending))
	}()
	if err := cn.checkVersions(ctx); err != nil {
		return err
	}
	if err := newLimits(cn, o).check(ctx); err != nil {
		return err
	}
	return checkSignals(ctx, cn, o)
}

func (cn *connection) checkVersions(ctx context.Context) error {
	c := cn.current()
	if c == nil {
		return unavailable("connect", cn.notConnected())
	}
	for address, client := range c.commands.Nodes() {
		info, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
		if err != nil {
			return unavailable("ask "+address+" for its version", err)
		}
		if err := checkVersion(info); err != nil {
			return fmt.Errorf("redis: %s: %w", address, err)
		}
	}
	return nil
}

func checkVersion(info string) error {
	_, after, _ := strings.Cut(info, "redis_version:")
	major, _, _ := strings.Cut(after, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return mayfly.Errorf(mayfly.Unsupported, "the server does not report its version")
	}
	if n < oldest {
		return mayfly.Errorf(mayfly.Unsupported, "the server is Redis %d", n).WithHint(fmt.Sprintf("Redis %d or newer is needed", oldest))
	}
	return nil
}

// check takes from a temporary bucket under each hash tag: together they are on
// every server that holds buckets.
func (l *Limits) check(ctx context.Context) error {
	key, rate := "check:"+rand.Text(), store.Rate{Count: 1, Per: time.Second}
	// A server that has cached the script would not need EVAL until it restarts: try both.
	whole := rueidis.NewLuaScriptNoSha(limitsLua)
	for tag := range limitTags {
		for _, script := range []*rueidis.Lua{whole, l.script} {
			if _, err := l.take(ctx, script, l.bucketKey(tag, key), rate, 1); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSignals acts as the only node on a temporary member list.
func checkSignals(ctx context.Context, cn *connection, o Options) error {
	s := newSignals(cn, o, membersKey(o.Prefix)+":check:"+rand.Text())
	tried := s.tryAll(ctx)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Lease)
	defer cancel()
	err := errors.Join(s.stop(ending), s.leave(ending))
	if _, kept := cn.run(ending, s.scripts.forget, s.members, rand.Text()); err == nil {
		err = kept
	}
	if tried != nil {
		err = tried // it may have caused the other errors
	}
	if err != nil {
		return unavailable("check signals", err)
	}
	return nil
}

// tryAll runs every operation of a node from its start to its end, except leave.
func (s *Signals) tryAll(ctx context.Context) error {
	received := make(chan store.Signal, 1)
	sub, err := s.Subscribe(ctx, func(signal store.Signal) { received <- signal })
	if err != nil {
		return err
	}
	defer sub.Close()
	for _, script := range []*rueidis.Lua{s.scripts.reset, s.scripts.lapse} {
		if _, err := s.connection.run(ctx, script, s.members, rand.Text()); err != nil {
			return err
		}
	}
	if err := s.sendBeat(ctx); err != nil {
		return err
	}
	if err := s.awaitLease(ctx); err != nil {
		return err
	}
	if _, err := s.send(ctx, store.Signal{Topic: store.RowChanged}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Lease)
	defer cancel()
	select {
	case <-received:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a signal was published but not received: %w", ctx.Err())
	}
}

// awaitLease waits until the node holds a lease, long enough for one to be lost
// and granted again.
func (s *Signals) awaitLease(ctx context.Context) error {
	for end := s.now() + 3*s.o.Lease; s.now() < end; {
		if _, held := s.tracker.lease(s.now()); held {
			return nil
		}
		if err := s.listenError(); refused(err) {
			return err
		}
		if err := loop.Rest(ctx, s.o.Lease/20); err != nil {
			return err
		}
	}
	return errors.Join(errors.New("heartbeats are accepted but none is received"), s.listenError())
}

func (s *Signals) listenError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listenErr
}
