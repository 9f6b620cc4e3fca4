package store

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
)

// RenditionKey is where object n of an item is described, as generation g has
// it: each copy of a rendition has its own description, so that none is held
// against another's hash.
func RenditionKey(id mayfly.ID, g mayfly.Generation, n int) Key {
	return Key{Partition: string(id[:]), Clustering: string(binary.BigEndian.AppendUint32([]byte{byte(n)}, uint32(g)))}
}

const renditionFormat = 1

// AppendRendition appends the bytes of a description to b. One of no size says
// that no rendition can be made.
func AppendRendition(b []byte, m mayfly.Medium) []byte {
	b = append(b, renditionFormat)
	b = appendBytes(b, m.Type)
	b = binary.AppendUvarint(b, uint64(m.Size))
	b = append(b, m.SHA256[:]...)
	b = binary.AppendUvarint(b, uint64(m.Width))
	return binary.AppendUvarint(b, uint64(m.Height))
}

// ReadRendition reads what AppendRendition wrote.
func ReadRendition(data []byte) (mayfly.Medium, error) {
	r := reader{rest: data}
	if r.byte() != renditionFormat {
		return mayfly.Medium{}, mayfly.Errorf(mayfly.Corrupt, "rendition of an unknown format")
	}
	m := mayfly.Medium{Type: string(r.bytes()), Size: int64(r.uvarint())}
	copy(m.SHA256[:], r.take(len(m.SHA256)))
	m.Width, m.Height = uint32(r.uvarint()), uint32(r.uvarint())
	if r.bad || len(r.rest) != 0 || m.Size < 0 {
		return mayfly.Medium{}, mayfly.Errorf(mayfly.Corrupt, "rendition of %d bytes cannot be read", len(data))
	}
	return m, nil
}
