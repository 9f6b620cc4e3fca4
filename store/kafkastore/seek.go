package kafkastore

import (
	"context"
	"maps"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Seek implements store.Reader. It moves the whole group, so the reader must be its
// only member. Errors: Invalid, Conflict (the group has other readers), Unavailable.
func (r *reader) Seek(ctx context.Context, at mayfly.Instant) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	r.client.AllowRebalance()
	if err := r.assigned.await(ctx); err != nil {
		return unavailable("seek in "+r.topic, err)
	}
	if err := r.alone(ctx); err != nil {
		return err
	}
	positions, err := r.s.find(ctx, r.topic, at)
	if err != nil {
		return unavailable("seek in "+r.topic, err)
	}
	if err := r.moveTo(ctx, positions); err != nil {
		return unavailable("seek in "+r.topic, err)
	}
	clear(r.stuck)
	return nil
}

// alone returns Conflict if the group has other readers.
func (r *reader) alone(ctx context.Context) error {
	groups, err := r.s.admin.DescribeGroups(ctx, r.group)
	if err == nil {
		err = groups[r.group].Err
	}
	if err != nil {
		return unavailable("describe group "+r.group, err)
	}
	if n := len(groups[r.group].Members); n > 1 {
		return mayfly.Errorf(mayfly.Conflict, "kafka: group %s has %d readers; a seek needs the group to have one", r.group, n).
			WithHint("stop the other readers; one that died counts until its session times out")
	}
	return nil
}

// moveTo sets the client's offsets. The client ignores this for a partition that it
// is about to start, so moveTo repeats it until the client reports the new offsets.
func (r *reader) moveTo(ctx context.Context, positions map[partition]offset) error {
	for {
		mine := epochless(r.assigned.seek(positions))
		r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.topic: mine})
		accepted := true
		for p, to := range r.client.CommittedOffsets()[r.topic] { // this is how the client names the offsets that were set
			if want, ok := mine[p]; ok && want != to {
				accepted = false
			}
			delete(mine, p)
		}
		if accepted && len(mine) == 0 {
			return nil
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// find returns, for each partition, the offset of the first event at or after the
// instant. A record's timestamp is never before its event, and the brokers find the
// first record by timestamp: the event is at that offset or after it.
func (s *Store) find(ctx context.Context, topic string, at mayfly.Instant) (map[partition]offset, error) {
	if at <= 0 {
		return s.starts(ctx, topic)
	}
	from, err := offsets(s.admin.ListOffsetsAfterMilli(ctx, int64(at), topic))(topic)
	if err != nil {
		return nil, err
	}
	to, err := s.ends(ctx, topic)
	if err != nil {
		return nil, err
	}
	return s.scan(ctx, topic, at, from, to)
}

// scan reads from each offset until it finds an event at or after the instant, or
// reaches the end of the partition as given in to.
func (s *Store) scan(ctx context.Context, topic string, at mayfly.Instant, from, to map[partition]offset) (map[partition]offset, error) {
	positions, open := maps.Clone(from), map[int32]kgo.Offset{}
	for p := range from {
		if from[p] < to[p] {
			open[p] = kgo.NewOffset().At(from[p])
		}
	}
	if len(open) == 0 {
		return positions, nil
	}
	client, err := kgo.NewClient(append(s.common, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: maps.Clone(open)}))...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	for len(open) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		for rec := range fetches.RecordsAll() {
			if _, looking := open[rec.Partition]; !looking {
				continue
			}
			event, err := store.ReadEvent(rec.Value)
			found := err == nil && event.At >= at // an unreadable record is skipped: a seek is the way past it
			if positions[rec.Partition] = rec.Offset; !found {
				positions[rec.Partition]++
			}
			if found || rec.Offset+1 >= to[rec.Partition] {
				delete(open, rec.Partition)
				client.PauseFetchPartitions(map[string][]int32{topic: {rec.Partition}})
			}
		}
	}
	return positions, nil
}

// starts returns the offset of the oldest retained record of each partition.
func (s *Store) starts(ctx context.Context, topic string) (map[partition]offset, error) {
	return offsets(s.admin.ListStartOffsets(ctx, topic))(topic)
}

// ends returns the offset after the last record that every in-sync replica has.
func (s *Store) ends(ctx context.Context, topic string) (map[partition]offset, error) {
	return offsets(s.admin.ListEndOffsets(ctx, topic))(topic)
}

func offsets(listed kadm.ListedOffsets, err error) func(topic string) (map[partition]offset, error) {
	return func(topic string) (map[partition]offset, error) {
		if err == nil {
			err = listed.Error()
		}
		if err != nil {
			return nil, err
		}
		positions := map[partition]offset{}
		for p, l := range listed[topic] {
			positions[p] = l.Offset
		}
		return positions, nil
	}
}

// Lag implements store.Reader. It counts the partitions of this reader only.
func (r *reader) Lag(ctx context.Context) (int64, error) {
	if err := r.start(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.s.opts.Timeout+r.s.opts.RebalanceTimeout)
	defer cancel()
	if err := r.assigned.await(ctx); err != nil {
		return 0, unavailable("lag of "+r.topic, err)
	}
	starts, err := r.s.starts(ctx, r.topic)
	if err != nil {
		return 0, unavailable("lag of "+r.topic, err)
	}
	ends, err := r.s.ends(ctx, r.topic)
	if err != nil {
		return 0, unavailable("lag of "+r.topic, err)
	}
	return waiting(r.assigned.positions(), starts, ends), nil
}

// waiting counts the records between the positions and the ends that are still
// retained.
func waiting(positions, starts, ends map[partition]offset) (n int64) {
	for p, at := range positions {
		n += max(0, ends[p]-max(at, starts[p]))
	}
	return n
}
