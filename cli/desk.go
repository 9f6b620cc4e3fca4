package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/clock"
	"github.com/mayflyhq/mayfly/config"
	"github.com/mayflyhq/mayfly/node"
	"github.com/mayflyhq/mayfly/profile"
)

// defaultData is the data folder when none is named.
const defaultData = "./mayfly-data"

// desk is where support and operators work on a data folder that no process
// serves: a node that runs no loops.
type desk struct {
	data   string
	source clock.Source // of time; the system's unless a test says otherwise
	config config.Config
	store  *profile.Store
	node   *node.Node
}

// flags adds the flags that every verb of the desk has.
func (d *desk) flags(c *cobra.Command) {
	c.Flags().StringVar(&d.data, "data", defaultData, "the data folder; no other process may be using it")
}

// at opens the folder, does the work at the folder's own time, and closes it.
func (d *desk) at(ctx context.Context, do func(ctx context.Context, now mayfly.Instant) error) (err error) {
	if _, err := os.Stat(filepath.Join(d.data, "FORMAT")); errors.Is(err, fs.ErrNotExist) {
		return mayfly.Errorf(mayfly.NotFound, "there is no data folder at %s", d.data).WithHint("name it with --data")
	}
	cfg := config.Default()
	cfg.Data = d.data
	d.config = cfg
	if d.store, err = profile.Embedded(cfg); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	o := node.FromConfig(cfg)
	o.Idle, o.Source = true, d.source
	if d.node, err = node.Start(ctx, d.store.Set, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.node.Stop(context.WithoutCancel(ctx))) }()
	r := d.node.Clock().Read()
	if r.Err != nil {
		return r.Err
	}
	return do(ctx, r.Steady)
}

// deed is who does something at the desk and why: it is written down.
type deed struct{ by, reason string }

func (d *deed) flags(c *cobra.Command) {
	c.Flags().StringVar(&d.by, "by", os.Getenv("USER"), "who does it, for the audit log")
	c.Flags().StringVar(&d.reason, "reason", "", "why, for the audit log (required)")
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
