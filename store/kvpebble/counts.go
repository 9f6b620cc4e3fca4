package kvpebble

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
)

// count is a number of entries and of their bytes.
type count struct{ keys, bytes int64 }

func (c count) plus(d count) count { return count{c.keys + d.keys, c.bytes + d.bytes} }

// change is a change of the entries of a namespace that expire in one period.
type change struct {
	end mayfly.Instant // of the period; 0 is never
	count
}

// changes are the changes of a batch, one for each period, in order.
type changes []change

func (c *changes) add(end mayfly.Instant, d count) {
	i, there := slices.BinarySearchFunc(*c, end, func(one change, end mayfly.Instant) int { return cmp.Compare(one.end, end) })
	if !there {
		*c = slices.Insert(*c, i, change{end: end})
	}
	(*c)[i].count = (*c)[i].plus(d)
}

func (c changes) sum() (total count) {
	for _, one := range c {
		total = total.plus(one.count)
	}
	return total
}

// space counts the entries of a namespace by the period in which they expire. The
// counts include entries that have expired and were not reclaimed. The database holds
// the same counts, changed by merges in the batches that change the entries.
type space struct {
	name string
	id   uint32 // no other namespace had it since the database was opened

	mu      sync.Mutex
	total   count
	periods map[mayfly.Instant]count
	emptied int // periods that have lost their last entry since their rows were last deleted
}

// take makes the changes, unless they grow the entries that have not expired at now
// over the quota.
func (sp *space) take(c changes, quota int64, now mayfly.Instant) error {
	d := c.sum()
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if quota > 0 && d.bytes > 0 && sp.total.bytes+d.bytes > quota {
		expired, _ := sp.expired(now)
		if size := sp.total.bytes - expired.bytes + d.bytes; size > quota {
			return mayfly.Errorf(mayfly.Full, "the namespace would have %d bytes, its quota is %d", size, quota).WithHint("delete entries or raise the quota")
		}
	}
	sp.total = sp.total.plus(d)
	for _, one := range c {
		if now := sp.periods[one.end].plus(one.count); now == (count{}) {
			delete(sp.periods, one.end)
			sp.emptied++
		} else {
			sp.periods[one.end] = now
		}
	}
	return nil
}

// expired counts the entries whose period has ended, and returns the first of those ends.
func (sp *space) expired(now mayfly.Instant) (expired count, oldest mayfly.Instant) {
	for end, n := range sp.periods {
		if end != 0 && end <= now {
			if expired = expired.plus(n); oldest == 0 || end < oldest {
				oldest = end
			}
		}
	}
	return expired, oldest
}

// trim reports whether so many periods have become empty that their rows are to be
// deleted, and counts from 0 again.
func (sp *space) trim() bool {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.emptied < emptyPeriods {
		return false
	}
	sp.emptied = 0
	return true
}

// due returns the instant since when more than one part in wantedShare of the live bytes
// has expired; 0 if that is not so.
func (sp *space) due(now mayfly.Instant) mayfly.Instant {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	var ended []mayfly.Instant
	for end := range sp.periods {
		if end != 0 && end <= now {
			ended = append(ended, end)
		}
	}
	slices.Sort(ended)
	expired := int64(0)
	for _, end := range ended {
		if expired += sp.periods[end].bytes; worthReclaiming(sp.total.bytes-expired, expired) {
			return end
		}
	}
	return 0
}

func worthReclaiming(live, expired int64) bool { return expired > live/wantedShare }

// at counts the entries that have not expired at now and those that have. One that
// expired less than a period ago counts as live.
func (sp *space) at(now mayfly.Instant) (live, expired count, oldest mayfly.Instant) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	expired, oldest = sp.expired(now)
	return count{sp.total.keys - expired.keys, sp.total.bytes - expired.bytes}, expired, oldest
}

// merge writes the changes into a batch.
func (sp *space) merge(b *pebble.Batch, c changes) error {
	var key, value []byte
	for _, one := range c {
		if one.count == (count{}) {
			continue
		}
		key, value = appendCountKey(key[:0], sp.name, one.end), appendCount(value[:0], one.count)
		if err := b.Merge(key, value, nil); err != nil {
			return err
		}
	}
	return nil
}

func appendCount(b []byte, c count) []byte {
	return binary.AppendVarint(binary.AppendVarint(b, c.keys), c.bytes)
}

func parseCount(b []byte) (count, error) {
	keys, n := binary.Varint(b)
	if n > 0 {
		if size, m := binary.Varint(b[n:]); m > 0 && n+m == len(b) {
			return count{keys, size}, nil
		}
	}
	return count{}, mayfly.Errorf(mayfly.Corrupt, "a count has the malformed value %x", b)
}

// counter returns the operator that adds counts. Its name is part of the format.
func counter() *pebble.Merger {
	return &pebble.Merger{Name: "mayfly.kv.count", Merge: func(_, value []byte) (pebble.ValueMerger, error) {
		s := &sum{}
		return s, s.MergeNewer(value)
	}}
}

// sum adds the counts of one period.
type sum struct{ count }

// MergeNewer implements pebble.ValueMerger.
func (s *sum) MergeNewer(value []byte) error {
	c, err := parseCount(value)
	s.count = s.plus(c)
	return err
}

// MergeOlder implements pebble.ValueMerger.
func (s *sum) MergeOlder(value []byte) error { return s.MergeNewer(value) }

// Finish implements pebble.ValueMerger. The count of an empty period stays until it is
// deleted: a merger that deletes makes compactions of Pebble 2.1.7 panic when its
// result is removed in front of an older SET.
func (s *sum) Finish(bool) ([]byte, io.Closer, error) { return appendCount(nil, s.count), nil, nil }

// spaces are the namespaces that have entries, by name.
type spaces struct {
	mu   sync.RWMutex
	all  map[string]*space
	made uint32
}

// find returns a namespace, or nil if it is not known.
func (s *spaces) find(name string) *space {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[name]
}

// get returns a namespace, and makes it if it is not known.
func (s *spaces) get(name string) *space {
	if sp := s.find(name); sp != nil {
		return sp
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[name] == nil {
		s.made++
		s.all[name] = &space{name: name, id: s.made, periods: map[mayfly.Instant]count{}}
	}
	return s.all[name]
}

func (s *spaces) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.all, name)
}

// list returns all namespaces.
func (s *spaces) list() []*space {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]*space, 0, len(s.all))
	for _, sp := range s.all {
		list = append(list, sp)
	}
	return list
}

// load reads the counts of all namespaces, and deletes those of empty periods.
func (s *spaces) load(db *pebble.DB) error {
	s.all = map[string]*space{}
	empty := db.NewBatch()
	iter, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{countPrefix}, UpperBound: []byte{countPrefix + 1}})
	if err != nil {
		return err
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		n, err := spaceHead(iter.Key())
		if err != nil || len(iter.Key()) != n+8 {
			return errors.Join(mayfly.Errorf(mayfly.Corrupt, "the key %x is of no count", iter.Key()), iter.Close())
		}
		c, err := parseCount(iter.Value())
		if err == nil && c == (count{}) {
			err = empty.Delete(iter.Key(), nil)
		}
		if err != nil {
			return errors.Join(err, iter.Close())
		}
		end := mayfly.Instant(binary.BigEndian.Uint64(iter.Key()[n:]))
		if err := s.get(string(iter.Key()[2:n])).take(changes{{end, c}}, 0, 0); err != nil {
			return errors.Join(err, iter.Close())
		}
	}
	return errors.Join(iter.Close(), db.Apply(empty, pebble.NoSync), empty.Close())
}
