// Package text checks the text of a post and finds what it names: mentions, hashtags
// and links.
//
// It reads text as it is written: it resolves no name, follows no link and never
// changes a letter. Its results are positions in the text, so that a client can show
// exactly what was written.
package text

import (
	"strings"

	"github.com/clipperhouse/uax29/v2/graphemes"

	"github.com/mayflyhq/mayfly"
)

// The bounds of a text (F1).
const (
	MaxGraphemes = 280     // what a reader sees as one character counts as one
	MaxBytes     = 4 << 10 // because such a character may have any number of bytes
)

// Clean returns the text of a post without control characters, including those that
// change the direction of what follows, and without white space around it. Errors:
// TooLarge (its bytes), Invalid.
func Clean(text string) (string, error) {
	if len(text) > MaxBytes { // before anything looks at each of them
		return "", mayfly.Errorf(mayfly.TooLarge, "the text has %d bytes, at most %d", len(text), MaxBytes).WithHint("make it shorter")
	}
	text, err := mayfly.CleanText("text", text, MaxBytes)
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(text)
	n := 0
	for g := graphemes.FromString(text); g.Next(); {
		n++
	}
	if n > MaxGraphemes {
		return "", mayfly.Errorf(mayfly.Invalid, "the text has %d characters, at most %d", n, MaxGraphemes).WithHint("make it shorter, or publish a thread")
	}
	return text, nil
}
