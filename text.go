package mayfly

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// CleanText returns text without control characters, including those that change the
// direction of the surrounding text: what a user writes must not rewrite the page that
// it is shown on. Most is the number of characters that it may have, and what names it
// in errors. Errors: Invalid.
func CleanText(what, text string, most int) (string, error) {
	if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
		return "", Errorf(Invalid, "the %s is not UTF-8 text, or has a NUL in it", what).WithHint("send plain text")
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Bidi_Control, r) && !isMark(r) {
			return -1
		}
		return r
	}, text)
	if n := utf8.RuneCountInString(text); n > most {
		return "", Errorf(Invalid, "the %s has %d characters, at most %d", what, n, most).WithHint("make it shorter")
	}
	return text, nil
}

// isMark reports whether r is an invisible letter of one direction, which texts
// that mix scripts need: it does not change the direction of other letters.
func isMark(r rune) bool { return r == '\u200e' || r == '\u200f' || r == '\u061c' }
