package cli

import (
	"encoding/json"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

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
	for _, file := range files {
		source, err := client.File(file)
		if err != nil {
			return err
		}
		media = append(media, source)
	}
	api, err := p.remote.client()
	if err != nil {
		return err
	}
	defer api.Close()
	sending := newSending(c.ErrOrStderr(), media, p.remote.json)
	story, err := api.PublishUpload(c.Context(), client.Publication{Story: p.story, Media: media, Key: p.key, Progress: sending.update})
	sending.end(err == nil)
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

// show prints a story.
func (r *remote) show(c *cobra.Command, s wire.Story) error {
	if r.json {
		return writeJSON(c.OutOrStdout(), s)
	}
	printStory(c.OutOrStdout(), s)
	return nil
}
