package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/clock"
)

// desk is where support and operators work: a data folder that no process serves,
// or the server that serves it. The verbs are the same, and so is what they print.
type desk interface {
	now() mayfly.Instant
	hold(ctx context.Context, id mayfly.ID, who deed) error
	release(ctx context.Context, id mayfly.ID, who deed) error
	restore(ctx context.Context, what wire.RestoreRequest, who deed) (wire.Restored, error)
	runs(ctx context.Context, from mayfly.Instant) iter.Seq2[wire.Run, error]
	letters(ctx context.Context, item mayfly.ID, step string) iter.Seq2[wire.DeadLetter, error]
	retry(ctx context.Context, letter wire.DeadLetter, who deed) error
	drop(ctx context.Context, letter wire.DeadLetter, who deed) error
	orphans(ctx context.Context, erase bool, who deed) (wire.Orphans, error)
	scrub(ctx context.Context, mibs int64) (wire.Scrub, error)
	records(ctx context.Context) iter.Seq2[wire.AuditRecord, error]
	verifyAudit(ctx context.Context, heads []string) (wire.AuditReport, error)
}

// deskChoice is which desk a verb works at.
type deskChoice struct {
	settings settings
	admin    string
	token    string
	source   clock.Source // of a stopped folder's time; the system's unless a test says otherwise

	config config.Config
}

// flags adds the flags of every verb that works at either desk.
func (d *deskChoice) flags(c *cobra.Command) {
	d.settings.flags(c)
	c.Flags().StringVar(&d.admin, "admin", "", "URL of a server's admin listener (default: that of the server that uses the data folder, if one does; MAYFLY_ADMIN without --data)")
	c.Flags().StringVar(&d.token, "token", "", "access token of the scope admin (default MAYFLY_TOKEN, or one made with the data folder's key)")
}

// at does the work at the desk: at the server that was named, on the folder if
// nobody uses it, else at the server that does. The deed is nil for who only looks.
func (d *deskChoice) at(c *cobra.Command, who *deed, do func(ctx context.Context, at desk) error) (err error) {
	if err := d.check(c, who); err != nil {
		return err
	}
	if d.admin == "" && d.settings.data == "" {
		d.admin = os.Getenv("MAYFLY_ADMIN")
	}
	if d.admin != "" {
		return d.atServer(c, who, do)
	}
	err = d.onFolder(c, func(ctx context.Context, f *folderDesk) error {
		if err := who.named(); err != nil {
			return err
		}
		return do(ctx, f)
	})
	if !isInUse(err) {
		return err
	}
	used := err
	switch d.admin, err = adminOf(d.config.Data); {
	case err != nil:
		return err
	case d.admin == "":
		return mayfly.Wrap(mayfly.Conflict, fmt.Errorf("%w, which has no admin listener to ask", used),
			"if it is a server, start it with one (listen.admin); if it has just begun, try again; else wait until it is done, or stop it")
	}
	return d.atServer(c, who, do)
}

// check reads the configuration, and says whether the deed may be done at all.
func (d *deskChoice) check(c *cobra.Command, who *deed) (err error) {
	if d.config, err = d.settings.load(nil); err != nil {
		return err
	}
	switch {
	case who == nil:
		return nil
	case d.token != "" && c.Flags().Changed("by"):
		return usage(mayfly.Errorf(mayfly.Invalid, "--token and --by at once").WithHint("a token says whose it is"))
	case strings.TrimSpace(who.reason) == "":
		return errNobody()
	}
	return nil
}

// inUseError is the error of a folder that another process has locked.
type inUseError struct{ err error }

// Error says who has, and leaves what to do about it to who knows what was wanted.
func (e inUseError) Error() string {
	if known := (*mayfly.Error)(nil); errors.As(e.err, &known) && known.Err != nil {
		return known.Err.Error()
	}
	return e.err.Error()
}

func (e inUseError) Unwrap() error { return e.err }

func isInUse(err error) bool {
	var used inUseError
	return errors.As(err, &used)
}

// isThere says whether there is a data folder to work on.
func (d *deskChoice) isThere() error {
	if _, err := os.Stat(filepath.Join(d.config.Data, "FORMAT")); errors.Is(err, fs.ErrNotExist) {
		return mayfly.Errorf(mayfly.NotFound, "there is no data folder at %s", d.config.Data).WithHint("name it with --data")
	}
	return nil
}

// deed is who does something at the desk and why: it is written down.
type deed struct{ by, reason string }

func (d *deed) flags(c *cobra.Command) {
	c.Flags().StringVar(&d.by, "by", os.Getenv("USER"), "who does it, for the audit log")
	c.Flags().StringVar(&d.reason, "reason", "", "why, for the audit log (required)")
}

// named says that somebody does it; where a token does not tell who. Who only looks
// need not say.
func (d *deed) named() error {
	if d != nil && strings.TrimSpace(d.by) == "" {
		return errNobody()
	}
	return nil
}

// errNobody is the error of a deed that cannot be written down.
func errNobody() error {
	return usage(mayfly.Errorf(mayfly.Invalid, "it is to be written down").WithHint("say who does it and why: --by NAME --reason '…'"))
}

// idOf reads the one argument of a verb.
func idOf(args []string) (mayfly.ID, error) {
	id, err := mayfly.ParseID(args[0])
	if err != nil {
		return id, usage(err)
	}
	return id, nil
}

// untilOf reads an instant, or a span of time from now.
func untilOf(text string, now mayfly.Instant) (mayfly.Instant, error) {
	if l, err := mayfly.ParseLifetime(text); err == nil && l != mayfly.Never {
		return now.Add(l.Duration()), nil
	}
	var at mayfly.Instant
	if err := at.UnmarshalText([]byte(text)); err != nil {
		return 0, usage(fmt.Errorf("--until %q: write a span such as 24h, or an instant such as %s", text, now.Add(24*time.Hour)))
	}
	return at, nil
}
