package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store/loop"
)

const (
	keySpace = "ana-cache"
	keyLasts = 5 * time.Second // so that the server is restarted meanwhile
)

// demoKey is a key with a time to live, and what opens its namespace.
type demoKey struct {
	secret string
	name   string
	value  string // as redis-cli prints it
	end    mayfly.Instant
}

// redisClient is a plain connection of the Redis protocol: a command is a line.
type redisClient struct {
	net.Conn
	in *bufio.Reader
}

// dialRedis connects to the namespace of the demo.
func (h *host) dialRedis(ctx context.Context, secret string) (*redisClient, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", h.kv())
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	c := &redisClient{conn, bufio.NewReader(conn)}
	answer, err := c.do("AUTH " + keySpace + " " + secret)
	if err == nil && answer != "OK" {
		err = fmt.Errorf("AUTH %s: %s", keySpace, answer)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// do sends a command and returns the answer as redis-cli prints it. No answer is an error
// of kind Unavailable.
func (c *redisClient) do(command string) (string, error) {
	err := c.SetDeadline(time.Now().Add(10 * time.Second))
	if err == nil {
		_, err = fmt.Fprintf(c, "%s\r\n", command)
	}
	var line string
	if err == nil {
		line, err = c.in.ReadString('\n')
	}
	if err != nil {
		return "", mayfly.Wrap(mayfly.Unavailable, err, "")
	}
	kind, text := line[0], strings.TrimSpace(line[1:])
	switch {
	case kind == '+':
		return text, nil
	case kind == '-':
		return "(error) " + text, nil
	case kind == ':':
		return "(integer) " + text, nil
	case kind == '$' && text == "-1":
		return "(nil)", nil
	case kind == '$':
		length, err := strconv.ParseUint(text, 10, 16)
		value := make([]byte, length+2)
		if err == nil {
			_, err = io.ReadFull(c.in, value)
		}
		return strconv.Quote(string(value[:length])), err
	}
	return "", fmt.Errorf("%s: the answer begins with %.20q", command, line)
}

// createKey has ana make a namespace and a key in it, with a plain client of Redis.
func (d *demo) createKey(ctx context.Context) (*demoKey, error) {
	made, err := d.people.ana.act.CreateKVNamespace(ctx, wire.NewKVNamespace{Name: keySpace})
	if err != nil {
		return nil, fmt.Errorf("make the namespace %s: %w", keySpace, err)
	}
	k := &demoKey{secret: made.Credentials[0].Key, name: "visits", value: `"42"`}
	c, err := d.host.dialRedis(ctx, k.secret)
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(d.host.kv())
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	d.sayOfKey("ana makes the namespace %s and gets a key of it; with REDISCLI_AUTH=%.8s… redis-cli -p %s --user %s", keySpace, k.secret, port, keySpace)
	return k, errors.Join(d.useKey(c, k), c.Close())
}

// useKey sets, changes and deletes keys. Each answer must be the one that Redis gives.
func (d *demo) useKey(c *redisClient, k *demoKey) error {
	set := fmt.Sprintf("SET %s 41 PX %d", k.name, keyLasts.Milliseconds())
	sent := d.host.now()
	if err := d.wantAnswer(c, set, "OK"); err != nil {
		return err
	}
	from, to := sent.Add(keyLasts), d.host.now().Add(keyLasts)
	if err := d.wantAnswer(c, "INCR "+k.name, "(integer) 42"); err != nil {
		return err
	}
	end, err := d.wantNumber(c, "PEXPIRETIME "+k.name, int64(from), int64(to))
	if err != nil {
		return err
	}
	k.end = mayfly.Instant(end)
	if _, err := d.wantNumber(c, "PTTL "+k.name, 1, k.end.Sub(sent).Milliseconds()); err != nil {
		return err
	}
	for _, step := range [][2]string{{"SET draft hello", "OK"}, {"DEL draft", "(integer) 1"}, {"GET draft", "(nil)"}} {
		if err := d.wantAnswer(c, step[0], step[1]); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) wantAnswer(c *redisClient, command, want string) error {
	got, err := c.do(command)
	if err == nil && got != want {
		err = fmt.Errorf("got %s, want %s", got, want)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	d.sayOfKey("%-24s prints %s", command, got)
	return nil
}

// wantNumber returns the answer to a command, which must be a number of a range.
func (d *demo) wantNumber(c *redisClient, command string, from, to int64) (int64, error) {
	got, err := c.do(command)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", command, err)
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(got, "(integer) "), 10, 64)
	if err != nil || n < from || n > to {
		return 0, fmt.Errorf("%s: got %s, want %d to %d", command, got, from, to)
	}
	d.sayOfKey("%-24s prints %s", command, got)
	return n, nil
}

// seeKey asks for a key until after its expiry, over a restart of the server. Each
// question is a connection of its own, as one call of redis-cli is.
func (d *demo) seeKey(ctx context.Context, k *demoKey) error {
	w := &window{end: k.end}
	ana := onlooker{person: d.people.ana, permitted: true}
	for left := w.end.Sub(d.host.now()); left > -lookAfter; left = w.end.Sub(d.host.now()) {
		e, err := d.ask(func() error { return d.getKey(ctx, k) })
		if err != nil {
			return fmt.Errorf("GET %s: %w", k.name, err)
		}
		w.note(e)
		d.judge(w, ana, "key "+k.name, e)
		if err := loop.Rest(ctx, pauseBefore(w.end.Sub(d.host.now()))); err != nil {
			return err
		}
	}
	d.sayOfKey("%-24s prints %s for a request at %s, (nil) first at %s", "GET "+k.name, k.value, offset(w.lastServed.Load(), w.end), offset(w.firstRefused.Load(), w.end))
	d.sayOfKey("try it with your own redis-cli: mayfly serve --set listen.kv=127.0.0.1:6380 prints the commands")
	return nil
}

// getKey reads a key and compares its value. The error is NotFound if there is none.
func (d *demo) getKey(ctx context.Context, k *demoKey) error {
	c, err := d.host.dialRedis(ctx, k.secret)
	if err != nil {
		return err
	}
	got, err := c.do("GET " + k.name)
	switch err := errors.Join(err, c.Close()); {
	case err != nil:
		return err
	case got == "(nil)":
		return mayfly.NotFound
	case strings.HasPrefix(got, "(error) "):
		return errors.New(got)
	case got != k.value:
		d.count.Add(verify.Lost, "GET %s printed %s instead of %s", k.name, got, k.value)
	}
	return nil
}

func (d *demo) sayOfKey(format string, args ...any) {
	d.say("%5.1f s  key: %s", time.Since(d.began).Seconds(), fmt.Sprintf(format, args...))
}
