package bench

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/mayflyhq/mayfly"
)

// bloomFilter is a set of ids that may also report an id that is not in it: the
// usual way to refuse what has expired, and the baseline of the gate, which reads
// the end of an item from its id.
type bloomFilter struct {
	words  []uint64
	size   uint64 // in bits
	probes int    // bits for each id
}

// newBloomFilter returns an empty filter that reports false positives at the
// given rate when it holds n ids.
func newBloomFilter(n int, rate float64) *bloomFilter {
	perID := -math.Log(rate) / (math.Ln2 * math.Ln2)
	size := uint64(math.Ceil(float64(n) * perID))
	return &bloomFilter{words: make([]uint64, size/64+1), size: size, probes: int(math.Round(perID * math.Ln2))}
}

func (f *bloomFilter) add(id mayfly.ID) {
	at, step := bloomHash(id)
	for range f.probes {
		bit, _ := bits.Mul64(at, f.size)
		f.words[bit/64] |= 1 << (bit % 64)
		at += step
	}
}

func (f *bloomFilter) has(id mayfly.ID) bool {
	at, step := bloomHash(id)
	for range f.probes {
		bit, _ := bits.Mul64(at, f.size)
		if f.words[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
		at += step
	}
	return true
}

// bloomHash returns where the probes for an id begin and how far apart they are.
func bloomHash(id mayfly.ID) (at, step uint64) {
	a, b := binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])
	high, low := bits.Mul64(a^0xa0761d6478bd642f, b^0xe7037ed1a0b428db)
	at = high ^ low
	high, low = bits.Mul64(at^0x8ebc6af09c88c6e3, b^0x589965cc75374cc3)
	return at, (high ^ low) | 1
}
