package cli

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"os"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
)

func newStoryPicture() *cobra.Command {
	return &cobra.Command{
		Use: "picture FILE", Short: "Create a small picture for a first try",
		Long:    "Writes a JPEG, the same one every time. It does not overwrite a different file.",
		Example: "  mayfly story picture photo.jpg",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			picture, err := paint()
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

// paint draws a sun over the sea.
func paint() ([]byte, error) {
	const width, height, horizon, radius = 480, 320, 200, 56
	picture := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			dx, dy := x-width/2, y-horizon
			inSun := dx*dx+dy*dy < radius*radius
			shade := uint8(y * 120 / height)
			c := color.RGBA{255 - shade/2, 150 + shade/2, 90 + shade, 255} // sky
			switch {
			case y > horizon && inSun && y%8 < 5:
				c = color.RGBA{255, 210, 120, 255} // its light on the water
			case y > horizon:
				c = color.RGBA{20, 60 + shade/2, 110 + shade/2, 255}
			case inSun:
				c = color.RGBA{255, 235, 160, 255}
			}
			picture.SetRGBA(x, y, c)
		}
	}
	out := new(bytes.Buffer)
	err := jpeg.Encode(out, picture, &jpeg.Options{Quality: 85})
	return out.Bytes(), err
}
