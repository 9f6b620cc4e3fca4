package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/client"
)

func newPaste() *cobra.Command {
	p := &pasteCreate{}
	c := &cobra.Command{
		Use: "paste [FILE]", Short: "Create, read and delete pastes on a server",
		Long: "Sends a file, or standard input, to a running server (mayfly serve) and prints the URL of the paste. Authenticate with\n" +
			"--token or MAYFLY_TOKEN, or with --user and the key of the server's data folder; a server with pastes.anonymous needs neither.",
		Example: "  mayfly paste notes.txt --user ana --lifetime 2h\n  make 2>&1 | mayfly paste --user ana --burn\n  mayfly paste read ID --consume\n  mayfly paste list --user ana",
		Args:    cobra.MaximumNArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return p.run(c, args) },
	}
	p.remote.flags(c)
	f := c.Flags()
	f.StringVar(&p.paste.Lifetime, "lifetime", "", "such as 10m, 2h, 30d or 1y (default: the server's)")
	f.BoolVar(&p.burn, "burn", false, "delete it when it is read for the first time")
	f.IntVar(&p.paste.Reads, "reads", 0, "delete it when it has been read so often")
	f.StringVar(&p.paste.Title, "title", "", "title (default: the name of the file)")
	f.StringVar(&p.paste.Language, "language", "", "language for highlighting (default: found out)")
	f.BoolVar(&p.paste.Private, "private", false, "only you may read it")
	f.StringVar(&p.passwordFile, "password-file", "", "file whose first line readers must send as password")
	c.AddCommand(newPasteRead(), newPasteList(), newPasteDelete())
	return c
}

type pasteCreate struct {
	remote       remote
	paste        client.NewPaste
	burn         bool
	passwordFile string
}

func (p *pasteCreate) run(c *cobra.Command, args []string) (err error) {
	if p.burn && p.paste.Reads > 1 {
		return usage(mayfly.Errorf(mayfly.Invalid, "--burn means one read, and --reads is %d", p.paste.Reads).WithHint("use one of the two"))
	}
	if p.burn {
		p.paste.Reads = 1
	}
	if p.paste.Password, err = passwordIn(p.passwordFile); err != nil {
		return err
	}
	in, name := c.InOrStdin(), "standard input"
	if len(args) == 1 && args[0] != "-" {
		file, err := os.Open(args[0])
		if err != nil {
			return mayfly.Wrap(mayfly.NotFound, err, "name a file, or send it on standard input")
		}
		defer func() { _ = file.Close() }() // only read
		info, err := file.Stat()
		if err != nil {
			return err
		}
		in, name, p.paste.Size = file, filepath.Base(args[0]), info.Size()
		if p.paste.Title == "" {
			p.paste.Title = name
		}
	}
	api, err := p.remote.client()
	if err != nil {
		return err
	}
	defer api.Close()
	sending := progress.NewUpload(c.ErrOrStderr(), p.remote.json, []progress.File{{Name: name, Size: p.paste.Size}})
	p.paste.Content = &sent{r: in, report: func(n int64) { sending.Update(0, n, p.paste.Size) }}
	made, err := api.CreatePaste(c.Context(), p.paste)
	sending.End(err == nil)
	if err != nil {
		return p.remote.failed(err, "create the paste")
	}
	if p.remote.json {
		return writeJSON(c.OutOrStdout(), made)
	}
	until := "it never expires"
	if made.ExpiresAt != nil {
		until = "expires " + made.ExpiresAt.String()
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s\n", made.URL)
	if err == nil {
		_, err = fmt.Fprintf(c.ErrOrStderr(), "%s; to delete it: mayfly paste delete %s --delete-token %s\n", until, made.Short, made.DeleteToken)
	}
	return err
}

// sent reports how much was read.
type sent struct {
	r      io.Reader
	n      int64
	report func(int64)
}

func (s *sent) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	s.n += int64(n)
	s.report(s.n)
	return n, err
}

// passwordIn reads the password in a file; empty without one. It is never an
// argument, which other users of the machine can see.
func passwordIn(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return "", mayfly.Wrap(mayfly.NotFound, err, "--password-file names a file")
	}
	line, _, _ := strings.Cut(string(text), "\n")
	return strings.TrimSuffix(line, "\r"), nil
}

func newPasteRead() *cobra.Command {
	r, file, consume := &remote{}, "", false
	c := &cobra.Command{
		Use: "read ID", Short: "Print the content of a paste", Args: cobra.ExactArgs(1),
		Example: "  mayfly paste read ID > notes.txt\n  mayfly paste read ID --consume --password-file secret",
		RunE: func(c *cobra.Command, args []string) error {
			password, err := passwordIn(file)
			if err != nil {
				return err
			}
			return r.withID(args, func(api *client.Client, id mayfly.ID) error {
				in, err := api.ReadPaste(c.Context(), id, password, consume)
				if err != nil {
					return r.failed(err, "read %s", id)
				}
				_, err = io.Copy(c.OutOrStdout(), in)
				if closed := in.Close(); err == nil {
					err = closed
				}
				return err
			})
		},
	}
	r.flags(c)
	c.Flags().BoolVar(&consume, "consume", false, "use up a read of a paste whose reads are limited")
	c.Flags().StringVar(&file, "password-file", "", "file whose first line is the password")
	return c
}

func newPasteList() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "list", Short: "List your pastes, newest first", Args: cobra.NoArgs, Example: "  mayfly paste list --user ana",
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := r.client()
			if err != nil {
				return err
			}
			defer api.Close()
			all := wire.Pastes{Pastes: []wire.Paste{}}
			for p, err := range api.Pastes(c.Context()) {
				if err != nil {
					return r.failed(err, "list pastes")
				}
				all.Pastes = append(all.Pastes, p)
			}
			if r.json {
				return writeJSON(c.OutOrStdout(), all)
			}
			for _, p := range all.Pastes {
				until := "never"
				if p.ExpiresAt != nil {
					until = p.ExpiresAt.String()
				}
				if _, err := fmt.Fprintf(c.OutOrStdout(), "%s  until %s  %8d bytes  %s\n", p.Short, until, p.Size, p.Title); err != nil {
					return err
				}
			}
			return nil
		},
	}
	r.flags(c)
	return c
}

func newPasteDelete() *cobra.Command {
	r, token := &remote{}, ""
	c := &cobra.Command{
		Use: "delete ID", Short: "Delete a paste: your own, or one whose delete token you have", Args: cobra.ExactArgs(1),
		Example: "  mayfly paste delete ID --user ana\n  mayfly paste delete ID --delete-token TOKEN",
		RunE: func(c *cobra.Command, args []string) error {
			return r.withID(args, func(api *client.Client, id mayfly.ID) error {
				if err := api.DeletePaste(c.Context(), id, token); err != nil {
					return r.failed(err, "delete %s", id)
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "%s is deleted\n", id.Short())
				return err
			})
		},
	}
	r.flags(c)
	c.Flags().StringVar(&token, "delete-token", "", "token that was printed when the paste was created")
	return c
}
