package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/demo"
)

func newStory() *cobra.Command {
	c := &cobra.Command{
		Use: "story", Short: "Publish, open and manage stories on a server",
		Long: "Sends requests to a running server (mayfly serve). Authenticate with --token or MAYFLY_TOKEN, or with --user and the key of\n" +
			"the server's data folder. Without a token you can read what is public.",
		Example: "  mayfly story picture photo.jpg\n  mayfly story publish photo.jpg --user ana --audience everyone\n" +
			"  mayfly story ring ~ana\n  mayfly story archive --user ana",
	}
	c.AddCommand(newStoryPublish(), newStoryOpen(), newStoryRing(), newStoryArchive(), newStoryReshare(), newStoryDelete(), newStoryPicture())
	return c
}

// audiences returns the audiences of a story.
func audiences() []string { return []string{"everyone", "followers", "close_friends"} }

func newStoryPublish() *cobra.Command {
	p := &storyPublish{}
	c := &cobra.Command{
		Use: "publish FILE…", Short: "Publish a story of 1 to 10 images and videos",
		Long: "Uploads the files to the server, or directly to its object storage if it offers that, and prints the new story. The server\n" +
			"removes metadata such as the location from the files. If the connection fails the upload is retried; the story is published\n" +
			"only once.",
		Example: "  mayfly story publish photo.jpg --user ana\n  mayfly story publish a.jpg b.mp4 --user ana --audience close_friends --for 6h --caption 'by the sea'",
		Args:    cobra.RangeArgs(1, mayfly.MaxMedia),
		RunE:    func(c *cobra.Command, args []string) error { return p.run(c, args) },
	}
	p.remote.flags(c)
	c.Flags().StringVar(&p.story.Audience, "audience", "followers", "everyone, followers or close_friends")
	c.Flags().StringVar(&p.story.Lifetime, "for", "", "lifetime, such as 24h (default: the server's)")
	c.Flags().StringVar(&p.story.Caption, "caption", "", "text below the story")
	c.Flags().StringVar(&p.overlays, "overlays", "", "file with a JSON list of stickers")
	c.Flags().StringVar(&p.key, "key", "", "idempotency key, to retry safely when the outcome is unknown")
	completeWords(c, "audience", audiences()...)
	return c
}

type storyPublish struct {
	remote   remote
	story    wire.NewStory
	overlays string
	key      string
}

func (p *storyPublish) run(c *cobra.Command, files []string) error {
	if err := checkAudience(p.story.Audience); err != nil {
		return err
	}
	if p.overlays != "" {
		text, err := os.ReadFile(p.overlays)
		if err != nil {
			return mayfly.Wrap(mayfly.NotFound, err, "--overlays names a JSON file")
		}
		if !json.Valid(text) {
			return usage(mayfly.Errorf(mayfly.Invalid, "%s is not JSON", p.overlays).WithHint(`write a list such as [{"kind":"text","x":0.5,"y":0.5,"text":"hi"}]`))
		}
		p.story.Overlays = text
	}
	var media []client.Source
	var sizes []progress.File
	for _, file := range files {
		source, err := client.File(file)
		if err != nil {
			return err
		}
		media, sizes = append(media, source), append(sizes, progress.File{Name: source.Name, Size: source.Size})
	}
	api, err := p.remote.client()
	if err != nil {
		return err
	}
	defer api.Close()
	sending := progress.NewUpload(c.ErrOrStderr(), p.remote.json, sizes)
	story, err := api.PublishUpload(c.Context(), client.Publication{Story: p.story, Media: media, Key: p.key, Progress: sending.Update})
	sending.End(err == nil)
	if err != nil {
		return p.remote.failed(err, "publish")
	}
	return p.remote.show(c, story)
}

func checkAudience(text string) error {
	if text != "" && !slices.Contains(audiences(), text) {
		return usage(mayfly.Errorf(mayfly.Invalid, "invalid --audience %s", text).WithHint("choose everyone, followers or close_friends"))
	}
	return nil
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

func newStoryPicture() *cobra.Command {
	return &cobra.Command{
		Use: "picture FILE", Short: "Create a small picture for a first try",
		Long:    "Writes a JPEG, the same one every time. It does not overwrite a different file.",
		Example: "  mayfly story picture photo.jpg",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			picture, err := demo.Picture()
			if err != nil {
				return err
			}
			if there, err := os.ReadFile(args[0]); err == nil && !bytes.Equal(there, picture) {
				return mayfly.Errorf(mayfly.Conflict, "%s exists and is a different file", args[0]).WithHint("choose another name")
			}
			if err := os.WriteFile(args[0], picture, 0o644); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%s: a picture of %s bytes\n", args[0], humanize.Comma(int64(len(picture))))
			return err
		},
	}
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
