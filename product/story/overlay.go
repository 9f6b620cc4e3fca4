package story

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
)

// The bounds of overlays.
const (
	maxOverlayBytes  = 64 << 10
	maxOverlays      = 50
	maxOverlayText   = 500 // characters
	maxOverlayTarget = 2_048
	maxOptions       = 10
	maxOption        = 100 // characters
	maxScale         = 100
	maxRotation      = 360 // degrees, either way
)

// overlayFormat is the first byte of a body's data, so that it can change.
const overlayFormat = 1

func overlayKinds() []string {
	return []string{"text", "mention", "hashtag", "link", "location", "poll", "question", "music", "emoji"}
}

// overlay is one sticker: what it is, and where on which medium. Its fields are
// the schema.
type overlay struct {
	Kind     string   `json:"kind"`
	Medium   int      `json:"medium,omitempty"` // on which of the story's media
	X        float64  `json:"x"`                // of its middle, from 0 at the left to 1
	Y        float64  `json:"y"`                // from 0 at the top to 1
	Scale    float64  `json:"scale,omitempty"`
	Rotation float64  `json:"rotation,omitempty"` // degrees
	Text     string   `json:"text,omitempty"`
	Target   string   `json:"target,omitempty"`  // a user, a URL, a place, a track
	Options  []string `json:"options,omitempty"` // of a poll
	Style    string   `json:"style,omitempty"`
}

// checkOverlays checks overlays against the schema and returns them in one
// canonical spelling; nil when there are none.
func checkOverlays(raw json.RawMessage) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if len(raw) > maxOverlayBytes {
		return nil, mayfly.Errorf(mayfly.TooLarge, "overlays of %d bytes, at most %d", len(raw), maxOverlayBytes).WithHint("use fewer or shorter overlays")
	}
	if !utf8.Valid(raw) {
		return nil, badOverlay("they are not UTF-8", "send JSON in UTF-8")
	}
	in := json.NewDecoder(bytes.NewReader(raw))
	in.DisallowUnknownFields()
	var all []overlay
	if err := in.Decode(&all); err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("overlays: %w", err), overlaySchema())
	}
	if _, err := in.Token(); !errors.Is(err, io.EOF) {
		return nil, badOverlay("something follows the list", overlaySchema())
	}
	if len(all) == 0 {
		return nil, nil
	}
	if len(all) > maxOverlays {
		return nil, badOverlay(fmt.Sprintf("%d of them, at most %d", len(all), maxOverlays), "use fewer overlays")
	}
	for i := range all {
		if err := all[i].check(); err != nil {
			return nil, fmt.Errorf("overlay %d: %w", i, err)
		}
	}
	spelled, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("overlays: %w", err)
	}
	if len(spelled) > 2*maxOverlayBytes {
		return nil, mayfly.Errorf(mayfly.TooLarge, "overlays of %d bytes once spelled out", len(spelled)).WithHint("use fewer or shorter overlays")
	}
	return spelled, nil
}

func overlaySchema() string {
	return "send a list of objects with kind (" + strings.Join(overlayKinds(), ", ") + "), x and y from 0 to 1, and where they apply medium, scale, rotation, text, target, options, style"
}

func badOverlay(what, hint string) error {
	return mayfly.Errorf(mayfly.Invalid, "overlays: %s", what).WithHint(hint)
}

// check checks one overlay against the schema and removes control characters.
func (o *overlay) check() (err error) {
	outside := func(v, most float64) bool { return math.Abs(v) > most }
	switch {
	case !slices.Contains(overlayKinds(), o.Kind):
		return badOverlay(fmt.Sprintf("%.40q is no kind", o.Kind), "choose one of "+strings.Join(overlayKinds(), ", "))
	case o.Medium < 0 || o.Medium >= mayfly.MaxMedia:
		return badOverlay("there is no such medium", "count the story's media from 0")
	case o.X < 0 || o.X > 1 || o.Y < 0 || o.Y > 1:
		return badOverlay("x or y is outside of the picture", "x and y go from 0 to 1")
	case o.Scale < 0 || outside(o.Scale, maxScale) || outside(o.Rotation, maxRotation):
		return badOverlay("scale or rotation is out of range", "scale goes from 0 to 100, rotation from -360 to 360 degrees")
	case len(o.Options) > maxOptions || len(o.Options) > 0 && o.Kind != "poll":
		return badOverlay("options that do not fit", "a poll has at most 10 options, other kinds none")
	}
	if o.Text, err = mayfly.CleanText("text", o.Text, maxOverlayText); err != nil {
		return err
	}
	if o.Style, err = mayfly.CleanText("style", o.Style, maxOption); err != nil {
		return err
	}
	for i := range o.Options {
		if o.Options[i], err = mayfly.CleanText("option", o.Options[i], maxOption); err != nil {
			return err
		}
	}
	if o.Target, err = mayfly.CleanText("target", o.Target, maxOverlayTarget); err != nil {
		return err
	}
	return o.checkLink()
}

// checkLink accepts web addresses only: a viewer that follows a link must not run
// a script.
func (o *overlay) checkLink() error {
	if o.Kind != "link" {
		return nil
	}
	u, err := url.Parse(o.Target)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return badOverlay("the target of a link is no web address", "begin it with https://")
	}
	return nil
}

func overlayData(overlays []byte) []byte {
	if overlays == nil {
		return nil
	}
	return append([]byte{overlayFormat}, overlays...)
}

func readOverlays(data []byte) (json.RawMessage, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if data[0] != overlayFormat {
		return nil, mayfly.Errorf(mayfly.Corrupt, "overlays of an unknown format")
	}
	return json.RawMessage(data[1:]), nil
}
