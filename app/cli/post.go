package cli

import (
	"crypto/rand"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func newPost() *cobra.Command {
	r, in, replyTo, quote, files := &remote{}, wire.NewPost{}, "", "", []string{}
	c := &cobra.Command{
		Use: "post [TEXT]", Short: "Publish, read and delete posts on a server", Args: cobra.MaximumNArgs(1),
		Long:    "Publishes a post on a running server (mayfly serve) and prints its id. Authenticate with --token or MAYFLY_TOKEN, or with\n--user and the key of the server's data folder.",
		Example: "  mayfly post 'hello #sea' --user ana\n  mayfly post 'me too' --user ben --reply-to ID --lifetime 24h\n  mayfly post 'at the sea' --user ana --media sea.jpg --media sand.jpg\n  mayfly post list '~ana' --user ben",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && len(files) == 0 {
				return usage(mayfly.Errorf(mayfly.Invalid, "the post is empty").WithHint("give a text, or media with --media"))
			}
			in.Text = strings.Join(args, "")
			for text, into := range map[string]**mayfly.ID{replyTo: &in.ReplyTo, quote: &in.Quote} {
				if text == "" {
					continue
				}
				id, err := mayfly.ParseID(text)
				if err != nil {
					return usage(err)
				}
				*into = &id
			}
			media := make([]client.Source, len(files))
			for n, path := range files {
				var err error
				if media[n], err = client.File(path); err != nil {
					return err
				}
			}
			api, err := r.client()
			if err != nil {
				return err
			}
			defer api.Close()
			post, err := api.CreatePost(c.Context(), in, rand.Text(), media...)
			if err != nil {
				return r.failed(err, "publish the post")
			}
			if r.json {
				return writeJSON(c.OutOrStdout(), post)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), post.ID)
			return err
		},
	}
	r.flags(c)
	f := c.Flags()
	f.StringVar(&replyTo, "reply-to", "", "id of the post that it replies to")
	f.StringVar(&quote, "quote", "", "id of the post that it quotes")
	f.StringArrayVar(&files, "media", nil, "file of a medium, up to 4 times")
	f.StringVar(&in.Lifetime, "lifetime", "", "such as 10m, 24h or never (default: the server's)")
	c.AddCommand(newPostList(), newPostThread(), newPostDelete())
	return c
}

func newPostList() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "list USER", Short: "List a user's posts, newest first", Args: cobra.ExactArgs(1), Example: "  mayfly post list '~ana' --user ben",
		RunE: func(c *cobra.Command, args []string) error {
			api, err := r.client()
			if err != nil {
				return err
			}
			defer api.Close()
			all := wire.Posts{Posts: []wire.Post{}}
			for p, err := range api.PostsOf(c.Context(), args[0]) {
				if err != nil {
					return r.failed(err, "list posts")
				}
				all.Posts = append(all.Posts, p)
			}
			if r.json {
				return writeJSON(c.OutOrStdout(), all)
			}
			return printPosts(c.OutOrStdout(), all.Posts...)
		},
	}
	r.flags(c)
	return c
}

func printPosts(w io.Writer, posts ...wire.Post) error {
	for _, p := range posts {
		if _, err := fmt.Fprintf(w, "%s  %s  %-6s  %q\n", p.BornAt, p.ID, p.Kind, textOf(p)); err != nil {
			return err
		}
	}
	return nil
}

func newPostThread() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "thread ID", Short: "Show what a post replies to, the post, and the replies to it", Args: cobra.ExactArgs(1), Example: "  mayfly post thread ID --user ben",
		RunE: func(c *cobra.Command, args []string) error {
			return r.withID(args, func(api *client.Client, id mayfly.ID) error {
				thread := wire.Thread{Replies: []wire.Post{}}
				for p, err := range api.Thread(c.Context(), id, &thread) {
					if err != nil {
						return r.failed(err, "show the thread of %s", id)
					}
					thread.Replies = append(thread.Replies, p)
				}
				if r.json {
					return writeJSON(c.OutOrStdout(), thread)
				}
				return printPosts(c.OutOrStdout(), append(append(thread.Ancestors, thread.Post), thread.Replies...)...)
			})
		},
	}
	r.flags(c)
	return c
}

// textOf returns the text of a post, of a repost that of what it reposts.
func textOf(p wire.Post) string {
	if p.Of != nil && p.Kind == "repost" {
		return p.Of.Text
	}
	return p.Text
}

func newHome() *cobra.Command {
	r, cursor, limit := &remote{}, "", 0
	c := &cobra.Command{
		Use: "home", Short: "Show what those whom you follow have posted, newest first", Args: cobra.NoArgs,
		Long:    "Shows a page of your home on a running server (mayfly serve). Authenticate with --token or MAYFLY_TOKEN, or with --user and\nthe key of the server's data folder.",
		Example: "  mayfly home --user ben\n  mayfly home --user ben --limit 5 --cursor NEXT",
		RunE: func(c *cobra.Command, _ []string) error {
			api, err := r.client()
			if err != nil {
				return err
			}
			defer api.Close()
			page, err := api.Home(c.Context(), cursor, limit)
			if err != nil {
				return r.failed(err, "read your home")
			}
			if r.json {
				return writeJSON(c.OutOrStdout(), page)
			}
			names := map[mayfly.UserID]string{}
			for _, a := range page.Authors {
				if names[a.User] = a.User.String(); a.Handle != "" {
					names[a.User] = "@" + a.Handle
				}
			}
			for _, p := range page.Posts {
				by := names[p.Author]
				if p.Of != nil && p.Kind == "repost" {
					by += " reposts " + names[p.Of.Author]
				}
				if _, err := fmt.Fprintf(c.OutOrStdout(), "%s  %s  %s  %q\n", p.BornAt, p.ID, by, textOf(p)); err != nil {
					return err
				}
			}
			if page.Next != "" {
				_, err = fmt.Fprintf(c.OutOrStdout(), "more: mayfly home --cursor %s\n", page.Next)
			}
			return err
		},
	}
	r.flags(c)
	c.Flags().StringVar(&cursor, "cursor", "", "go on where a page has ended")
	c.Flags().IntVar(&limit, "limit", 0, "posts on the page, 1 to 200 (default: the server's)")
	return c
}

func newPostDelete() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "delete ID", Short: "Delete an own post", Args: cobra.ExactArgs(1), Example: "  mayfly post delete ID --user ana",
		RunE: func(c *cobra.Command, args []string) error {
			return r.withID(args, func(api *client.Client, id mayfly.ID) error {
				if err := api.DeletePost(c.Context(), id); err != nil {
					return r.failed(err, "delete %s", id)
				}
				_, err := fmt.Fprintf(c.OutOrStdout(), "%s is deleted\n", id)
				return err
			})
		},
	}
	r.flags(c)
	return c
}
