package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/profile"
)

func newDemo() *cobra.Command {
	d, child := demo{}, ""
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the life of stories in seconds, over HTTP, and judge it",
		Long: "Starts a server on free ports with every window of a life in seconds. ana and ben publish; close friends, followers,\n" +
			"strangers, somebody without an account and a moderator keep asking over HTTP, most often around the deadlines. A server is\n" +
			"killed and started again; stories are archived, opened from cold storage, reshared, deleted, held and restored. A table\n" +
			"shows every life. It prints where the server is and what to try while it runs: a minute, or until Ctrl-C. At the end it says\n" +
			"whether all was right, and it leaves nothing behind.\n\n" +
			"The verdict counts what must never happen:\n" +
			"  LOST         something acknowledged is not there any more\n" +
			"  RESURRECTED  something that had ended was served again\n" +
			"  EARLY        refused before its deadline to somebody who may see it\n" +
			"  LATE         served at or after its deadline to somebody else than its author\n" +
			"  LEAK         served to somebody who may not see it\n" +
			"  DOUBLE       one birth or one expiry happened twice\n" +
			"  ORPHAN       stored media that no story owns",
		Example: "  mayfly demo\n  mayfly demo --for 5m\n  mayfly demo --once           a few lives, then the verdict, for scripts",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if child != "" {
				return serveUntilKilled(c.Context(), child, c.InOrStdin(), c.OutOrStdout())
			}
			d.out, d.child = c.OutOrStdout(), ownChild
			return d.run(c.Context())
		},
	}
	c.Flags().StringVar(&child, "child", "", "serve this folder until killed")
	if err := c.Flags().MarkHidden("child"); err != nil {
		panic(err) // the flag stands one line above
	}
	c.Flags().BoolVar(&d.once, "once", false, "publish some stories at once, see them to their end, and exit (for scripts)")
	c.Flags().IntVar(&d.stories, "stories", 12, "how many stories, with --once")
	c.Flags().DurationVar(&d.lasts, "for", time.Minute, "how long it runs, without --once")
	return c
}

// demo is one run of the demonstration.
type demo struct {
	out     io.Writer
	once    bool
	stories int
	lasts   time.Duration
	folder  string
	open    func(config.Config) (*profile.Store, error) // default profile.Embedded
	child   func(folder string) (*exec.Cmd, error)      // serves until it is killed; nil: nobody is killed

	began  time.Time
	house  *house
	people *people
	table  *demoTable
	count  tally

	mu     sync.Mutex
	all    []*life
	unborn int // publications that broke off with a killed server: each may leave a medium
}

// demoTail is how long lives that have begun may take to come to their end.
const demoTail = 16 * time.Second

func (d *demo) say(format string, args ...any) { d.table.say(fmt.Sprintf(format, args...)) }

func (d *demo) check() error {
	switch {
	case d.once && (d.stories < 1 || d.stories > 200):
		return usage(mayfly.Errorf(mayfly.Invalid, "--stories %d", d.stories).WithHint("choose 1 to 200"))
	case !d.once && (d.lasts < 5*time.Second || d.lasts > 24*time.Hour):
		return usage(mayfly.Errorf(mayfly.Invalid, "--for %s", d.lasts).WithHint("choose 5s to 24h"))
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
	d.house = &house{folder: d.folder, open: d.open}
	defer tune(demoConfig(d.folder))()
	var broken []*publication
	if d.child != nil {
		if broken, err = d.crash(ctx); err != nil {
			return err
		}
	}
	took, err := d.house.start(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.house.stop(context.WithoutCancel(ctx))) }()
	if err := d.show(ctx, took, broken); err != nil {
		return d.house.why(err)
	}
	return d.verdict()
}

// show is the story of the demonstration, from the first server to the last look.
func (d *demo) show(ctx context.Context, took time.Duration, broken []*publication) (err error) {
	if d.people, err = d.house.meet(ctx); err != nil {
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
	d.say("server at %s (docs at %s/docs/api), for operators at %s.", d.house.api(), d.house.api(), d.house.admin())
	if d.once {
		return nil
	}
	lines, err := trial{data: demoConfig(d.folder).Data, api: d.house.api(), admin: d.house.admin()}.lines()
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
	d.say("\nasked %d times over HTTP: %d served, %d refused, %d of them within 50 ms of a deadline; %d met no server while it was away",
		d.count.asked.Load(), d.count.served.Load(), d.count.refused.Load(), d.count.close.Load(), d.count.unanswered.Load())
	d.say("%s", d.count.String())
	if !d.count.clean() {
		d.say("verdict: NOT RIGHT")
		for _, fault := range d.count.faults() {
			d.say("  %s", fault)
		}
		return errWrong
	}
	d.say("verdict: all was right")
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
