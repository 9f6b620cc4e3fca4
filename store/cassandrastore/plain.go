package cassandrastore

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

const (
	// fewestBytes is the size from which a request is full.
	fewestBytes = 128 << 10
	// mostRows is how many rows of a partition one request has at most.
	mostRows = 200
)

// shelf is a partition of a declared table.
type shelf struct {
	table     store.Table
	partition string
}

// plainWrite is one write of a plain table.
type plainWrite struct {
	text   string
	values []any
	size   int
}

// plainTasks returns the requests for the plain tables of a stage, those of one
// partition together. Each write gets its timestamp here, in order: sent again it is
// the same write, and the writes of a later stage are later.
func (s *Store) plainTasks(stage store.Stage) []task {
	var order []shelf
	writes := map[shelf][]plainWrite{}
	put := func(at shelf, w plainWrite) {
		if writes[at] == nil {
			order = append(order, at)
		}
		writes[at] = append(writes[at], w)
	}
	now := s.opts.Now()
	for _, p := range stage.Puts {
		value := append([]byte{}, p.Value...) // never nil, which would mean absent; a copy, because a speculative request may outlive the call
		put(shelf{p.Table, p.Key.Partition}, plainWrite{s.tables[p.Table].put, []any{
			partitionKey(p.Table, p.Key.Partition), []byte(p.Key.Clustering), value, s.stamps.next(), ttl(p.Table, p.ReclaimAt, now),
		}, len(p.Key.Partition) + len(p.Key.Clustering) + len(value)})
	}
	for _, d := range stage.Deletes {
		put(shelf{d.Table, d.Key.Partition}, plainWrite{
			s.tables[d.Table].remove,
			[]any{s.stamps.next(), partitionKey(d.Table, d.Key.Partition), []byte(d.Key.Clustering)},
			len(d.Key.Partition) + len(d.Key.Clustering),
		})
	}
	for _, d := range stage.Drops {
		put(shelf{d.Table, d.Partition}, plainWrite{
			s.tables[d.Table].drop,
			[]any{s.stamps.next(), partitionKey(d.Table, d.Partition)},
			len(d.Partition),
		})
	}
	var tasks []task
	for _, at := range order {
		for _, some := range requests(writes[at]) {
			tasks = append(tasks, s.plainTask(at, some))
		}
	}
	return tasks
}

// requests splits the writes of a partition into requests of a limited size.
func requests(writes []plainWrite) [][]plainWrite {
	var cut [][]plainWrite
	for from := 0; from < len(writes); {
		to, size := from, 0
		for to < len(writes) && to-from < mostRows && size < fewestBytes {
			size += writes[to].size
			to++
		}
		cut = append(cut, writes[from:to])
		from = to
	}
	return cut
}

func (s *Store) plainTask(at shelf, writes []plainWrite) task {
	return func(ctx context.Context) (err error) {
		if len(writes) == 1 {
			err = s.query(writePlain, writes[0].text, writes[0].values...).ExecContext(ctx)
		} else {
			b := s.batch(writePlain)
			for _, w := range writes {
				add(b, writePlain, w.text, w.values...)
			}
			err = b.ExecContext(ctx)
		}
		if err != nil {
			return writeError(writePlain, "write "+at.table.String(), err)
		}
		return nil
	}
}

// Fixed timestamps of writes that only happen in this order; they need no clock.
const (
	stampBorn    = 1
	stampErased  = 2
	stampRemoved = 3
)

// stamps returns the timestamps of writes to plain tables, in microseconds: the node's
// clock, but always later than the one before, so that within a process the order of
// writes decides and not the resolution or the steps of a clock. Between processes the
// clocks decide. Plain tables allow this, because their rows are checked again when
// they are read.
type stamps struct {
	now  func() mayfly.Instant
	last atomic.Int64
}

const microseconds = 1000 // in an instant's millisecond

func (s *stamps) next() int64 {
	for {
		last := s.last.Load()
		stamp := max(int64(s.now())*microseconds, last+1)
		if s.last.CompareAndSwap(last, stamp) {
			return stamp
		}
	}
}

// see makes the next timestamps later than one that was read.
func (s *stamps) see(stamp int64) {
	for last := s.last.Load(); last < stamp && !s.last.CompareAndSwap(last, stamp); last = s.last.Load() {
	}
}

const (
	// reclaimSlack is added to a TTL, because the clocks of nodes differ and a row must
	// be kept at least until its reclaim time.
	reclaimSlack = 10 * time.Minute
	// longestTTL is the longest TTL that every storage format of the server supports;
	// a row with a later reclaim time gets no TTL.
	longestTTL = 5 * 365 * 24 * time.Hour
)

// ttl returns the TTL of a row in seconds; 0 is none. The TTL only frees space: no
// decision depends on it (trap 11).
func ttl(t store.Table, reclaimAt, now mayfly.Instant) int {
	if reclaimAt == 0 || !mayReclaim(t) {
		return 0
	}
	left := max(reclaimAt.Sub(now), 0) + reclaimSlack
	if left > longestTTL {
		return 0
	}
	return int((left + time.Second - 1) / time.Second)
}

// mayReclaim reports whether the TTL of the server may remove rows of t.
func mayReclaim(t store.Table) bool { return !t.Declared().NotByServer }
