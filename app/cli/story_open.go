package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func newStoryOpen() *cobra.Command {
	r, save := &remote{}, ""
	c := &cobra.Command{
		Use: "open ID", Short: "Open a story and optionally save its media",
		Long:    "Opens a story. With --save it downloads the media and verifies their hashes.",
		Example: "  mayfly story open ID --user ben\n  mayfly story open ID --user ana --save ./photos",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			id, err := idOf(args)
			if err != nil {
				return err
			}
			api, err := r.client()
			if err != nil {
				return err
			}
			defer api.Close()
			story, err := api.Story(c.Context(), id)
			if err != nil {
				return r.failed(err, "open %s", id)
			}
			if err := r.show(c, story); err != nil || save == "" {
				return err
			}
			return saveMedia(c, api, story, save)
		},
	}
	r.flags(c)
	c.Flags().StringVar(&save, "save", "", "folder to save the media in")
	return c
}

func saveMedia(c *cobra.Command, api *client.Client, story wire.Story, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for n, m := range story.Media {
		path := filepath.Join(folder, fmt.Sprintf("%s-%d%s", story.ID, n, extension(m.Type)))
		if err := saveMedium(c.Context(), api, m, path); err != nil {
			return fmt.Errorf("save %s: %w", path, err)
		}
		fmt.Fprintf(c.ErrOrStderr(), "saved %s\n", path)
	}
	return nil
}

// saveMedium downloads to a temporary file and renames it when it is complete.
func saveMedium(ctx context.Context, api *client.Client, m wire.Medium, path string) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".mayfly-*")
	if err != nil {
		return err
	}
	err = errors.Join(api.Download(ctx, m, f, nil), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

func extension(typ string) string {
	switch typ {
	case "image/jpeg":
		return ".jpg"
	case "image/png":
		return ".png"
	case "image/gif":
		return ".gif"
	case "image/webp":
		return ".webp"
	case "video/mp4":
		return ".mp4"
	case "video/webm":
		return ".webm"
	default:
		return ".bin"
	}
}

func newStoryDelete() *cobra.Command {
	r := &remote{}
	c := &cobra.Command{
		Use: "delete ID", Short: "Delete one of your stories, live or archived", Example: "  mayfly story delete ID --user ana",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return r.withID(args, func(api *client.Client, id mayfly.ID) error {
				if err := api.Delete(c.Context(), id); err != nil {
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

func newStoryReshare() *cobra.Command {
	r, change, caption, key := &remote{}, wire.Reshare{}, "", ""
	c := &cobra.Command{
		Use: "reshare ID", Short: "Publish one of your archived stories again, without uploading",
		Example: "  mayfly story reshare ID --user ana\n  mayfly story reshare ID --user ana --audience everyone --for 6h --caption 'a year ago'",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkAudience(change.Audience); err != nil {
				return err
			}
			if c.Flags().Changed("caption") {
				change.Caption = &caption
			}
			return r.withID(args, func(api *client.Client, id mayfly.ID) error {
				story, err := api.Reshare(c.Context(), id, change, key)
				if err != nil {
					return r.failed(err, "reshare %s", id)
				}
				return r.show(c, story)
			})
		},
	}
	r.flags(c)
	c.Flags().StringVar(&change.Audience, "audience", "", "everyone, followers or close_friends (default: unchanged)")
	c.Flags().StringVar(&change.Lifetime, "for", "", "lifetime, such as 24h (default: the server's)")
	c.Flags().StringVar(&caption, "caption", "", "text below the story (default: unchanged)")
	c.Flags().StringVar(&key, "key", "", "idempotency key, to retry safely when the outcome is unknown")
	completeWords(c, "audience", audiences()...)
	return c
}

// withID calls do with a client and the id in the arguments.
func (r *remote) withID(args []string, do func(*client.Client, mayfly.ID) error) error {
	id, err := idOf(args)
	if err != nil {
		return err
	}
	api, err := r.client()
	if err != nil {
		return err
	}
	defer api.Close()
	return do(api, id)
}
