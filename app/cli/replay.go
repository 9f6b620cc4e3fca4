package cli

import (
	"errors"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/engine/logread"
)

const (
	oldest      = "oldest"
	bothStreams = "both"
)

func newReplay() *cobra.Command {
	r := &replay{}
	c := &cobra.Command{
		Use:   "replay --from T --group G",
		Short: "Let a consumer group read events again from an instant on",
		Long: "Moves a consumer group of the event log back (or forward) to the first event at or after --from. Stop the consumers of the\n" +
			"group first; when they start again they receive all events since then once more. Each event carries a key, by which a\n" +
			"consumer can recognize what it has already processed. Events are kept for log.retention (default " + config.Default().Text("log.retention") + ").\n\n" +
			"On the embedded profile stop the server too: the log is in its data folder.",
		Example: "  mayfly replay --from 2h --group search\n  mayfly replay --from 2026-11-16T08:00:00Z --group search --stream ends\n" +
			"  mayfly replay --from oldest --group search --profile cluster --config /etc/mayfly.yaml",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return r.run(c) },
	}
	r.settings.allFlags(c)
	c.Flags().StringVar(&r.from, "from", "", "an instant, a duration before now, or oldest")
	c.Flags().StringVar(&r.group, "group", "", "name of the consumer group")
	c.Flags().StringVar(&r.stream, "stream", bothStreams, "births, ends or both")
	completeWords(c, "stream", mayfly.Births.String(), mayfly.Ends.String(), bothStreams)
	return c
}

type replay struct {
	settings            settings
	from, group, stream string
}

func (r *replay) run(c *cobra.Command) (err error) {
	late := server.NewLateClock()
	from, err := r.instant(late.Time().Now())
	if err != nil {
		return err
	}
	streams := slices.DeleteFunc([]mayfly.Stream{mayfly.Births, mayfly.Ends}, func(s mayfly.Stream) bool {
		return r.stream != bothStreams && r.stream != s.String()
	})
	if len(streams) == 0 || r.group == "" {
		return usage(errors.New("pass --group NAME, and for --stream births, ends or both"))
	}
	cfg, err := r.settings.load(nil)
	if err != nil {
		return err
	}
	st, err := profile.OpenLog(c.Context(), cfg, node.Tables(), late.Time())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	for _, stream := range streams {
		waiting, err := logread.Replay(c.Context(), st.Set.Log, stream, r.group, from)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.OutOrStdout(), "%s: group %s continues from %s; %s events to read\n", stream, r.group, fromText(from), humanize.Comma(waiting))
	}
	return nil
}

// instant parses --from.
func (r *replay) instant(now mayfly.Instant) (mayfly.Instant, error) {
	if r.from == oldest {
		return 0, nil
	}
	if l, err := mayfly.ParseLifetime(r.from); err == nil && l != mayfly.Never {
		return now.Add(-l.Duration()), nil
	}
	var at mayfly.Instant
	if err := at.UnmarshalText([]byte(r.from)); err != nil || at <= 0 {
		return 0, usage(fmt.Errorf("invalid --from %q: write an instant such as %s, a duration before now such as 2h, or oldest", r.from, now))
	}
	return at, nil
}

func fromText(from mayfly.Instant) string {
	if from == 0 {
		return "the oldest event"
	}
	return from.String()
}
