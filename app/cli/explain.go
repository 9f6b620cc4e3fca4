package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/client"
)

func newExplain() *cobra.Command {
	e := &explain{}
	c := &cobra.Command{
		Use: "explain ID", Short: "Say why a story is visible to somebody, or not",
		Long: "Says in sentences what a viewer gets at an instant and why, then every fact that it rests on. It knows ids that were\n" +
			"deleted or never were, too. It asks the admin listener of a running server, with an admin token made from the data\n" +
			"folder's key; if none runs, it looks into the folder itself.",
		Example: "  mayfly explain ID\n  mayfly explain ID --viewer ben\n  mayfly explain ID --viewer ben --at 2026-01-31T18:00:00Z",
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return e.run(c, args) },
	}
	e.settings.flags(c)
	c.Flags().StringVar(&e.admin, "admin", fromEnv("MAYFLY_ADMIN", defaultAdmin), "URL of the admin listener (MAYFLY_ADMIN)")
	c.Flags().StringVar(&e.token, "token", "", "access token of the scope admin (MAYFLY_TOKEN)")
	c.Flags().StringVar(&e.viewer, "viewer", "", "who looks: a name, a UUID, anonymous or moderator (default anonymous)")
	c.Flags().StringVar(&e.at, "at", "", "when: an instant such as 2026-01-31T18:00:00Z (default: now)")
	c.Flags().BoolVar(&e.json, "json", false, "print it as JSON")
	return c
}

type explain struct {
	settings   settings
	admin      string
	token      string
	viewer, at string
	json       bool
}

func (e *explain) run(c *cobra.Command, args []string) error {
	id, err := idOf(args)
	if err != nil {
		return err
	}
	at, err := instantOf(e.at)
	if err != nil {
		return usage(mayfly.Errorf(mayfly.Invalid, "--at %s", e.at).WithHint("write an instant such as 2026-01-31T18:00:00Z"))
	}
	cfg, err := e.settings.load(nil)
	if err != nil {
		return err
	}
	found, err := e.ask(c.Context(), id, at)
	if isAway(err) && hasData(cfg) {
		if found, err = e.look(c.Context(), cfg, id, at); errors.Is(err, mayfly.Conflict) {
			err = mayfly.Wrap(mayfly.Conflict, err, "no server answers at "+e.admin+", and one uses the folder: name its admin listener with --admin")
		}
	}
	if err != nil {
		return fmt.Errorf("explain %s: %w", id, err)
	}
	if e.json {
		return writeJSON(c.OutOrStdout(), found)
	}
	return tellExplanation(c.OutOrStdout(), found)
}

// eyes are viewers that are no users.
func eyes() []string { return []string{"", "anonymous", "moderator"} }

// ask asks a running server.
func (e *explain) ask(ctx context.Context, id mayfly.ID, at mayfly.Instant) (wire.Explanation, error) {
	r := remote{settings: e.settings, token: e.token}
	token, err := r.bearer("admin")
	if err != nil {
		return wire.Explanation{}, err
	}
	api, err := client.New(e.admin, client.Options{Token: token, Retries: -1, Agent: "mayfly/" + version})
	if err != nil {
		return wire.Explanation{}, err
	}
	defer api.Close()
	viewer := e.viewer
	if !slices.Contains(eyes(), viewer) {
		viewer = userText(viewer)
	}
	return api.Explain(ctx, id, viewer, at)
}

// look looks into a folder that no process serves.
func (e *explain) look(ctx context.Context, cfg config.Config, id mayfly.ID, at mayfly.Instant) (found wire.Explanation, err error) {
	if err := onEmbedded(cfg); err != nil {
		return found, err
	}
	s, err := profile.Embedded(cfg)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	o := node.FromConfig(cfg)
	o.Idle = true
	if o.Products.Key, err = node.LoadKey(cfg); err != nil { // who follows whom counts
		return found, err
	}
	n, err := node.Start(ctx, s.Set, o)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, n.Stop(context.WithoutCancel(ctx))) }()
	viewer := mayfly.Viewer{}
	if e.viewer == "moderator" {
		viewer = mayfly.ModeratorOf(mayfly.UserID{})
	} else if !slices.Contains(eyes(), e.viewer) {
		viewer = mayfly.ViewerOf(node.UserNamed(cfg, e.viewer))
	}
	if at == 0 {
		at = n.Clock().Read().Now
	}
	return n.Explain(ctx, id, viewer, at)
}

// isAway says whether no server answered.
func isAway(err error) bool {
	var answered *client.Error
	return errors.Is(err, mayfly.Unavailable) && !errors.As(err, &answered)
}

func hasData(cfg config.Config) bool {
	_, err := os.Stat(filepath.Join(cfg.Data, "FORMAT"))
	return !errors.Is(err, fs.ErrNotExist)
}

func tellExplanation(out io.Writer, e wire.Explanation) error {
	for _, sentence := range e.Sentences {
		fmt.Fprintln(out, sentence)
	}
	if len(e.Facts) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range e.Facts {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.About, f.Name, f.Value)
	}
	return w.Flush()
}
