package mayfly

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"time"
)

// ID identifies an item and holds the times of its life (L2). It is a UUIDv8 whose
// byte order is the order of birth:
//
//	bits   0–47   birth, Unix milliseconds
//	bits  48–51   version, 8
//	bits  52–63   lifetime
//	bits  64–65   variant, binary 10
//	bits  66–75   trace of the owner
//	bits  76–127  random; the low four are the shard
//
// testdata/id-vectors.json fixes the format for other languages.
type ID [16]byte

// MaxBirth is the latest birth that fits into 48 bits of milliseconds.
const MaxBirth Instant = 1<<48 - 1

// RandomBits is how many bits of an id are random.
const RandomBits = 52

// NewID composes an id. The caller takes random from a cryptographic source and
// birth from the node's clock. Errors: Invalid.
func NewID(birth Instant, lifetime Lifetime, trace Trace, random uint64) (ID, error) {
	if birth < 0 || birth > MaxBirth {
		return ID{}, Errorf(Invalid, "birth %d does not fit 48 bits of milliseconds", int64(birth))
	}
	if !lifetime.Valid() {
		return ID{}, Errorf(Invalid, "lifetime %#03x is not canonical", uint16(lifetime))
	}
	if trace > TraceMax {
		return ID{}, Errorf(Invalid, "trace %d does not fit 10 bits", trace)
	}
	var id ID
	binary.BigEndian.PutUint64(id[:8], uint64(birth)<<16|8<<LifetimeBits|uint64(lifetime))
	binary.BigEndian.PutUint64(id[8:], 0b10<<62|uint64(trace)<<RandomBits|random&(1<<RandomBits-1))
	return id, nil
}

func (id ID) high() uint64 { return binary.BigEndian.Uint64(id[:8]) }
func (id ID) low() uint64  { return binary.BigEndian.Uint64(id[8:]) }

// Valid reports whether NewID can have made id: it has the right version and
// variant and a canonical lifetime.
func (id ID) Valid() bool {
	return id[6]>>4 == 8 && id[8]>>6 == 0b10 && id.Lifetime().Valid()
}

// IsZero reports whether id is the zero ID, which identifies no item.
func (id ID) IsZero() bool { return id == ID{} }

// Birth returns when the item was published.
func (id ID) Birth() Instant { return Instant(id.high() >> 16) }

// Lifetime returns how long the item serves.
func (id ID) Lifetime() Lifetime { return Lifetime(id.high() & (1<<LifetimeBits - 1)) }

// Expires reports whether the item has a deadline.
func (id ID) Expires() bool { return id.Lifetime() != Never }

// Deadline returns the instant at which the item stops serving: birth plus
// lifetime. It is 0 for an item that never expires: call Expires first, or use
// ExpiredAt.
func (id ID) Deadline() Instant {
	l := id.Lifetime()
	if l == Never {
		return 0
	}
	return id.Birth() + Instant(l.Duration()/time.Millisecond)
}

// ExpiredAt reports whether the deadline has passed at now. At the deadline itself
// it has; one millisecond earlier it has not (I4, I5).
func (id ID) ExpiredAt(now Instant) bool {
	l := id.Lifetime()
	return l != Never && now >= id.Birth()+Instant(l.Duration()/time.Millisecond)
}

// Minute returns the minute of the deadline. Minute and Shard together are the
// item's pigeonhole in the ledger (L3).
func (id ID) Minute() Minute { return id.Deadline().Minute() }

// Shard returns the item's shard: the low four bits of the id.
func (id ID) Shard() Shard { return Shard(id[15] & (Shards - 1)) }

// Trace returns the trace of the owner.
func (id ID) Trace() Trace { return Trace(id.low()>>RandomBits) & TraceMax }

// Compare orders ids by birth. It is negative if id comes before other.
func (id ID) Compare(other ID) int {
	for i := range id {
		if id[i] != other[i] {
			return int(id[i]) - int(other[i])
		}
	}
	return 0
}

// String returns the canonical UUID text.
func (id ID) String() string {
	text := id.uuid()
	return string(text[:])
}

func (id ID) uuid() (text [36]byte) {
	hex.Encode(text[0:], id[0:4])
	hex.Encode(text[9:], id[4:6])
	hex.Encode(text[14:], id[6:8])
	hex.Encode(text[19:], id[8:10])
	hex.Encode(text[24:], id[10:16])
	text[8], text[13], text[18], text[23] = '-', '-', '-', '-'
	return text
}

// base62 lists the digits in ASCII order, so that short texts sort like ids.
const (
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	shortLength = 22
)

// Short returns the id as 22 characters of base62. These texts sort like ids.
func (id ID) Short() string {
	var text [shortLength]byte
	hi, lo := id.high(), id.low()
	for i := shortLength - 1; i >= 0; i-- {
		var rest uint64
		hi, rest = hi/62, hi%62
		lo, rest = bits.Div64(rest, lo, 62)
		text[i] = base62[rest]
	}
	return string(text[:])
}

// ParseID parses the text of an id, as String or Short return it. Errors: Invalid,
// for any other spelling and for an id that is not Valid.
func ParseID(s string) (ID, error) {
	var id ID
	ok := false
	switch len(s) {
	case 36:
		id, ok = parseUUID(s)
	case shortLength:
		id, ok = parseShort(s)
	}
	if !ok || !id.Valid() {
		return ID{}, Errorf(Invalid, "%.40q is not an id", s).WithHint("an id is a UUID such as " + exampleID + ", or its 22 characters of base62")
	}
	return id, nil
}

const exampleID = "019a8b2f-0c00-8818-9a5d-1f0e9c2b7a43"

func parseUUID(s string) (id ID, ok bool) {
	if s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	n, err := hex.Decode(id[:], []byte(digits))
	return id, err == nil && n == len(id) && id.String() == s
}

func parseShort(s string) (id ID, ok bool) {
	var hi, lo uint64
	for i := range len(s) {
		c := s[i]
		var digit uint64
		switch {
		case '0' <= c && c <= '9':
			digit = uint64(c - '0')
		case 'A' <= c && c <= 'Z':
			digit = uint64(c-'A') + 10
		case 'a' <= c && c <= 'z':
			digit = uint64(c-'a') + 36
		default:
			return id, false
		}
		over, times := bits.Mul64(hi, 62)
		carry, low := bits.Mul64(lo, 62)
		if over != 0 {
			return id, false
		}
		var c1, c2 uint64
		lo, c1 = bits.Add64(low, digit, 0)
		hi, c2 = bits.Add64(times, carry, c1)
		if c2 != 0 {
			return id, false
		}
	}
	binary.BigEndian.PutUint64(id[:8], hi)
	binary.BigEndian.PutUint64(id[8:], lo)
	return id, true
}

// MarshalText returns the UUID text; JSON uses it.
func (id ID) MarshalText() ([]byte, error) {
	text := id.uuid()
	return text[:], nil
}

// AppendText appends the UUID text.
func (id ID) AppendText(b []byte) ([]byte, error) {
	text := id.uuid()
	return append(b, text[:]...), nil
}

// UnmarshalText parses the text as ParseID does.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// MarshalBinary returns the 16 bytes.
func (id ID) MarshalBinary() ([]byte, error) { return id[:], nil }

// UnmarshalBinary reads the 16 bytes of a valid id.
func (id *ID) UnmarshalBinary(data []byte) error {
	if len(data) != len(id) {
		return Errorf(Invalid, "an id has 16 bytes, not %d", len(data))
	}
	if read := ID(data); !read.Valid() {
		return Errorf(Invalid, "%x is not an id", data)
	}
	*id = ID(data)
	return nil
}
