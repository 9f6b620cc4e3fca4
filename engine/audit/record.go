package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// Number is the position of a record in its chain. Numbers start at 0 and have no
// gaps.
type Number uint64

// Hash is the SHA-256 of a record.
type Hash [32]byte

// String returns the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Ref identifies a record.
type Ref struct {
	Chain  string
	Number Number
}

// String returns chain#number, or an empty string for the zero Ref.
func (r Ref) String() string {
	if r == (Ref{}) {
		return ""
	}
	return fmt.Sprintf("%s#%d", r.Chain, r.Number)
}

// Head is the end of a chain: the number of its records and the hash of the last.
// It fixes all of them, because each record contains the hash of the previous one.
type Head struct {
	Chain string
	Count uint64
	Hash  Hash // zero when Count is 0
}

// String returns the head as a line that ParseHead reads.
func (h Head) String() string { return fmt.Sprintf("%s %d %s", h.Chain, h.Count, h.Hash) }

// ParseHead reads what Head.String wrote.
func ParseHead(line string) (Head, error) {
	bad := mayfly.Errorf(mayfly.Invalid, "invalid head of a chain %.80q", line).WithHint("a head is one line with chain, count and hash")
	parts := strings.Fields(line)
	if len(parts) != 3 || !validChain(parts[0]) {
		return Head{}, bad
	}
	count, err := strconv.ParseUint(parts[1], 10, 64)
	if err != nil {
		return Head{}, bad
	}
	sum, err := hex.DecodeString(parts[2])
	h := Head{Chain: parts[0], Count: count}
	if err != nil || len(sum) != len(h.Hash) {
		return Head{}, bad
	}
	h.Hash = Hash(sum)
	if (count == 0) != (h.Hash == Hash{}) {
		return Head{}, bad
	}
	return h, nil
}

// Record is an entry at its position in a chain.
type Record struct {
	Ref
	At      mayfly.Instant // not earlier than that of the previous record
	Prev    Hash           // hash of the previous record; zero for the first
	Entry   Entry
	Anchors []Head // ends of other chains when this record was written
	Hash    Hash
}

const (
	maxWriter = 64
	maxChain  = 128
)

// validChain reports whether name may be the name of a chain or of a writer.
func validChain(name string) bool {
	if name == "" || len(name) > maxChain {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '-', c == '_', c == ':':
		default:
			return false
		}
	}
	return true
}

// The format of a record. Each record has exactly one encoding: a value that
// differs from the encoding of what was read from it is refused. Numbers are
// big-endian; a text is its length as a uvarint, then its bytes.
//
//	format 2 · chain · number 8 · at 8 · prev 32 · verb 1 · outcome 1 ·
//	actor: issuer, subject, for 16 · item 16 · user 16 · run 8 · reason · detail ·
//	of: chain, number 8 ·
//	anchors: uvarint, each chain, count 8, hash 32 · hash 32
//
// The hash is SHA-256 of recordDomain and all bytes before the hash.
const (
	recordFormat = 2
	recordDomain = "mayfly audit record\x00"
)

func sum(domain string, parts ...[]byte) (h Hash) {
	s := sha256.New()
	s.Write([]byte(domain))
	for _, p := range parts {
		s.Write(p)
	}
	s.Sum(h[:0])
	return h
}

// seal sets the record's hash and returns the encoded record.
func (r *Record) seal() []byte {
	b := r.body()
	r.Hash = sum(recordDomain, b)
	return append(b, r.Hash[:]...)
}

func (r *Record) body() []byte {
	e := &r.Entry
	b := appendText([]byte{recordFormat}, r.Chain)
	b = appendNumber(b, uint64(r.Number))
	b = appendNumber(b, uint64(r.At))
	b = append(b, r.Prev[:]...)
	b = append(b, byte(e.Verb), byte(e.Outcome))
	b = appendText(b, e.Actor.Issuer)
	b = appendText(b, e.Actor.Subject)
	b = append(b, e.Actor.For[:]...)
	b = append(b, e.Subject.Item[:]...)
	b = append(b, e.Subject.User[:]...)
	b = appendNumber(b, uint64(e.Subject.Run))
	b = appendText(b, e.Reason)
	b = appendText(b, e.Detail)
	b = appendText(b, e.Of.Chain)
	b = appendNumber(b, uint64(e.Of.Number))
	b = binary.AppendUvarint(b, uint64(len(r.Anchors)))
	for _, a := range r.Anchors {
		b = appendText(b, a.Chain)
		b = appendNumber(b, a.Count)
		b = append(b, a.Hash[:]...)
	}
	return b
}

func appendNumber(b []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(b, n) }

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// readRecord decodes what seal returned. It refuses unknown formats and values
// whose hash does not match.
func readRecord(value []byte) (Record, error) {
	if len(value) == 0 || value[0] != recordFormat {
		return Record{}, mayfly.Errorf(mayfly.Corrupt, "audit: record has an unknown format %x; this version reads format %d", value[:min(1, len(value))], recordFormat).
			WithHint("read it with the version of Mayfly that wrote it")
	}
	body, stored := splitHash(value)
	if sum(recordDomain, body) != stored {
		return Record{}, mayfly.Errorf(mayfly.Corrupt, "audit: hash of a record of %d bytes does not match", len(value))
	}
	in := reader{rest: body[1:]}
	r := Record{Ref: in.ref(), At: mayfly.Instant(in.number()), Prev: in.hash(), Hash: stored}
	e := &r.Entry
	e.Verb, e.Outcome = Verb(in.byte()), Outcome(in.byte())
	e.Actor = Actor{Issuer: in.text(MaxIssuer), Subject: in.text(MaxActor), For: mayfly.UserID(in.sixteen())}
	e.Subject = Subject{Item: mayfly.ID(in.sixteen()), User: mayfly.UserID(in.sixteen()), Run: mayfly.Run(in.number())}
	e.Reason, e.Detail, e.Of = in.text(MaxReason), in.text(MaxDetail), in.ref()
	for n := in.uvarint(MaxAnchors); n > 0 && !in.bad; n-- {
		r.Anchors = append(r.Anchors, Head{Chain: in.text(maxChain), Count: in.number(), Hash: in.hash()})
	}
	if in.bad || len(in.rest) != 0 || !r.wellFormed() || !bytes.Equal(r.body(), body) {
		return Record{}, mayfly.Errorf(mayfly.Corrupt, "audit: record of %d bytes cannot be decoded", len(value))
	}
	return r, nil
}

func (r *Record) wellFormed() bool {
	for _, a := range r.Anchors {
		if !validChain(a.Chain) || (a.Count == 0) != (a.Hash == Hash{}) {
			return false
		}
	}
	return validChain(r.Chain)
}

// splitHash splits a value into its body and the hash at its end.
func splitHash(value []byte) (body []byte, h Hash) {
	if len(value) < len(h) {
		return nil, h
	}
	cut := len(value) - len(h)
	return value[:cut], Hash(value[cut:])
}

// reader decodes a value. A field that does not fit sets bad and reads as zero.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n > len(r.rest) {
		r.bad = true
		return make([]byte, min(n, 32))
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) byte() byte        { return r.take(1)[0] }
func (r *reader) number() uint64    { return binary.BigEndian.Uint64(r.take(8)) }
func (r *reader) sixteen() [16]byte { return [16]byte(r.take(16)) }
func (r *reader) hash() Hash        { return Hash(r.take(32)) }
func (r *reader) ref() Ref          { return Ref{Chain: r.text(maxChain), Number: Number(r.number())} }

func (r *reader) uvarint(most uint64) int {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > most {
		r.bad = true
		return 0
	}
	r.take(n)
	return int(v)
}

func (r *reader) text(most uint64) string {
	n := r.uvarint(most)
	if n > len(r.rest) {
		r.bad = true
		return ""
	}
	return string(r.take(n))
}
