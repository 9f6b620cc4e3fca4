package walk

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Run is what one process did by one walk in one hour, in one shard. An undo restores
// it (L14). It has the same number in all shards.
type Run struct {
	Number mayfly.Run
	Walk   string
	Shard  mayfly.Shard
	Began  mayfly.Instant
	From   mayfly.Instant // the run touched no item with an earlier deadline
	To     mayfly.Instant // nor one with a later deadline
}

// runKept is how long runs can be looked up: longer than an item can be restored.
const runKept = 40 * 24 * time.Hour

// runOf returns the number of what holder does by a walk in the hour of now.
func runOf(holder, walk string, now mayfly.Instant) mayfly.Run {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\x00%s\x00%d", holder, walk, now/mayfly.Instant(time.Hour.Milliseconds()))
	return mayfly.Run(h.Sum64() | 1)
}

func runPartition(run mayfly.Run) string {
	return "run" + string(binary.BigEndian.AppendUint64(nil, uint64(run)))
}

func hourPartition(at mayfly.Instant) string {
	return "hour" + string(binary.BigEndian.AppendUint64(nil, uint64(at)/uint64(time.Hour.Milliseconds())))
}

// lastOf returns the last instant of the hour of at, which is the last of its runs.
func lastOf(at mayfly.Instant) mayfly.Instant {
	hour := mayfly.Instant(time.Hour.Milliseconds())
	return (at/hour+1)*hour - 1
}

// begin makes the run of now durable before its first act, so that everything it does
// can be found by its number.
func (w *Walker) begin(ctx context.Context, now mayfly.Instant) error {
	run := runOf(w.o.Holder, w.walk.Name, now)
	if run == w.run {
		return nil
	}
	value := binary.BigEndian.AppendUint64(nil, uint64(now))
	value = binary.BigEndian.AppendUint64(value, uint64(w.done))
	value = binary.BigEndian.AppendUint64(value, uint64(lastOf(now).Add(-w.walk.Offset)))
	value = append(value, w.walk.Name...)
	// A shard that was lost and taken again within the hour has two rows.
	part := string(binary.BigEndian.AppendUint64([]byte{byte(w.shard.number)}, uint64(now)))
	number := runPartition(run)
	var b store.Batch
	b.Put(Runs, store.Key{Partition: number, Clustering: part}, value, now.Add(runKept))
	b.Put(Runs, store.Key{Partition: hourPartition(now), Clustering: number[len("run"):] + part}, value, now.Add(runKept))
	ctx, cancel := context.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	if err := w.set.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("record the run: %w", err)
	}
	w.run = run
	return nil
}

// maxParts is how many rows of a run are read: all its shards, many times.
const maxParts = 100 * mayfly.Shards

// RunsOf returns the parts of a run: every shard in which it did something, once for
// each tenure.
func RunsOf(ctx context.Context, rows store.Rows, run mayfly.Run) ([]Run, error) {
	found, err := rows.Range(ctx, Runs, store.Range{Partition: runPartition(run), Limit: maxParts})
	if err != nil {
		return nil, fmt.Errorf("run %x: %w", uint64(run), err)
	}
	all := make([]Run, 0, len(found))
	for _, row := range found {
		r, err := readRun(run, row.Clustering, row.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// RunsIn returns the runs that began in the hour of at, at most limit parts of them.
func RunsIn(ctx context.Context, rows store.Rows, at mayfly.Instant, limit int) ([]Run, error) {
	found, err := rows.Range(ctx, Runs, store.Range{Partition: hourPartition(at), Limit: limit})
	if err != nil {
		return nil, fmt.Errorf("runs of an hour: %w", err)
	}
	all := make([]Run, 0, len(found))
	for _, row := range found {
		if len(row.Clustering) != 17 {
			return nil, mayfly.Errorf(mayfly.Corrupt, "run with key %x has an unknown format", row.Clustering)
		}
		r, err := readRun(mayfly.Run(binary.BigEndian.Uint64([]byte(row.Clustering[:8]))), row.Clustering[8:], row.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

func readRun(number mayfly.Run, part string, value []byte) (Run, error) {
	if len(part) != 9 || len(value) <= 24 {
		return Run{}, mayfly.Errorf(mayfly.Corrupt, "run %x has an unknown format", uint64(number))
	}
	return Run{
		Number: number, Walk: string(value[24:]), Shard: mayfly.Shard(part[0]),
		Began: mayfly.Instant(binary.BigEndian.Uint64(value)), From: mayfly.Instant(binary.BigEndian.Uint64(value[8:])),
		To: mayfly.Instant(binary.BigEndian.Uint64(value[16:])),
	}, nil
}
