package store

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
)

// The encoding of bodies and events, the same on every driver, is described in
// docs/format-pebble.md. Each begins with its format; an unknown one is Corrupt.
const (
	bodyFormat  = 1
	eventFormat = 2
)

// AppendBody appends the bytes of body to b.
func AppendBody(b []byte, body mayfly.Body) []byte {
	b = append(b, bodyFormat)
	b = appendBytes(b, body.Text)
	b = appendBytes(b, body.Data)
	b = binary.AppendUvarint(b, uint64(len(body.Media)))
	for _, m := range body.Media {
		b = appendBytes(b, m.Type)
		b = binary.AppendUvarint(b, uint64(m.Size))
		b = append(b, m.SHA256[:]...)
		b = binary.AppendUvarint(b, uint64(m.Width))
		b = binary.AppendUvarint(b, uint64(m.Height))
	}
	return b
}

// ReadBody reads what AppendBody wrote. The result shares nothing with data.
func ReadBody(data []byte) (mayfly.Body, error) {
	r := reader{rest: data}
	if r.byte() != bodyFormat {
		return mayfly.Body{}, mayfly.Errorf(mayfly.Corrupt, "body of an unknown format")
	}
	var body mayfly.Body
	body.Text = string(r.bytes())
	if d := r.bytes(); len(d) > 0 {
		body.Data = append([]byte(nil), d...)
	}
	count := r.uvarint()
	if count > uint64(len(r.rest)) {
		r.bad = true
	}
	for range count {
		if r.bad {
			break
		}
		m := mayfly.Medium{Type: string(r.bytes()), Size: int64(r.uvarint())}
		copy(m.SHA256[:], r.take(len(m.SHA256)))
		m.Width, m.Height = uint32(r.uvarint()), uint32(r.uvarint())
		body.Media = append(body.Media, m)
	}
	if r.bad || len(r.rest) != 0 {
		return mayfly.Body{}, mayfly.Errorf(mayfly.Corrupt, "body of %d bytes cannot be read", len(data))
	}
	return body, nil
}

// EventSize is the number of bytes of an event.
const EventSize = 1 + 16 + 4 + 1 + 1 + 8 + 16

// AppendEvent appends the bytes of e to b.
func AppendEvent(b []byte, e mayfly.Event) []byte {
	b = append(b, eventFormat)
	b = append(b, e.ID[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(e.Generation))
	b = append(b, byte(e.Product), byte(e.Verb))
	b = binary.BigEndian.AppendUint64(b, uint64(e.At))
	return append(b, e.Owner[:]...)
}

// ReadEvent reads what AppendEvent wrote.
func ReadEvent(data []byte) (mayfly.Event, error) {
	if len(data) != EventSize || data[0] != eventFormat {
		return mayfly.Event{}, mayfly.Errorf(mayfly.Corrupt, "event of %d bytes cannot be read", len(data))
	}
	return mayfly.Event{
		ID:         mayfly.ID(data[1:17]),
		Generation: mayfly.Generation(binary.BigEndian.Uint32(data[17:])),
		Product:    mayfly.Product(data[21]),
		Verb:       mayfly.Verb(data[22]),
		At:         mayfly.Instant(binary.BigEndian.Uint64(data[23:])),
		Owner:      mayfly.UserID(data[31:47]),
	}, nil
}

func appendBytes[T string | []byte](b []byte, v T) []byte {
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// reader decodes a value; what does not fit sets bad and is read as zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.rest) {
		r.bad = true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.take(n)
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if n > uint64(len(r.rest)) {
		r.bad = true
		return nil
	}
	return r.take(int(n))
}
