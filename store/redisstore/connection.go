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

// errNotConnected says that no server has answered since Open.
var errNotConnected = errors.New("no server has answered yet")

// door is the way to the servers: one client for commands, and one whose only
// connection listens, so that a slow listener holds no command up. A node starts
// without Redis too; then the door is opened when Redis comes.
type door struct {
	o       Options
	knock   *loop.Loop
	mu      sync.Mutex
	clients *clients // nil until a server has answered
	failed  error    // why none has, the last time
	closed  bool
}

type clients struct{ commands, ear rueidis.Client }

func (c *clients) close() {
	c.commands.Close()
	c.ear.Close()
}

// openDoor connects. Only a server that will not have us is an error.
func openDoor(o Options) (*door, error) {
	d := &door{o: o}
	if _, err := o.client(); err != nil {
		return nil, err
	}
	err := d.connect(context.Background())
	if refused(err) {
		return nil, unavailable("connect", err)
	}
	if err != nil {
		o.Logger.Warn("redis is away: no caches and local limits until it comes", "addresses", o.Addresses, "error", err)
	}
	d.knock = loop.Start(context.Background(), loop.Options{
		Name: "redis connect", First: 200 * time.Millisecond, Backoff: 200 * time.Millisecond, BackoffMax: 2 * time.Second, Jitter: 0.2,
		Failed: func(err error, inARow int) {
			if inARow == 1 || refused(err) {
				o.Logger.Warn("redis is still away", "addresses", o.Addresses, "error", err)
			}
		},
	}, d.connect)
	return d, nil
}

func (d *door) connect(context.Context) error {
	if d.opened() != nil {
		return nil
	}
	made, err := d.dial()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed = err; err != nil {
		return err
	}
	if d.closed {
		made.close()
		return nil
	}
	d.clients = made
	return nil
}

func (d *door) dial() (*clients, error) {
	o, err := d.o.client()
	if err != nil {
		return nil, err
	}
	commands, err := rueidis.NewClient(o)
	if err != nil {
		return nil, err
	}
	o.PipelineMultiplex = -1 // one connection
	ear, err := rueidis.NewClient(o)
	if err != nil {
		commands.Close()
		return nil, err
	}
	return &clients{commands: commands, ear: ear}, nil
}

func (d *door) opened() *clients {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clients
}

// why says for what reason there is no server.
func (d *door) why() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.failed == nil {
		return errNotConnected
	}
	return fmt.Errorf("%w: %w", errNotConnected, d.failed)
}

// run runs a script on the server that has key.
func (d *door) run(ctx context.Context, script *rueidis.Lua, key string, args ...string) (rueidis.RedisResult, error) {
	c := d.opened()
	if c == nil {
		return rueidis.RedisResult{}, errNotConnected
	}
	answer := script.Exec(ctx, c.commands, []string{key}, args)
	return answer, answer.Error()
}

// tell sends a message to each channel.
func (d *door) tell(ctx context.Context, messages map[string]string) error {
	c := d.opened()
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

// listen hands over what is told on the channels, until the connection breaks.
// They have to be of one hash tag: then everything comes in the order of the
// server's deeds. Heard is called when a subscription stands.
func (d *door) listen(ctx context.Context, heard func(), handle func(message string), channels ...string) error {
	c := d.opened()
	if c == nil {
		return errNotConnected
	}
	ctx = rueidis.WithOnSubscriptionHook(ctx, func(rueidis.PubSubSubscription) { heard() })
	err := c.ear.Receive(ctx, c.ear.B().Ssubscribe().Channel(channels...).Build(), func(m rueidis.PubSubMessage) { handle(m.Message) })
	if err == nil {
		err = errors.New("the server ended the subscription")
	}
	return fmt.Errorf("listen: %w", err)
}

func (d *door) close(ctx context.Context) error {
	err := d.knock.Stop(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clients != nil && !d.closed {
		d.clients.close()
	}
	d.closed = true
	return err
}

const (
	hintAway       = "the answer is the same without Redis, only slower; check that it runs and can be reached"
	hintRefused    = "check user, password, TLS and ACL of Redis; options.go lists what its user needs"
	hintDistrusted = "name the authority that signed the certificates of Redis"
)

// unavailable says that Redis did not do what was being done: whoever asked has
// a way without it.
func unavailable(doing string, err error) error {
	hint := hintAway
	if distrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &distrusted) {
		hint = hintDistrusted
	} else if refused(err) {
		hint = hintRefused
	}
	return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("redis: %s: %w", doing, err), hint)
}

// refused says whether waiting will not help: Redis answers, and will not have us.
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
	// A script passes on, in the words of its version, what a command in it was refused for.
	for _, words := range []string{"ACL failure in script", "The user executing the script can't", "Unknown Redis command called from script", "WRONGTYPE"} {
		if strings.Contains(text, words) {
			return true
		}
	}
	return false
}
