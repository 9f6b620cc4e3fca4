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

// oldest is the first version of Redis that has sharded channels.
const oldest = 7

// Check does on the servers all that a node does and says what is wrong, for an
// operator who asks before he starts one. It counts and beats under names of its
// own, on the servers that have those of the nodes, so that no node notices; they
// are gone when it returns, or soon afterwards. Errors: those of Open, Unsupported,
// Unavailable.
func Check(ctx context.Context, o Options) (err error) {
	o, err = o.complete()
	if err != nil {
		return err
	}
	d, err := openDoor(o)
	if err != nil {
		return err
	}
	defer func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), closing)
		defer cancel()
		err = errors.Join(err, d.close(ending))
	}()
	if err := d.checkVersions(ctx); err != nil {
		return err
	}
	if err := newLimits(d, o).check(ctx); err != nil {
		return err
	}
	return checkSignals(ctx, d, o)
}

func (d *door) checkVersions(ctx context.Context) error {
	c := d.opened()
	if c == nil {
		return unavailable("connect", d.why())
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
		return mayfly.Errorf(mayfly.Unsupported, "the server does not say its version")
	}
	if n < oldest {
		return mayfly.Errorf(mayfly.Unsupported, "the server is Redis %d", n).WithHint(fmt.Sprintf("Redis %d or newer is needed", oldest))
	}
	return nil
}

// check takes from a bucket of its own under each tag, which is on each server that
// counts.
func (l *Limits) check(ctx context.Context) error {
	key, rate := "check:"+rand.Text(), store.Rate{Count: 1, Per: time.Second}
	// A script that a server knows from others would not need EVAL, until it restarts.
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

// checkSignals is a node that is alone on a roll of its own, beside the real one.
func checkSignals(ctx context.Context, d *door, o Options) error {
	s := newSignals(d, o, rollOf(o.Prefix)+":check:"+rand.Text())
	tried := s.tryAll(ctx)
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Lease)
	defer cancel()
	err := errors.Join(s.stop(ending), s.leave(ending))
	if _, kept := d.run(ending, s.scripts.forget, s.roll, rand.Text()); err == nil {
		err = kept
	}
	if tried != nil {
		err = tried // the rest may have failed for it
	}
	if err != nil {
		return unavailable("check signals", err)
	}
	return nil
}

// tryAll does what a node does from its start to its end, but for leaving.
func (s *Signals) tryAll(ctx context.Context) error {
	heard := make(chan store.Signal, 1)
	sub, err := s.Subscribe(ctx, func(signal store.Signal) { heard <- signal })
	if err != nil {
		return err
	}
	defer sub.Close()
	for _, script := range []*rueidis.Lua{s.scripts.pay, s.scripts.lapse} {
		if _, err := s.door.run(ctx, script, s.roll, rand.Text()); err != nil {
			return err
		}
	}
	if err := s.sendBeat(ctx); err != nil {
		return err
	}
	if err := s.awaitLease(ctx); err != nil {
		return err
	}
	if _, err := s.tell(ctx, store.Signal{Topic: store.RowChanged}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.o.Lease)
	defer cancel()
	select {
	case <-heard:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("a signal is told, and does not come back: %w", ctx.Err())
	}
}

// awaitLease waits until beats come back, for as long as a lease may be lost and
// come again.
func (s *Signals) awaitLease(ctx context.Context) error {
	for end := s.now() + 3*s.o.Lease; s.now() < end; {
		if _, held := s.hearing.lease(s.now()); held {
			return nil
		}
		if err := s.whyDeaf(); refused(err) {
			return err
		}
		if err := loop.Rest(ctx, s.o.Lease/20); err != nil {
			return err
		}
	}
	return errors.Join(errors.New("beats are taken, and none comes back"), s.whyDeaf())
}

func (s *Signals) whyDeaf() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.deaf
}
