package upload

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// RenditionKey returns the key of the row that describes object n of an item, as
// written by generation g. Each copy of a rendition has its own description, so
// that no copy is compared with another one's hash.
func RenditionKey(id mayfly.ID, g mayfly.Generation, n int) store.Key {
	return store.Key{Partition: string(id[:]), Clustering: string(binary.BigEndian.AppendUint32([]byte{byte(n)}, uint32(g)))}
}

const renditionFormat = 1

// AppendRendition appends the description of a rendition to b. A size of 0 means
// that no rendition can be made.
func AppendRendition(b []byte, m mayfly.Medium) []byte {
	b = append(b, renditionFormat)
	b = binary.AppendUvarint(b, uint64(len(m.Type)))
	b = append(b, m.Type...)
	b = binary.AppendUvarint(b, uint64(m.Size))
	b = append(b, m.SHA256[:]...)
	b = binary.AppendUvarint(b, uint64(m.Width))
	return binary.AppendUvarint(b, uint64(m.Height))
}

// ReadRendition reads what AppendRendition wrote.
func ReadRendition(data []byte) (mayfly.Medium, error) {
	bad := mayfly.Errorf(mayfly.Corrupt, "the description of a rendition of %d bytes cannot be read", len(data))
	if len(data) == 0 || data[0] != renditionFormat {
		return mayfly.Medium{}, bad
	}
	rest, ok := data[1:], true
	number := func() uint64 {
		v, n := binary.Uvarint(rest)
		if n <= 0 {
			ok = false
			return 0
		}
		rest = rest[n:]
		return v
	}
	take := func(n uint64) []byte {
		if n > uint64(len(rest)) {
			ok = false
			return nil
		}
		taken := rest[:n]
		rest = rest[n:]
		return taken
	}
	m := mayfly.Medium{Type: string(take(number()))}
	m.Size = int64(number())
	copy(m.SHA256[:], take(uint64(len(m.SHA256))))
	m.Width, m.Height = uint32(number()), uint32(number())
	if !ok || len(rest) != 0 || m.Size < 0 {
		return mayfly.Medium{}, bad
	}
	return m, nil
}
