package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// token is a word of a script, or what stands between quotes in it.
type token struct {
	text   string
	quoted bool
}

func (t token) String() string {
	if t.quoted {
		return strconv.Quote(t.text)
	}
	return t.text
}

// tokens splits a sentence at blanks and commas; what is quoted stays whole.
func tokens(sentence string) ([]token, error) {
	var all []token
	for rest := sentence; ; {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			return all, nil
		}
		if text, ok := strings.CutPrefix(rest, `"`); ok {
			end := strings.IndexByte(text, '"')
			if end < 0 {
				return nil, fmt.Errorf("a quote is opened and never closed: %s", rest)
			}
			all, rest = append(all, token{text[:end], true}), text[end+1:]
			continue
		}
		end := strings.IndexAny(rest, " \t,\"")
		if end < 0 {
			end = len(rest)
		}
		all, rest = append(all, token{text: rest[:end]}), rest[end:]
	}
}

// parseSpan reads HH:MM:SS[.mmm]; the hours may be more than a day's.
func parseSpan(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is no time: write HH:MM:SS or HH:MM:SS.mmm", text)
	whole, fraction, exact := strings.Cut(text, ".")
	parts := strings.Split(whole, ":")
	if len(parts) != 3 || exact && len(fraction) != 3 {
		return 0, bad
	}
	if exact {
		parts = append(parts, fraction)
	}
	var sum time.Duration
	for i, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond}[:len(parts)] {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if err != nil || i > 0 && len(parts[i]) < 2 || (i == 1 || i == 2) && n > 59 {
			return 0, bad
		}
		sum += time.Duration(n) * unit
	}
	return sum, nil
}

// nearest is the word of a list that is most like the one that was written; ""
// when none is.
func nearest(written string, known []string) string {
	best, found := max(1, len(written)/3)+1, ""
	for _, word := range known {
		if d := distance(written, word); d < best {
			best, found = d, word
		}
	}
	return found
}

// distance is how many letters must be put in, taken out or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left, diagonal := i+1, row[0]
		row[0] = left
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
