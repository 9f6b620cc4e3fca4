package resp

import "strconv"

// Reply holds answers in the order in which they are sent. Its form is RESP2, or RESP3
// after HELLO 3.
type Reply struct {
	buf   []byte
	three bool
}

// Simple adds a short text without line ends, such as OK.
func (r *Reply) Simple(text string) { r.line('+', text) }

// Error adds an error. Line ends in it become spaces.
func (r *Reply) Error(text string) {
	at := len(r.buf) + 1
	r.line('-', text)
	for i := at; i < len(r.buf)-2; i++ {
		if r.buf[i] == '\r' || r.buf[i] == '\n' {
			r.buf[i] = ' '
		}
	}
}

// Int adds a number.
func (r *Reply) Int(n int64) { r.number(':', n) }

// Bool adds 1 for true and 0 for false.
func (r *Reply) Bool(b bool) {
	if b {
		r.Int(1)
	} else {
		r.Int(0)
	}
}

// Bulk adds a string of bytes.
func (r *Reply) Bulk(b []byte) {
	r.number('$', int64(len(b)))
	r.buf = append(append(r.buf, b...), '\r', '\n')
}

// Text adds a string of bytes.
func (r *Reply) Text(s string) {
	r.number('$', int64(len(s)))
	r.buf = append(append(r.buf, s...), '\r', '\n')
}

// Verbatim adds a text for people.
func (r *Reply) Verbatim(s string) {
	if !r.three {
		r.Text(s)
		return
	}
	r.number('=', int64(len(s)+4))
	r.buf = append(append(append(r.buf, "txt:"...), s...), '\r', '\n')
}

// Null adds the absence of a string.
func (r *Reply) Null() {
	if r.three {
		r.buf = append(r.buf, "_\r\n"...)
	} else {
		r.buf = append(r.buf, "$-1\r\n"...)
	}
}

// NullArray adds the absence of an array.
func (r *Reply) NullArray() {
	if r.three {
		r.buf = append(r.buf, "_\r\n"...)
	} else {
		r.buf = append(r.buf, "*-1\r\n"...)
	}
}

// Array begins an array of n answers, which follow.
func (r *Reply) Array(n int) { r.number('*', int64(n)) }

// Map begins a map of n pairs of answers, which follow.
func (r *Reply) Map(n int) {
	if r.three {
		r.number('%', int64(n))
	} else {
		r.Array(2 * n)
	}
}

// Push begins a message of n answers that is no answer to a command.
func (r *Reply) Push(n int) {
	if r.three {
		r.number('>', int64(n))
	} else {
		r.Array(n)
	}
}

func (r *Reply) line(first byte, text string) {
	r.buf = append(append(append(r.buf, first), text...), '\r', '\n')
}

func (r *Reply) number(first byte, n int64) {
	r.buf = append(strconv.AppendInt(append(r.buf, first), n, 10), '\r', '\n')
}
