package audit

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// Number counts the records of a chain, from 0 and without a gap.
type Number uint64

// Hash is the SHA-256 of a record.
type Hash [32]byte

// String is the hash in hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Ref names a record.
type Ref struct {
	Chain  string
	Number Number
}

// String is chain#number; empty for no record.
func (r Ref) String() string {
	if r == (Ref{}) {
		return ""
	}
	return fmt.Sprintf("%s#%d", r.Chain, r.Number)
}

// Head is how far a chain has come: how many records it has, and the hash of
// the last. It pins all of them, because each holds the hash of the one before.
type Head struct {
	Chain string
	Count uint64
	Hash  Hash // zero when Count is 0
}

// String is the head in a line that ParseHead reads.
func (h Head) String() string { return fmt.Sprintf("%s %d %s", h.Chain, h.Count, h.Hash) }

// ParseHead reads what Head.String wrote.
func ParseHead(line string) (Head, error) {
	bad := mayfly.Errorf(mayfly.Invalid, "%.80q is not the head of a chain", line).WithHint("a head is a line of: chain, count, hash")
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

// Record is an entry in its place.
type Record struct {
	Ref
	At      mayfly.Instant // never before that of the record in front of it
	Prev    Hash           // of the record in front of it; zero for the first
	Entry   Entry
	Anchors []Head // of other chains, as this writer saw them
	Hash    Hash
}

const (
	maxWriter = 64
	maxChain  = 128
)

// validChain says whether a text could be the name of a chain, or of a writer.
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
