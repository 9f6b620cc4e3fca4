package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/bench"
)

func newBench() *cobra.Command {
	names, help := bench.Trials()
	var list strings.Builder
	for i, name := range names {
		fmt.Fprintf(&list, "  %-8s %s\n", name, help[i])
	}
	names = append(names, "all")
	var o bench.Options
	var s settings
	c := &cobra.Command{
		Use:   "bench NAME",
		Short: "Measure the engine on this machine's disk",
		Long: "Drives the engine in process, on a fresh data folder that is removed afterwards, with the packages, the settings and\n" +
			"the durable writes of the product. NAME is one of:\n\n" + list.String() + "  all      one after the other, except cluster\n\n" +
			"cluster needs servers: those of --config, else those that the environment of deploy/servers names\n" +
			"(eval \"$(go run ./deploy/servers up)\"). It uses a keyspace, topics and prefixes of its own.\n\n" +
			"Figures are printed beside their bounds; a missed bound is marked and does not change the exit code.",
		Example:   "  mayfly bench sweep\n  mayfly bench all --quick --json\n  mayfly bench cluster --config /etc/mayfly.yaml",
		ValidArgs: names,
		Args: func(c *cobra.Command, args []string) error {
			if err := cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)(c, args); err != nil {
				return usage(fmt.Errorf("%w\nNAME is one of %s", err, strings.Join(names, ", ")))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) (err error) {
			o.Name, o.Out, o.Diagnostics = args[0], c.OutOrStdout(), c.ErrOrStderr()
			if o.Config, err = s.sources(nil); err != nil {
				return err
			}
			return bench.Run(c.Context(), o)
		},
	}
	c.Flags().BoolVar(&o.JSON, "json", false, "print one JSON object per line and nothing else")
	c.Flags().BoolVar(&o.Quick, "quick", false, "smaller sizes: at most 40 seconds each")
	c.Flags().BoolVar(&o.Long, "long", false, "growth up to 50 million live items: about an hour, 20 GiB of disk")
	c.Flags().StringVar(&o.Dir, "dir", "", "folder to create the data folder in, which chooses the disk (default the system's folder for temporary files)")
	c.Flags().Uint64Var(&o.Seed, "seed", 1, "seed of ids, owners and arrivals")
	c.Flags().StringVar(&o.Peers, "peers", "", "folder of the programs that make peers built (default: peers, beside this program)")
	c.Flags().StringVar(&o.Plot, "plot", "", "kv: file for a plot of the space on disk over time, in SVG")
	c.Flags().StringVar(&s.file, "config", "", "cluster: configuration file (default ./"+config.DefaultFile+", if it exists)")
	c.Flags().StringVar(&s.profile, "profile", "", "cluster: the profile to measure; only cluster has servers to measure")
	c.Flags().StringArrayVar(&s.set, "set", nil, "cluster: set one key, such as --set cassandra.replication_factor=1")
	c.Flags().StringVar(&o.CPUProfile, "cpuprofile", "", "write a CPU profile to this file")
	hideFlag(c, "cpuprofile")
	return c
}
