package kvpebble

import (
	"sync"
	"sync/atomic"

	"github.com/mayflyhq/mayfly/store"
)

// rows caches small entries in front of the database, where a look-up costs several times
// as much. Every write reads the entry that it replaces, so that this saves work of writes
// as well.
//
// Its invariant: what it returns is what the database holds. A writer or a reclaim calls
// begin before its batch can become visible and end after it; until then entries of these
// parts are neither returned nor added. It holds expired entries too, because the counts
// know them until they are reclaimed.
type rows struct {
	parts [stripeCount]rowPart // of the keys of one stripe each
}

// rowPart holds entries one after the other in two halves: in fresh are those that were
// added or found lately. When it is full it becomes stale, and what was stale is forgotten.
type rowPart struct {
	changes atomic.Uint64 // grows when writers begin and end

	mu           sync.Mutex
	writers      int
	fresh, stale rowHalf
	size         int // of a half at most
}

type rowHalf struct {
	at  map[uint64]uint32 // hash of a key → where its entry begins
	mem []byte
}

// rowHead is the size of what precedes the key of an entry in memory: the number of the
// namespace, the lengths of the key and of the stored entry.
const rowHead = 4 + 2 + 2

// rowShare is the part of a half that one entry takes at most.
const rowShare = 4

func (r *rows) init(size int64) {
	for i := range r.parts {
		r.parts[i].size = int(min(size/(2*stripeCount), 1<<30))
	}
}

func (r *rows) part(hash uint64) *rowPart { return &r.parts[hash%stripeCount] }

// begin is called before a change of entries of these stripes becomes visible.
func (r *rows) begin(stripes []uint16) { r.count(stripes, 1) }

// end is called when the change is visible and has been noted by put or remove.
func (r *rows) end(stripes []uint16) { r.count(stripes, -1) }

func (r *rows) count(stripes []uint16, d int) {
	for _, n := range stripes {
		p := &r.parts[n]
		p.mu.Lock()
		p.writers += d
		p.changes.Add(1)
		p.mu.Unlock()
	}
}

// get appends the stored entry of a key to b, if it is there. quiet reports that no writer
// is changing entries of its part; while changes is the same, none has.
func (r *rows) get(b []byte, hash uint64, space uint32, key string) (found []byte, changes uint64, quiet bool) {
	p := r.part(hash)
	p.mu.Lock()
	defer p.mu.Unlock()
	changes = p.changes.Load()
	if p.writers > 0 {
		return nil, changes, false
	}
	if row := p.fresh.find(hash, space, key); row != nil {
		return append(b, row...), changes, true
	}
	if row := p.stale.find(hash, space, key); row != nil {
		found = append(b, row...)
		p.add(hash, space, key, found[len(b):], nil)
	}
	return found, changes, true
}

// fill adds an entry that was read from the database, unless its part has changed.
func (r *rows) fill(hash uint64, space uint32, key string, stored []byte, changes uint64) {
	p := r.part(hash)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changes.Load() == changes {
		p.add(hash, space, key, stored, nil)
	}
}

// note notes what a writer has made of an entry, between begin and end.
func (r *rows) note(hash uint64, space uint32, e *store.KVEntry, key string) {
	p := r.part(hash)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !e.Found {
		p.forget(hash)
		return
	}
	var head [entryHead]byte
	putHead(head[:], e)
	p.add(hash, space, key, head[:], e.Value)
}

// remove forgets an entry, between begin and end.
func (r *rows) remove(hash uint64) {
	p := r.part(hash)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(hash)
}

func (p *rowPart) forget(hash uint64) {
	delete(p.fresh.at, hash)
	delete(p.stale.at, hash)
}

// add adds an entry whose stored form is in two pieces; the caller holds mu.
func (p *rowPart) add(hash uint64, space uint32, key string, head, value []byte) {
	n, size := len(head)+len(value), rowHead+len(key)+len(head)+len(value)
	if size > p.size/rowShare || size > 1<<16-1 {
		p.forget(hash)
		return
	}
	if row := p.fresh.find(hash, space, key); len(row) == n {
		copy(row[copy(row, head):], value)
		return
	}
	delete(p.stale.at, hash)
	if len(p.fresh.mem)+size > p.size {
		p.fresh, p.stale = p.stale, p.fresh
		clear(p.fresh.at)
		p.fresh.mem = p.fresh.mem[:0]
	}
	if p.fresh.at == nil {
		p.fresh.at = map[uint64]uint32{}
	}
	p.fresh.at[hash] = uint32(len(p.fresh.mem))
	m := append(p.fresh.mem, byte(space), byte(space>>8), byte(space>>16), byte(space>>24), byte(len(key)), byte(len(key)>>8), byte(n), byte(n>>8))
	p.fresh.mem = append(append(append(m, key...), head...), value...)
}

// find returns the stored entry of a key; nil if it is not there.
func (h *rowHalf) find(hash uint64, space uint32, key string) []byte {
	at, there := h.at[hash]
	if !there {
		return nil
	}
	m := h.mem[at:]
	k, n := int(m[4])|int(m[5])<<8, int(m[6])|int(m[7])<<8
	if uint32(m[0])|uint32(m[1])<<8|uint32(m[2])<<16|uint32(m[3])<<24 != space || string(m[rowHead:rowHead+k]) != key {
		return nil
	}
	return m[rowHead+k : rowHead+k+n : rowHead+k+n]
}
