package cli

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly/app/admin"
)

func newKV() *cobra.Command {
	c := &cobra.Command{
		Use: "kv", Short: "Use the key-value store of a server, and make namespaces and their keys",
		Long: "A server keeps keys with a time to live in namespaces and serves them over HTTP and the Redis protocol (listen.kv). Users\n" +
			"make namespaces of their own (mayfly kv namespace). Those of the operator are named in kv.namespaces; mayfly kv key add\n" +
			"makes a key of one, with which a program opens it: AUTH namespace key.",
		Example: "  mayfly kv namespace add cache --user ana\n  mayfly kv set cache greeting hello --ttl 60s --user ana\n  mayfly kv get cache greeting --user ana\n" +
			"  mayfly serve --set listen.kv=127.0.0.1:6380 --set kv.namespaces=cache\n  mayfly kv key add cache --reason 'for the web servers'\n" +
			"  REDISCLI_AUTH=KEY redis-cli -p 6380 --user cache set greeting hello ex 60\n  mayfly kv status",
	}
	c.AddCommand(newKVGet(), newKVSet(), newKVDel(), newKVTTL(), newKVScan(), newKVNamespace(), newKVKey(), newKVStatus())
	return c
}

func newKVKey() *cobra.Command {
	c := &cobra.Command{
		Use: "key", Short: "Make and remove keys of the namespaces in kv.namespaces",
		Long: "A namespace has at most two keys, so that one can replace the other: add the second, give it to the programs, remove the\n" +
			"first. Only a hash of a key is stored: it is printed once.\n\n" + adminHelp,
	}
	c.AddCommand(newKVKeyAdd(), newKVKeyRemove())
	return c
}

func newKVKeyAdd() *cobra.Command {
	var flags adminFlags
	var op operation
	c := &cobra.Command{
		Use: "add NAMESPACE", Short: "Make a key and print it", Args: cobra.ExactArgs(1), Example: "  mayfly kv key add cache --reason 'for the web servers'",
		RunE: func(c *cobra.Command, args []string) error {
			return flags.do(c, &op, func(ctx context.Context, api admin.API) error {
				made, err := api.AddKVKey(ctx, args[0], op.reason)
				if err != nil {
					return admin.OrAbsent(err, "namespace %s in kv.namespaces of a server that was started with it", args[0])
				}
				if _, err := fmt.Fprintln(c.ErrOrStderr(), "key "+made.ID+" of "+args[0]+", which is not shown again:"); err != nil {
					return err
				}
				_, err = fmt.Fprintln(c.OutOrStdout(), made.Key)
				return err
			})
		},
	}
	flags.flags(c)
	op.flags(c)
	return c
}

func newKVKeyRemove() *cobra.Command {
	var flags adminFlags
	var op operation
	c := &cobra.Command{
		Use: "remove NAMESPACE ID", Short: "Remove a key; connections that use it end within a second", Args: cobra.ExactArgs(2),
		Example: "  mayfly kv key remove cache 7KQ2M4XA --reason 'replaced'",
		RunE: func(c *cobra.Command, args []string) error {
			return flags.do(c, &op, func(ctx context.Context, api admin.API) error {
				if err := api.RemoveKVKey(ctx, args[0], args[1], op.reason); err != nil {
					return admin.OrAbsent(err, "key %s of a namespace %s in kv.namespaces", args[1], args[0])
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "key %s of %s is removed\n", args[1], args[0])
				return err
			})
		},
	}
	flags.flags(c)
	op.flags(c)
	return c
}

func newKVStatus() *cobra.Command {
	var flags adminFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "status", Short: "Show how much is stored, and what has expired and is not reclaimed", Args: cobra.NoArgs, Example: "  mayfly kv status\n  mayfly kv status --json",
		Long: "An expired key is not served, whatever is still on disk. Its space is free again within kv.reclaim_within.\n\n" + adminHelp,
		RunE: func(c *cobra.Command, _ []string) error {
			return flags.do(c, nil, func(ctx context.Context, api admin.API) error {
				s, err := api.KVStatus(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return writeJSON(c.OutOrStdout(), s)
				}
				w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintf(w, "namespaces\t%d\nbytes on disk\t%d\nof live keys\t%d\nof expired keys\t%d\n", s.Namespaces, s.DiskBytes, s.LiveBytes, s.ExpiredBytes)
				if s.OldestExpired != nil {
					fmt.Fprintf(w, "oldest expired\t%s\n", s.OldestExpired)
				}
				fmt.Fprintf(w, "durable\t%s\n", s.Sync)
				return w.Flush()
			})
		},
	}
	flags.flags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
