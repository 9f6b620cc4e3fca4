package resp

import (
	"bytes"
	"strings"
)

// splitWords splits an inline command into its arguments. Words may be quoted: "..."
// with the escapes \n \r \t \b \a \xHH, and '...' with \'. It returns false if a quote
// is not closed, or is followed by something other than a space.
func splitWords(line []byte) (words [][]byte, ok bool) {
	for {
		line = bytes.TrimLeft(line, spaces)
		if len(line) == 0 {
			return words, true
		}
		var word []byte
		if word, line, ok = cutWord(line); !ok {
			return nil, false
		}
		words = append(words, word)
	}
}

// cutWord returns the first word of a line that does not begin with a space.
func cutWord(line []byte) (word, rest []byte, ok bool) {
	word = []byte{}
	for len(line) > 0 {
		switch c := line[0]; {
		case isSpace(c):
			return word, line, true
		case c == '"' || c == '\'':
			quoted, rest, closed := cutQuoted(line[1:], c)
			if !closed || len(rest) > 0 && !isSpace(rest[0]) {
				return nil, nil, false
			}
			return append(word, quoted...), rest, true
		default:
			word, line = append(word, c), line[1:]
		}
	}
	return word, nil, true
}

// cutQuoted returns what is before the closing quote, and what is after it.
func cutQuoted(line []byte, quote byte) (quoted, rest []byte, ok bool) {
	for len(line) > 0 {
		switch c := line[0]; {
		case c == quote:
			return quoted, line[1:], true
		case c != '\\' || len(line) < 2:
			quoted, line = append(quoted, c), line[1:]
		case quote == '\'':
			if line[1] != '\'' {
				quoted, line = append(quoted, c), line[1:]
				continue
			}
			quoted, line = append(quoted, '\''), line[2:]
		case line[1] == 'x' && len(line) >= 4 && hex(line[2]) >= 0 && hex(line[3]) >= 0:
			quoted, line = append(quoted, byte(hex(line[2])<<4|hex(line[3]))), line[4:]
		default:
			quoted, line = append(quoted, escaped(line[1])), line[2:]
		}
	}
	return nil, nil, false
}

// spaces are the bytes that separate words.
const spaces = " \t\r\n\v\f\x00"

func isSpace(c byte) bool { return strings.IndexByte(spaces, c) >= 0 }

// escaped returns the byte that a backslash and c stand for.
func escaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// hex returns the value of a hexadecimal digit; -1 if c is none.
func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
