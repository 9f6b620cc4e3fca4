// Package demo shows the life of stories, pastes, keys and posts in seconds: it starts a server whose
// windows are shortened, publishes and reads as several users, kills and
// restarts the server, and judges every answer and everything that is stored.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/engine/verify"
)

// ErrNotRight is the error of a run whose verdict, already printed, is that
// something was not right.
var ErrNotRight = errors.New("the verdict of the demo is not right")

// Options configures Run.
type Options struct {
	Out     io.Writer
	Once    bool          // publish Stories stories, follow them to their end, and return
	Stories int           // with Once: 1 to 200
	For     time.Duration // without Once: how long to run

	// Open opens the store; default profile.Embedded. With another store no server
	// is killed, because a second process could not open it.
	Open func(config.Config) (*profile.Store, error)
}

// Run shows the life of stories on a server of its own and judges it. It leaves
// nothing behind.
func Run(ctx context.Context, o Options) error {
	d := &demo{out: o.Out, once: o.Once, stories: o.Stories, lasts: o.For, open: o.Open}
	if o.Open == nil {
		d.child = ownChild
	}
	return d.run(ctx)
}

// demo is one run.
type demo struct {
	out     io.Writer
	once    bool
	stories int
	lasts   time.Duration
	folder  string
	open    func(config.Config) (*profile.Store, error) // default profile.Embedded
	child   func(folder string) (*exec.Cmd, error)      // command of the server that is killed; nil: none is

	began  time.Time
	host   *host
	people *people
	table  *demoTable
	count  verify.Tally
	asked  counters

	mu     sync.Mutex
	all    []*life
	unborn int // uploads that a killed server left without a story

	pastes []*demoPaste
	reads  []verify.Read // answers to those who asked for a paste
}

// counters counts requests.
type counters struct{ answered, served, refused, close, unanswered atomic.Int64 }

// demoTail is how long lives that have begun may take to come to their end.
const demoTail = 16 * time.Second

func (d *demo) say(format string, args ...any) { d.table.say(fmt.Sprintf(format, args...)) }

func (d *demo) check() error {
	switch {
	case d.once && (d.stories < 1 || d.stories > 200):
		return mayfly.Errorf(mayfly.Invalid, "invalid --stories %d", d.stories).WithHint("choose 1 to 200")
	case !d.once && (d.lasts < 5*time.Second || d.lasts > 24*time.Hour):
		return mayfly.Errorf(mayfly.Invalid, "invalid --for %s", d.lasts).WithHint("choose 5s to 24h")
	}
	return nil
}

func (d *demo) run(ctx context.Context) (err error) {
	if err := d.check(); err != nil {
		return err
	}
	if d.folder, err = os.MkdirTemp("", "mayfly-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.folder)) }()
	d.began, d.table = time.Now(), newDemoTable(d.out, d.rows)
	defer d.table.end()
	d.host = &host{folder: d.folder, open: d.open}
	defer server.Tune(demoConfig(d.folder))()
	var broken []*publication
	if d.child != nil {
		if broken, err = d.crash(ctx); err != nil {
			return err
		}
	}
	took, err := d.host.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.host.stop(context.WithoutCancel(ctx))) }()
	if err := d.show(ctx, took, broken); err != nil {
		return d.host.why(err)
	}
	return d.verdict()
}

// show is the story of the demonstration, from the first server to the last look.
func (d *demo) show(ctx context.Context, took time.Duration, broken []*publication) (err error) {
	if d.people, err = d.host.meet(ctx); err != nil {
		return err
	}
	if d.child != nil {
		d.say("a server starts on the folder that it left: ready after %s.", took.Round(time.Millisecond))
	}
	if err := d.introduce(); err != nil {
		return err
	}
	switch err := d.live(ctx, broken); {
	case err == nil:
	case !d.once && errors.Is(err, context.Canceled):
		d.say("stopped: what has come to its end so far is judged.")
	default:
		return err
	}
	d.table.end()
	return d.audit(context.WithoutCancel(ctx))
}

// introduce says where the server is, and what to try.
func (d *demo) introduce() error {
	d.say("server at %s (docs at %s/docs/api), for operators at %s.", d.host.api(), d.host.api(), d.host.admin())
	if d.once {
		return nil
	}
	lines, err := server.FirstSteps{Data: demoConfig(d.folder).Data, API: d.host.api(), Admin: d.host.admin(), KV: d.host.kv()}.Lines()
	if err != nil {
		return err
	}
	d.say("Try it meanwhile, in another terminal; a story lives for %s:", demoLifetimes()[0])
	for _, line := range lines {
		d.say("%s", line)
	}
	d.say("")
	return nil
}

func (d *demo) verdict() error {
	d.say("\nasked %d times, over HTTP and the Redis protocol: %d served, %d refused, %d of them within 50 ms of a deadline; %d met no server while it was away",
		d.asked.answered.Load(), d.asked.served.Load(), d.asked.refused.Load(), d.asked.close.Load(), d.asked.unanswered.Load())
	d.say("%s", d.count.String())
	if !d.count.Clean() {
		d.say("verdict: NOT RIGHT")
		for _, fault := range d.count.Faults() {
			d.say("  %s", fault)
		}
		return ErrNotRight
	}
	d.say("verdict: all was right")
	return nil
}
