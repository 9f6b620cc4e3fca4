package resp_test

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/mayflyhq/mayfly/product/kv"
)

// The same script by the clients that people use: values with a time to live, several
// at once, numbers, conditions, a transaction that fails because another client was
// first, a scan, an error, and the event of an expired key. Each also sends what it
// sends on its own when it connects.

// clientEnv is a server with events, by the real clock.
func clientEnv(t *testing.T) *env {
	t.Helper()
	e := serve(t, change{settings: func(s *kv.Settings) { s.Events = true }})
	e.realTime.Store(true)
	return e
}

// step compares what a command of the script has answered.
func wantStep[T comparable](t *testing.T, what string, want, got T, err error) {
	t.Helper()
	if err != nil || got != want {
		t.Errorf("%s: %v, %v; want %v", what, got, err, want)
	}
}

func TestGoRedisWorks(t *testing.T) {
	for _, protocol := range []int{2, 3} {
		e := clientEnv(t)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		c := redis.NewClient(&redis.Options{Addr: e.address, Username: "cache", Password: e.key.Reveal(), Protocol: protocol})
		defer func() { e.Must(c.Close()) }()

		events := c.Subscribe(ctx, "__keyevent@0__:expired")
		defer func() { e.Must(events.Close()) }()
		_, err := events.Receive(ctx)
		e.Must(err)
		text, err := c.Set(ctx, "greeting", "hello", time.Minute).Result()
		wantStep(t, "SET", "OK", text, err)
		text, err = c.Get(ctx, "greeting").Result()
		wantStep(t, "GET", "hello", text, err)
		ttl, err := c.TTL(ctx, "greeting").Result()
		wantStep(t, "TTL", time.Minute, ttl.Round(time.Minute), err)
		if _, err := c.Get(ctx, "absent").Result(); !errors.Is(err, redis.Nil) {
			t.Errorf("GET of an absent key: %v", err)
		}
		n, err := c.IncrBy(ctx, "n", 7).Result()
		wantStep(t, "INCRBY", 7, n, err)
		added, err := c.SetNX(ctx, "n", 1, 0).Result()
		wantStep(t, "SETNX", false, added, err)
		many, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.MSet(ctx, "a", "1", "b", "2")
			p.MGet(ctx, "a", "b")
			return nil
		})
		e.Must(err)
		wantStep(t, "MGET", "[1 2]", strings.TrimPrefix(many[1].String(), "mget a b: "), nil)
		err = c.Watch(ctx, func(tx *redis.Tx) error {
			if err := c.Set(ctx, "n", 100, 0).Err(); err != nil {
				return err
			}
			_, err := tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Incr(ctx, "n").Err() })
			return err
		}, "n")
		if !errors.Is(err, redis.TxFailedErr) {
			t.Errorf("EXEC after a change by another: %v", err)
		}
		var keys []string
		for scan := c.Scan(ctx, 0, "*", 2).Iterator(); scan.Next(ctx); {
			keys = append(keys, scan.Val())
		}
		slices.Sort(keys)
		wantStep(t, "SCAN", "a b greeting n", strings.Join(keys, " "), nil)
		if err := c.HSet(ctx, "h", "f", "v").Err(); err == nil || !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("HSET: %v", err)
		}
		e.Must(c.Set(ctx, "short", "v", 50*time.Millisecond).Err())
		message, err := events.ReceiveMessage(ctx)
		e.Must(err)
		wantStep(t, "event", "short", message.Payload, nil)
	}
}

func TestRueidisWorks(t *testing.T) {
	e := clientEnv(t)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	open := func() rueidis.Client {
		// Its cache needs CLIENT TRACKING, which this server does not have.
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{e.address}, Username: "cache", Password: e.key.Reveal(), DisableCache: true, ForceSingleClient: true})
		e.Must(err)
		t.Cleanup(c.Close)
		return c
	}
	c, other := open(), open()

	expired, subscribed := make(chan string, 1), make(chan error, 1)
	go func() {
		subscribed <- other.Receive(ctx, other.B().Subscribe().Channel("__keyevent@0__:expired").Build(), func(m rueidis.PubSubMessage) { expired <- m.Message })
	}()
	text, err := c.Do(ctx, c.B().Set().Key("greeting").Value("hello").ExSeconds(60).Build()).ToString()
	wantStep(t, "SET", "OK", text, err)
	text, err = c.Do(ctx, c.B().Get().Key("greeting").Build()).ToString()
	wantStep(t, "GET", "hello", text, err)
	ttl, err := c.Do(ctx, c.B().Ttl().Key("greeting").Build()).AsInt64()
	wantStep(t, "TTL", 60, ttl, err)
	if _, err := c.Do(ctx, c.B().Get().Key("absent").Build()).ToString(); !rueidis.IsRedisNil(err) {
		t.Errorf("GET of an absent key: %v", err)
	}
	n, err := c.Do(ctx, c.B().Incrby().Key("n").Increment(7).Build()).AsInt64()
	wantStep(t, "INCRBY", 7, n, err)
	added, err := c.Do(ctx, c.B().Setnx().Key("n").Value("1").Build()).AsBool()
	wantStep(t, "SETNX", false, added, err)
	many := c.DoMulti(ctx, c.B().Mset().KeyValue().KeyValue("a", "1").KeyValue("b", "2").Build(), c.B().Mget().Key("a", "b").Build())
	values, err := many[1].AsStrSlice()
	wantStep(t, "MGET", "1 2", strings.Join(values, " "), errors.Join(many[0].Error(), err))
	e.Must(c.Dedicated(func(d rueidis.DedicatedClient) error {
		if err := d.Do(ctx, d.B().Watch().Key("n").Build()).Error(); err != nil {
			return err
		}
		if err := c.Do(ctx, c.B().Set().Key("n").Value("100").Build()).Error(); err != nil {
			return err
		}
		answers := d.DoMulti(ctx, d.B().Multi().Build(), d.B().Incr().Key("n").Build(), d.B().Exec().Build())
		if err := answers[2].Error(); !rueidis.IsRedisNil(err) {
			t.Errorf("EXEC after a change by another: %v", err)
		}
		return nil
	}))
	var keys []string
	for cursor := uint64(0); ; {
		page, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Match("*").Count(2).Build()).AsScanEntry()
		e.Must(err)
		keys = append(keys, page.Elements...)
		if cursor = page.Cursor; cursor == 0 {
			break
		}
	}
	slices.Sort(keys)
	wantStep(t, "SCAN", "a b greeting n", strings.Join(keys, " "), nil)
	if err := c.Do(ctx, c.B().Hset().Key("h").FieldValue().FieldValue("f", "v").Build()).Error(); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("HSET: %v", err)
	}
	e.Must(c.Do(ctx, c.B().Set().Key("short").Value("v").PxMilliseconds(300).Build()).Error())
	select {
	case key := <-expired:
		wantStep(t, "event", "short", key, nil)
	case err := <-subscribed:
		t.Errorf("the subscription has ended: %v", err)
	case <-ctx.Done():
		t.Error("no event of an expired key")
	}
}

func TestRedisPyWorks(t *testing.T) {
	found, err := exec.Command("../../scripts/schemathesis", "--built").Output()
	if err != nil {
		t.Skip("redis-py is not there: run scripts/setup-test")
	}
	python := strings.TrimSuffix(strings.TrimSpace(string(found)), "schemathesis") + "python"
	for _, protocol := range []string{"2", "3"} {
		e := clientEnv(t)
		host, port, err := net.SplitHostPort(e.address)
		e.Must(err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, python, "testdata/client.py", host, port, protocol)
		cmd.Env = append(cmd.Environ(), "KEY="+e.key.Reveal())
		out, err := cmd.CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != "done" {
			t.Errorf("protocol %s: %v\n%s", protocol, err, out)
		}
	}
}
