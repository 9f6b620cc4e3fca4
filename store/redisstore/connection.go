package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/loop"
)

// errNotConnected reports that no server has answered since Open.
var errNotConnected = errors.New("no server has answered yet")

// connection holds two clients of the same servers: one for commands and one with
// a single connection that only listens, so that a slow listener delays no
// command. While Redis is unreachable, connection keeps trying in the background.
type connection struct {
	o         Options
	reconnect *loop.Loop
	mu        sync.Mutex
	clients   *clients // nil until a server has answered
	failed    error    // why none has, the last time
	closed    bool
}

type clients struct{ commands, listener rueidis.Client }

func (c *clients) close() {
	c.commands.Close()
	c.listener.Close()
}

// openConnection connects to Redis. It fails only if the options are invalid or
// the server refuses the client; an unreachable server is tried again later.
func openConnection(o Options) (*connection, error) {
	cn := &connection{o: o}
	if _, err := o.client(); err != nil {
		return nil, err
	}
	err := cn.connect(context.Background())
	if refused(err) {
		return nil, unavailable("connect", err)
	}
	if err != nil {
		o.Logger.Warn("redis unreachable, caches disabled and limits local", "addresses", o.Addresses, "error", err)
	}
	cn.reconnect = loop.Start(context.Background(), loop.Options{
		Name: "redis connect", First: 200 * time.Millisecond, Backoff: 200 * time.Millisecond, BackoffMax: 2 * time.Second, Jitter: 0.2,
		Failed: func(err error, inARow int) {
			if inARow == 1 || refused(err) {
				o.Logger.Warn("redis still unreachable", "addresses", o.Addresses, "error", err)
			}
		},
	}, cn.connect)
	return cn, nil
}

func (cn *connection) connect(context.Context) error {
	if cn.current() != nil {
		return nil
	}
	made, err := cn.dial()
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.failed = err; err != nil {
		return err
	}
	if cn.closed {
		made.close()
		return nil
	}
	cn.clients = made
	return nil
}

func (cn *connection) dial() (*clients, error) {
	o, err := cn.o.client()
	if err != nil {
		return nil, err
	}
	commands, err := rueidis.NewClient(o)
	if err != nil {
		return nil, err
	}
	o.PipelineMultiplex = -1 // one connection
	listener, err := rueidis.NewClient(o)
	if err != nil {
		commands.Close()
		return nil, err
	}
	return &clients{commands: commands, listener: listener}, nil
}

func (cn *connection) current() *clients {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	return cn.clients
}

// notConnected returns errNotConnected with the cause of the last failure.
func (cn *connection) notConnected() error {
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.failed == nil {
		return errNotConnected
	}
	return fmt.Errorf("%w: %w", errNotConnected, cn.failed)
}

// run executes a script on the server that owns key.
func (cn *connection) run(ctx context.Context, script *rueidis.Lua, key string, args ...string) (rueidis.RedisResult, error) {
	c := cn.current()
	if c == nil {
		return rueidis.RedisResult{}, errNotConnected
	}
	answer := script.Exec(ctx, c.commands, []string{key}, args)
	return answer, answer.Error()
}

// publish sends one message to each channel.
func (cn *connection) publish(ctx context.Context, messages map[string]string) error {
	c := cn.current()
	if c == nil {
		return errNotConnected
	}
	var commands []rueidis.Completed
	for channel, message := range messages {
		commands = append(commands, c.commands.B().Spublish().Channel(channel).Message(message).Build())
	}
	var failed error
	for _, answer := range c.commands.DoMulti(ctx, commands...) {
		failed = errors.Join(failed, answer.Error())
	}
	return failed
}

// listen passes every message on the channels to handle until the connection
// breaks. The channels must share one hash tag: then messages arrive in the order
// in which the server sent them. subscribed is called for each confirmed
// subscription.
func (cn *connection) listen(ctx context.Context, subscribed func(), handle func(message string), channels ...string) error {
	c := cn.current()
	if c == nil {
		return errNotConnected
	}
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { subscribed() })
	err := c.listener.Receive(ctx, c.listener.B().Ssubscribe().Channel(channels...).Build(), func(m rueidis.PubSubMessage) { handle(m.Message) })
	if err == nil {
		err = errors.New("the server ended the subscription")
	}
	return fmt.Errorf("listen: %w", err)
}

func (cn *connection) close(ctx context.Context) error {
	err := cn.reconnect.Stop(ctx)
	cn.mu.Lock()
	defer cn.mu.Unlock()
	if cn.clients != nil && !cn.closed {
		cn.clients.close()
	}
	cn.closed = true
	return err
}

const (
	hintUnreachable = "check that Redis runs and can be reached; until then answers are correct but slower"
	hintRefused     = "check user, password, TLS and ACL of Redis; redisstore.Options lists the rights that its user needs"
	hintUntrusted   = "set ca_file to the CA that signed the certificates of Redis"
)

// unavailable wraps a failed Redis operation as Unavailable with a hint. Every
// caller can go on without Redis.
func unavailable(doing string, err error) error {
	hint := hintUnreachable
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		hint = hintUntrusted
	} else if refused(err) {
		hint = hintRefused
	}
	return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("redis: %s: %w", doing, err), hint)
}

// refused reports whether Redis answered and refused the client, so that waiting
// does not help.
func refused(err error) bool {
	var answer *rueidis.RedisError
	if !errors.As(err, &answer) {
		return false
	}
	text := answer.Error()
	for _, code := range []string{"NOAUTH", "WRONGPASS", "NOPERM", "WRONGTYPE", "ERR unknown command", "ERR AUTH"} {
		if strings.HasPrefix(text, code) {
			return true
		}
	}
	// A script wraps the error of a command in it; the text differs by version of Redis.
	for _, words := range []string{"ACL failure in script", "The user executing the script can't", "Unknown Redis command called from script", "WRONGTYPE"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
