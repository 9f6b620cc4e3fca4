package text

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Kind is what an entity is.
type Kind uint8

// The kinds. Their numbers are part of the stored format.
const (
	Mention Kind = iota + 1 // of a handle
	Hashtag
	Link // with its scheme, http or https
)

// Entity is a part of a text that names something.
type Entity struct {
	Kind       Kind
	Start, End int // in bytes
}

// The lengths of names: of a handle in bytes, of a hashtag in code points.
const (
	minHandle = 3
	maxHandle = 30
	maxTag    = 100
)

// Name returns what the entity names: of a mention the handle in lower case, of a
// hashtag its one spelling for all ways to write it, of a link the link as written.
func (e Entity) Name(text string) string {
	part := text[e.Start:e.End]
	if e.Kind == Link {
		return part
	}
	_, sign := utf8.DecodeRuneInString(part)
	if e.Kind == Mention {
		return strings.ToLower(part[sign:])
	}
	return norm.NFKC.String(cases.Fold().String(norm.NFKC.String(part[sign:])))
}

// Parse finds the entities of a text, in their order. They do not overlap.
func Parse(text string) (all []Entity) {
	before := rune(-1) // the rune before i
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		e := Entity{Start: i}
		switch {
		case (r == 'h' || r == 'H') && !isWord(before):
			e.Kind, e.End = Link, linkEnd(text, i)
		case (r == '@' || r == '＠') && !isWord(before) && !strings.ContainsRune("@＠#/&", before):
			e.Kind, e.End = Mention, mentionEnd(text, i+size)
		case (r == '#' || r == '＃') && !isWord(before) && !strings.ContainsRune("#＃/&", before):
			e.Kind, e.End = Hashtag, tagEnd(text, i+size)
		}
		if e.End > 0 {
			all = append(all, e)
			before, _ = utf8.DecodeLastRuneInString(text[:e.End])
			i = e.End
			continue
		}
		before, i = r, i+size
	}
	return all
}

// isWord reports whether r is part of a word, in any script.
func isWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsDigit(r) || r == '_'
}

// mentionEnd returns where the handle ends that begins at from; 0 if there is none.
func mentionEnd(text string, from int) int {
	end := from
	for end < len(text) && isHandle(text[end]) {
		end++
	}
	after, _ := utf8.DecodeRuneInString(text[end:])
	if n := end - from; n < minHandle || n > maxHandle || end < len(text) && (isWord(after) || after == '@' || after == '＠') {
		return 0
	}
	return end
}

func isHandle(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_'
}

// tagEnd returns where the hashtag ends that begins at from; 0 if there is none. It
// has a letter, and begins with no mark: that would belong to the sign before it.
func tagEnd(text string, from int) int {
	end, runes, hasLetter := 0, 0, false
	for at, r := range text[from:] {
		switch {
		case isWord(r) && (runes > 0 || !unicode.IsMark(r)):
			hasLetter = hasLetter || unicode.IsLetter(r)
			end = from + at + utf8.RuneLen(r)
		case runes > 0 && joins(r): // counted if more of the word follows
		default:
			return tagOr0(end, hasLetter)
		}
		if runes++; runes > maxTag {
			return 0
		}
	}
	return tagOr0(end, hasLetter)
}

func tagOr0(end int, hasLetter bool) int {
	if hasLetter {
		return end
	}
	return 0
}

// joins reports whether r stands inside of words: the joiners of Arabic and Indic
// scripts, and the middle dots of Catalan and Japanese.
func joins(r rune) bool {
	return r == '\u200c' || r == '\u200d' || r == '\u00b7' || r == '\u30fb'
}

// linkEnd returns where the link ends that begins at from; 0 if there is none.
func linkEnd(text string, from int) int {
	rest := text[from:]
	scheme := 0
	for _, s := range []string{"http://", "https://"} {
		if len(rest) > len(s) && strings.EqualFold(rest[:len(s)], s) {
			scheme = len(s)
		}
	}
	if scheme == 0 {
		return 0
	}
	end := strings.IndexFunc(rest, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("<>\"“”«»", r)
	})
	if end < 0 {
		end = len(rest)
	}
	end = trimLink(rest[:end])
	if u, err := url.Parse(rest[:end]); err != nil || u.Hostname() == "" {
		return 0
	}
	return from + end
}

// trimLink returns the length of a link without the punctuation of the sentence that
// it stands in. A closing bracket stays if the link has opened it.
func trimLink(link string) int {
	for link != "" {
		r, size := utf8.DecodeLastRuneInString(link)
		open := map[rune]string{')': "(", ']': "[", '}': "{"}[r]
		if open != "" && strings.Count(link, open) < strings.Count(link, string(r)) || strings.ContainsRune(".,;:!?'’…*_~、。", r) {
			link = link[:len(link)-size]
			continue
		}
		break
	}
	return len(link)
}
