package cli

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/admin"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/product/kv"
)

// kvHelp is the part of the help that the verbs for users of the store share.
const kvHelp = "Authenticate as the owner of the namespace, with --user and the key of the server's data folder or with --token, or as a\n" +
	"program: a key of the namespace (mfkv_…) goes in the place of the token, best in MAYFLY_TOKEN."

// withClient calls do with a client of the server.
func (r *remote) withClient(do func(api *client.Client) error) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	defer api.Close()
	return do(api)
}

func newKVGet() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "get NAMESPACE KEY", Short: "Print the value of a key", Args: cobra.ExactArgs(2), Long: "The bytes are printed as they are, without a line break.\n\n" + kvHelp,
		Example: "  mayfly kv get cache greeting --user ana\n  MAYFLY_TOKEN=$KEY mayfly kv get cache photo > photo.jpg",
		RunE: func(c *cobra.Command, args []string) error {
			return r.withClient(func(api *client.Client) error {
				e, err := api.KVGet(c.Context(), args[0], args[1])
				if err != nil {
					return r.failed(admin.OrAbsent(err, "key %q in %s; it may have expired", args[1], args[0]), "get")
				}
				if r.json {
					return writeJSON(c.OutOrStdout(), kvShown(args[1], e))
				}
				_, err = c.OutOrStdout().Write(e.Value)
				return err
			})
		},
	}
	r.flags(c)
	return c
}

// kvEntry is an entry as --json shows it; bytes are in base64, as encoding/json has them.
type kvEntry struct {
	Key       []byte          `json:"key"`
	Value     []byte          `json:"value,omitempty"`
	Version   string          `json:"version"`
	ExpiresAt *mayfly.Instant `json:"expires_at,omitempty"`
}

func kvShown(key string, e client.KVEntry) kvEntry {
	out := kvEntry{Key: []byte(key), Value: e.Value, Version: e.Version}
	if e.ExpiresAt != 0 {
		out.ExpiresAt = &e.ExpiresAt
	}
	return out
}

func newKVSet() *cobra.Command {
	r, o, ttl, until := &remote{}, client.KVOptions{}, "", ""
	c := &cobra.Command{
		Use: "set NAMESPACE KEY [VALUE]", Short: "Write a value, perhaps with a time to live", Args: cobra.RangeArgs(2, 3),
		Long: "Without VALUE, or with -, the value is read from standard input, byte for byte. Without --ttl and --until the key gets the\n" +
			"default time to live of the namespace. From its last millisecond on the key is absent.\n\n" + kvHelp,
		Example: "  mayfly kv set cache greeting hello --ttl 60s --user ana\n  mayfly kv set cache photo --ttl 1h30m < photo.jpg\n" +
			"  mayfly kv set cache lock me --if-absent --ttl 10s",
		RunE: func(c *cobra.Command, args []string) (err error) {
			if err := errors.Join(atMostOne(c, "if-absent", "if-present", "if-version"), readExpiry(c, &o, ttl, until)); err != nil {
				return err
			}
			var value []byte
			if len(args) == 3 && args[2] != "-" {
				value = []byte(args[2])
			} else if value, err = io.ReadAll(io.LimitReader(c.InOrStdin(), kv.MaxValue+1)); err != nil {
				return fmt.Errorf("read standard input: %w", err)
			}
			return r.withClient(func(api *client.Client) error {
				e, err := api.KVSet(c.Context(), args[0], args[1], value, o)
				if err != nil {
					return r.failed(err, "set %q", args[1])
				}
				return r.showEntry(c, args[1], e)
			})
		},
	}
	r.flags(c)
	expiryFlags(c, &ttl, &until)
	c.Flags().BoolVar(&o.Keep, "keep", false, "a key that is there keeps its expiry")
	c.Flags().BoolVar(&o.IfAbsent, "if-absent", false, "only if there is no such key")
	c.Flags().BoolVar(&o.IfPresent, "if-present", false, "only if there is one")
	c.Flags().StringVar(&o.IfVersion, "if-version", "", "only if it has this version: compare-and-set")
	return c
}

func expiryFlags(c *cobra.Command, ttl, until *string) {
	c.Flags().StringVar(ttl, "ttl", "", "time to live: a number and ms, s, m, h, d or w, such as 60s or 1h30m; never")
	c.Flags().StringVar(until, "until", "", "when it expires: a day, or an instant such as 2026-01-31T18:00:00Z; one in the past deletes the key")
}

// atMostOne refuses flags that exclude each other.
func atMostOne(c *cobra.Command, names ...string) error {
	found := ""
	for _, name := range names {
		switch {
		case !c.Flags().Changed(name):
		case found != "":
			return usage(mayfly.Errorf(mayfly.Invalid, "--%s and --%s exclude each other", found, name).WithHint("use one of the two"))
		default:
			found = name
		}
	}
	return nil
}

// readExpiry puts the flags of expiryFlags into options.
func readExpiry(c *cobra.Command, o *client.KVOptions, ttl, until string) (err error) {
	if err := atMostOne(c, "ttl", "until", "keep"); err != nil {
		return err
	}
	switch {
	case ttl == "never":
		o.Never = true
	case ttl != "":
		if o.TTL, err = kv.ParseTTL(ttl); err != nil {
			return usage(err)
		}
	case until != "":
		if o.ExpiresAt, err = instantOf(until); err != nil {
			return usage(err)
		}
	}
	return nil
}

// showEntry says until when an entry is served.
func (r *remote) showEntry(c *cobra.Command, key string, e client.KVEntry) error {
	if r.json {
		return writeJSON(c.OutOrStdout(), kvShown(key, e))
	}
	text := "never expires"
	switch {
	case e.Version == "":
		text = "is absent: the expiry is in the past"
	case e.ExpiresAt != 0:
		text = "expires " + e.ExpiresAt.String()
	}
	_, err := fmt.Fprintf(c.ErrOrStderr(), "%s %s\n", printable(key), text)
	return err
}

func newKVDel() *cobra.Command {
	r, o := &remote{}, client.KVOptions{}
	c := &cobra.Command{
		Use: "del NAMESPACE KEY...", Short: "Delete keys", Args: cobra.MinimumNArgs(2), Long: "A key that is not there is no error.\n\n" + kvHelp,
		Example: "  mayfly kv del cache greeting photo --user ana",
		RunE: func(c *cobra.Command, args []string) error {
			return r.withClient(func(api *client.Client) error {
				for _, key := range args[1:] {
					if err := api.KVDelete(c.Context(), args[0], key, o); err != nil {
						return r.failed(err, "delete %q", key)
					}
				}
				return nil
			})
		},
	}
	r.flags(c)
	c.Flags().StringVar(&o.IfVersion, "if-version", "", "only if it has this version")
	return c
}

func newKVTTL() *cobra.Command {
	r, ttl, until := &remote{}, "", ""
	c := &cobra.Command{
		Use: "ttl NAMESPACE KEY", Short: "Print how long a key still lives, or change it", Args: cobra.ExactArgs(2),
		Long: "It prints the time that is left, to the millisecond, or never. With --ttl or --until the expiry changes and the value stays.\n\n" + kvHelp, Example: "  mayfly kv ttl cache greeting --user ana\n  mayfly kv ttl cache greeting --ttl 1h",
		RunE: func(c *cobra.Command, args []string) error {
			var o client.KVOptions
			if err := readExpiry(c, &o, ttl, until); err != nil {
				return err
			}
			return r.withClient(func(api *client.Client) error {
				var err error
				if ttl != "" || until != "" {
					_, err = api.KVTouch(c.Context(), args[0], args[1], o)
				}
				var e client.KVEntry
				if err == nil {
					e, err = api.KVStat(c.Context(), args[0], args[1])
				}
				if err != nil {
					return r.failed(admin.OrAbsent(err, "key %q in %s; it may have expired", args[1], args[0]), "ttl")
				}
				if r.json {
					return writeJSON(c.OutOrStdout(), kvShown(args[1], e))
				}
				text := "never"
				if e.ExpiresAt != 0 {
					text = e.Left
				}
				_, err = fmt.Fprintln(c.OutOrStdout(), text)
				return err
			})
		},
	}
	r.flags(c)
	expiryFlags(c, &ttl, &until)
	return c
}

func newKVScan() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "scan NAMESPACE [PREFIX]", Short: "List the keys of a namespace", Args: cobra.RangeArgs(1, 2),
		Long: "One key a line; one with control characters, or of bytes that are no text, is quoted. With --json version and expiry too.\n\n" + kvHelp, Example: "  mayfly kv scan cache user: --user ana",
		RunE: func(c *cobra.Command, args []string) error {
			prefix := ""
			if len(args) == 2 {
				prefix = args[1]
			}
			return r.withClient(func(api *client.Client) error {
				for e, err := range api.KVScan(c.Context(), args[0], prefix) {
					if err != nil {
						return r.failed(err, "scan %s", args[0])
					}
					if r.json {
						err = writeJSON(c.OutOrStdout(), kvShown(e.Key, e))
					} else {
						_, err = fmt.Fprintln(c.OutOrStdout(), printable(e.Key))
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	r.flags(c)
	return c
}

// printable returns a key as it is, or quoted if a terminal could not show it.
func printable(key string) string {
	for _, char := range key {
		if !unicode.IsPrint(char) || char == unicode.ReplacementChar {
			return strconv.Quote(key)
		}
	}
	return key
}

func newKVNamespace() *cobra.Command {
	c := &cobra.Command{
		Use: "namespace", Short: "Make, list and drop namespaces of your own, and their keys",
		Long: "A namespace belongs to the user, or the service, that makes it. Names are shared by all users of a server. A namespace has at\n" +
			"most two keys, so that one can replace the other: add the second, give it to the programs, remove the first.",
		Example: "  mayfly kv namespace add cache --default-ttl 1h --user ana\n  mayfly kv namespace list --user ana\n" +
			"  mayfly kv namespace key add cache --user ana\n  mayfly kv namespace key remove cache 7KQ2M4XA --user ana\n  mayfly kv namespace drop cache --user ana",
	}
	key := &cobra.Command{Use: "key", Short: "Make and remove keys of a namespace of your own", Example: "  mayfly kv namespace key add cache --user ana"}
	key.AddCommand(newNamespaceKeyAdd(), newNamespaceKeyRemove())
	c.AddCommand(newNamespaceAdd(), newNamespaceList(), newNamespaceDrop(), key)
	return c
}

func newNamespaceAdd() *cobra.Command {
	r, n, quota := &remote{}, wire.NewKVNamespace{}, int64(0)
	c := &cobra.Command{
		Use: "add NAME", Short: "Make a namespace and print its first key, which is not shown again", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			n.Name = args[0]
			if c.Flags().Changed("quota") {
				n.Quota = &quota
			}
			return r.withClient(func(api *client.Client) error {
				made, err := api.CreateKVNamespace(c.Context(), n)
				if err != nil {
					return r.failed(err, "make the namespace %s", n.Name)
				}
				if r.json {
					return writeJSON(c.OutOrStdout(), made)
				}
				return showKey(c, n.Name, made.Credentials[0])
			})
		},
	}
	r.flags(c)
	f := c.Flags()
	f.StringVar(&n.DefaultTTL, "default-ttl", "", "time to live of keys that are written without one, such as 1h (default: the server's)")
	f.StringVar(&n.LongestTTL, "longest-ttl", "", "longest time to live (default: the server's)")
	f.Int64Var(&quota, "quota", 0, "bytes of keys and values (default: the server's)")
	f.BoolVar(&n.Events, "events", false, "announce keys that expire; cannot be changed later")
	f.BoolVar(&n.LastWriteWins, "last-write-wins", false, "on a cluster, write without agreement; cannot be changed later")
	return c
}

// showKey prints a new key, with a line for people beside it.
func showKey(c *cobra.Command, namespace string, made wire.KVCredential) error {
	if _, err := fmt.Fprintln(c.ErrOrStderr(), "key "+made.ID+" of "+namespace+", which is not shown again:"); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.OutOrStdout(), made.Key)
	return err
}

func newNamespaceList() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "list", Short: "List your namespaces", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return r.withClient(func(api *client.Client) error {
				all, err := api.KVNamespaces(c.Context())
				if err != nil {
					return r.failed(err, "list the namespaces")
				}
				if r.json {
					return writeJSON(c.OutOrStdout(), all)
				}
				w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
				fmt.Fprintln(w, "NAME\tQUOTA\tDEFAULT TTL\tLONGEST TTL\tEVENTS\tKEYS")
				for _, n := range all {
					keys := ""
					for _, k := range n.Credentials {
						keys += k.ID + " "
					}
					fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%t\t%s\n", n.Name, n.Quota, orNever(n.DefaultTTL), orNever(n.LongestTTL), n.Events, keys)
				}
				return w.Flush()
			})
		},
	}
	r.flags(c)
	return c
}

func orNever(ttl string) string {
	if ttl == "" {
		return "never"
	}
	return ttl
}

func newNamespaceDrop() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "drop NAME", Short: "Remove a namespace with everything in it", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return r.withClient(func(api *client.Client) error {
				if err := api.DropKVNamespace(c.Context(), args[0]); err != nil {
					return r.failed(admin.OrAbsent(err, "namespace %s of yours", args[0]), "drop")
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "%s is removed\n", args[0])
				return err
			})
		},
	}
	r.flags(c)
	return c
}

func newNamespaceKeyAdd() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "add NAMESPACE", Short: "Make another key and print it", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return r.withClient(func(api *client.Client) error {
				made, err := api.AddKVCredential(c.Context(), args[0])
				if err != nil {
					return r.failed(admin.OrAbsent(err, "namespace %s of yours", args[0]), "make a key")
				}
				return showKey(c, args[0], made)
			})
		},
	}
	r.flags(c)
	return c
}

func newNamespaceKeyRemove() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "remove NAMESPACE ID", Short: "Remove a key; connections that use it end within a second", Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			return r.withClient(func(api *client.Client) error {
				if err := api.RemoveKVCredential(c.Context(), args[0], args[1]); err != nil {
					return r.failed(admin.OrAbsent(err, "key %s of a namespace %s of yours", args[1], args[0]), "remove the key")
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "key %s of %s is removed\n", args[1], args[0])
				return err
			})
		},
	}
	r.flags(c)
	return c
}
