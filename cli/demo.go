package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/config"
	"github.com/mayflyhq/mayfly/profile"
)

func newDemo() *cobra.Command {
	d, child := demo{}, ""
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show the life of a few stories in seconds, and judge it",
		Long: "Shows whole lives with every window in seconds: a process that publishes is killed, stories are asked for around their\n" +
			"deadlines, archived, read back from cold storage, deleted, held and restored. At the end it says whether all was right,\n" +
			"and it leaves nothing behind.\n\n" +
			"The verdict counts what must never happen:\n" +
			"  LOST         something acknowledged is not there any more\n" +
			"  RESURRECTED  something that had ended was served again\n" +
			"  EARLY        refused before its deadline to somebody who may see it\n" +
			"  LATE         served at or after its deadline to somebody else than its author\n" +
			"  LEAK         served to somebody who may not see it\n" +
			"  DOUBLE       one birth or one expiry happened twice\n" +
			"  ORPHAN       stored media that no story owns",
		Example: "  mayfly demo --once",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d.out = c.OutOrStdout()
			if child != "" {
				return publishUntilKilled(c.Context(), child, d.out)
			}
			d.child = ownChild
			return d.run(c.Context())
		},
	}
	c.Flags().StringVar(&child, "child", "", "publish into this folder until killed")
	if err := c.Flags().MarkHidden("child"); err != nil {
		panic(err) // the flag stands one line above
	}
	c.Flags().Bool("once", false, "run it once and exit (for scripts; it does so anyway for now)")
	c.Flags().IntVar(&d.stories, "stories", 12, "how many stories")
	return c
}

// demo is one run of the demonstration.
type demo struct {
	out     io.Writer
	stories int
	folder  string
	open    func(config.Config) (*profile.Store, error) // default profile.Embedded
	child   func(folder string) (*exec.Cmd, error)      // publishes until it is killed; nil: nobody is killed
	house   *house
	lives   []*life
	shown   []*life // those that something was shown with
	killed  bool    // a process was killed while it published
	count   tally
}

// users of the demonstration. A stranger has an account and no relation to ana.
func ana() mayfly.UserID      { return mayfly.UserOf("demo", "ana") }
func ben() mayfly.UserID      { return mayfly.UserOf("demo", "ben") }
func stranger() mayfly.UserID { return mayfly.UserOf("demo", "stranger") }

func (d *demo) say(format string, args ...any) { fmt.Fprintf(d.out, format+"\n", args...) }

func (d *demo) run(ctx context.Context) (err error) {
	if d.stories < 1 || d.stories > 10_000 {
		return usage(fmt.Errorf("--stories must be between 1 and 10000"))
	}
	if d.folder, err = os.MkdirTemp("", "mayfly-demo-"); err != nil {
		return err
	}
	defer func() {
		if gone := os.RemoveAll(d.folder); err == nil {
			err = gone
		}
	}()
	if d.open == nil {
		d.open = profile.Embedded
	}
	d.house = &house{folder: d.folder, open: d.open}
	d.say("A life in about 20 seconds: every window of it is set to seconds.")
	if d.child != nil {
		if err := d.crash(ctx); err != nil {
			return err
		}
	}
	start := time.Now()
	if err := d.house.start(ctx); err != nil {
		return err
	}
	if d.child != nil {
		d.say("a node starts on the folder that it left: ready after %s.", time.Since(start).Round(time.Millisecond))
	}
	defer func() {
		if closed := d.house.close(context.WithoutCancel(ctx)); err == nil {
			err = closed
		}
	}()
	if err := d.show(ctx); err != nil {
		return err
	}
	return d.verdict()
}

// show is the story of the demonstration, from publish to the last look.
func (d *demo) show(ctx context.Context) error {
	d.say("ana publishes stories until there are %d. They live for 3 to 7 seconds, each with a medium of 8 KiB.", d.stories)
	if err := d.publish(ctx); err != nil {
		return err
	}
	d.say("ben, who is a close friend, a stranger, somebody without an account, and a moderator keep asking for every one of them …")
	asking := d.ask(ctx)
	if err := sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	took, err := d.house.restart(ctx)
	if err != nil {
		return err
	}
	d.say("in the middle of it the node stops and starts again: ready after %s.", took.Round(time.Millisecond))
	if err := asking(); err != nil {
		return err
	}
	d.say("a second after its deadline each story moves to cold storage, verified before hot is erased …")
	if err := d.awaitState(ctx, mayfly.Cold, d.lives...); err != nil {
		return err
	}
	for _, l := range d.lives {
		l.afterwards = d.openAsAuthor(ctx, l)
	}
	if err := d.readLog(ctx); err != nil {
		return err
	}
	d.table()
	if err := d.afterwards(ctx); err != nil {
		return err
	}
	return d.findOrphans(ctx)
}

func (d *demo) table() {
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nstory\taudience\tlifetime\tborn\tdeadline\tlast served\tfirst refused\tcold\tfor ana")
	for n, l := range d.lives {
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t+%.1f s\t%s\n", n+1, l.item.Audience, l.lifetime, clockTime(l.born), clockTime(l.deadline),
			offset(l.lastServed.Load(), l.deadline), offset(l.firstRefused.Load(), l.deadline), l.changed.Sub(l.deadline).Seconds(), l.afterwards)
	}
	if err := w.Flush(); err != nil {
		d.say("%v", err)
	}
}

func clockTime(i mayfly.Instant) string { return i.Time().Format("15:04:05.000") }

// offset is where an instant lies to the deadline, in milliseconds.
func offset(at int64, deadline mayfly.Instant) string {
	if at == 0 {
		return "never"
	}
	return fmt.Sprintf("%+d ms", at-int64(deadline))
}

func (d *demo) verdict() error {
	d.say("\nasked %d times: %d served, %d refused, %d of them within 50 ms of a deadline", d.count.asked.Load(), d.count.served.Load(), d.count.refused.Load(), d.count.close.Load())
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
