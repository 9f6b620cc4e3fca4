package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/client"
)

// serverDesk is the admin listener of a running server. Who does a deed is in the
// token.
type serverDesk struct{ api *client.Client }

// atServer does the work at the server whose admin listener is d.admin.
func (d *deskChoice) atServer(c *cobra.Command, who *deed, do func(ctx context.Context, at desk) error) error {
	token, err := d.bearer(c, who)
	if err != nil {
		return err
	}
	// A run that is undone, or a long audit log, takes as long as it takes: who
	// waits for it can break it off.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	api, err := client.New(d.admin, client.Options{Token: token, HTTP: &http.Client{Transport: transport}, Retries: -1, Agent: "mayfly/" + version})
	if err != nil {
		return usage(err)
	}
	defer api.Close()
	if err := do(c.Context(), serverDesk{api}); isAway(err) {
		return mayfly.Wrap(mayfly.Unavailable, err, "no server answers at "+d.admin+": name its admin listener with --admin")
	} else if err != nil {
		return err
	}
	return nil
}

// deskToken is how long a token lasts that is made for one verb: it is looked at
// when the request comes in.
const deskToken = 5 * time.Minute

// bearer is the token that was given; or, if a deed says who does it or there is
// none, one with that name, made with the data folder's key.
func (d *deskChoice) bearer(c *cobra.Command, who *deed) (string, error) {
	if d.token != "" {
		return d.token, nil
	}
	named := who != nil && c.Flags().Changed("by")
	if given := os.Getenv("MAYFLY_TOKEN"); given != "" && !named {
		return given, nil
	}
	if err := who.named(); err != nil {
		return "", err
	}
	request := node.TokenRequest{Scope: "admin", Lasts: deskToken}
	if who != nil {
		request.User = who.by
	}
	token, err := node.MintToken(d.config, request, mayfly.InstantOf(time.Now()))
	if err != nil {
		return "", fmt.Errorf("a token for %s: %w", d.admin, err)
	}
	return string(token), nil
}

func (serverDesk) now() mayfly.Instant { return mayfly.InstantOf(time.Now()) }

// orAbsent says of what is not there what it is: a server does not.
func orAbsent(err error, what string, args ...any) error {
	what = fmt.Sprintf(what, args...)
	switch {
	case errors.Is(err, mayfly.NotFound):
		return mayfly.Errorf(mayfly.NotFound, "there is no %s", what)
	case errors.Is(err, mayfly.Gone):
		return mayfly.Errorf(mayfly.Gone, "%s is deleted, or ended too long ago", what).WithHint("mayfly explain says which")
	default:
		return err
	}
}

func (s serverDesk) hold(ctx context.Context, id mayfly.ID, who deed) error {
	return orAbsent(s.api.Hold(ctx, id, who.reason), "item %s", id)
}

func (s serverDesk) release(ctx context.Context, id mayfly.ID, who deed) error {
	return orAbsent(s.api.Release(ctx, id, who.reason), "item %s", id)
}

func (s serverDesk) restore(ctx context.Context, what wire.RestoreRequest, _ deed) (wire.Restored, error) {
	restored, err := s.api.Restore(ctx, what)
	if what.ID != nil {
		return restored, orAbsent(err, "item %s", what.ID)
	}
	return restored, orAbsent(err, "run %s", what.Run)
}

func (s serverDesk) runs(ctx context.Context, from mayfly.Instant) iter.Seq2[wire.Run, error] {
	return s.api.Runs(ctx, from)
}

func (s serverDesk) letters(ctx context.Context, item mayfly.ID, step string) iter.Seq2[wire.DeadLetter, error] {
	return s.api.DeadLettersOf(ctx, item, step)
}

func (s serverDesk) retry(ctx context.Context, letter wire.DeadLetter, who deed) error {
	return orAbsent(s.api.RetryDeadLetter(ctx, letter.Item, letter.Step, who.reason), "dead letter for %s of %s", letter.Step, letter.Item)
}

func (s serverDesk) drop(ctx context.Context, letter wire.DeadLetter, who deed) error {
	return orAbsent(s.api.DropDeadLetter(ctx, letter.Item, letter.Step, who.reason), "dead letter for %s of %s", letter.Step, letter.Item)
}

func (s serverDesk) orphans(ctx context.Context, erase bool, who deed) (wire.Orphans, error) {
	if erase {
		return s.api.EraseOrphans(ctx, who.reason)
	}
	return s.api.Orphans(ctx)
}

// scrub is what the server's own, which never ends, has found since its start.
func (s serverDesk) scrub(ctx context.Context, _ int64) (wire.Scrub, error) { return s.api.Scrub(ctx) }

func (s serverDesk) records(ctx context.Context) iter.Seq2[wire.AuditRecord, error] {
	return s.api.Audit(ctx)
}

func (s serverDesk) verifyAudit(ctx context.Context, heads []string) (wire.AuditReport, error) {
	return s.api.VerifyAudit(ctx, heads)
}
