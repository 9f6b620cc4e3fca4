package cassandrastore

import (
	"context"

	"github.com/mayflyhq/mayfly/store"
)

const (
	// fewestBytes is from how many bytes on a request is full.
	fewestBytes = 128 << 10
	// mostRows is how many rows of a partition go in one request.
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

// plainTasks are the writes of plain tables in a stage: those of one partition go
// together. Each carries a stamp of its own, taken here, in order: sent again it
// is the same write, and what a later stage writes is later.
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
		value := append([]byte{}, p.Value...) // never nil, which would be absence; ours, because a second asking may outlast the call
		put(shelf{p.Table, p.Key.Partition}, plainWrite{s.tables[p.Table].put, []any{
			[]byte(p.Key.Partition), []byte(p.Key.Clustering), value, s.stamps.next(), ttl(p.Table, p.ReclaimAt, now),
		}, len(p.Key.Partition) + len(p.Key.Clustering) + len(value)})
	}
	for _, d := range stage.Deletes {
		put(shelf{d.Table, d.Key.Partition}, plainWrite{
			s.tables[d.Table].remove,
			[]any{s.stamps.next(), []byte(d.Key.Partition), []byte(d.Key.Clustering)},
			len(d.Key.Partition) + len(d.Key.Clustering),
		})
	}
	for _, d := range stage.Drops {
		put(shelf{d.Table, d.Partition}, plainWrite{
			s.tables[d.Table].drop,
			[]any{s.stamps.next(), []byte(d.Partition)},
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

// requests cuts the writes of a partition into requests of a bounded size.
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
