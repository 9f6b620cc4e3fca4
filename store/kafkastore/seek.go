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

// Seek implements store.Reader. It moves the group, so the reader has to be alone in
// it. Errors: Invalid, Conflict (others read for the group), Unavailable.
func (r *reader) Seek(ctx context.Context, at mayfly.Instant) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	r.client.AllowRebalance()
	if err := r.share.await(ctx); err != nil {
		return unavailable("seek in "+r.topic, err)
	}
	if err := r.alone(ctx); err != nil {
		return err
	}
	places, err := r.s.find(ctx, r.topic, at)
	if err != nil {
		return unavailable("seek in "+r.topic, err)
	}
	if err := r.moveTo(ctx, places); err != nil {
		return unavailable("seek in "+r.topic, err)
	}
	clear(r.stuck)
	return nil
}

func (r *reader) alone(ctx context.Context) error {
	groups, err := r.s.admin.DescribeGroups(ctx, r.group)
	if err == nil {
		err = groups[r.group].Err
	}
	if err != nil {
		return unavailable("look at group "+r.group, err)
	}
	if n := len(groups[r.group].Members); n > 1 {
		return mayfly.Errorf(mayfly.Conflict, "kafka: group %s has %d readers, and a seek moves them all", r.group, n).
			WithHint("stop the others; a reader that died counts until its session is over")
	}
	return nil
}

// moveTo tells the client where to go on. The client ignores it in a partition that
// it is about to begin in, so it is told until it has understood.
func (r *reader) moveTo(ctx context.Context, places map[partition]offset) error {
	for {
		mine := epochless(r.share.seek(places))
		r.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{r.topic: mine})
		understood := true
		for p, to := range r.client.CommittedOffsets()[r.topic] { // its name for where it was told to begin
			if want, ok := mine[p]; ok && want != to {
				understood = false
			}
			delete(mine, p)
		}
		if understood && len(mine) == 0 {
			return nil
		}
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// find is, for each partition, the place of the first event at or after the instant.
// Records carry a stamp that is not before their event's instant, and the brokers
// find the first record by its stamp: the event is there or behind it.
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

// scan reads on from each place until it meets an event at or after the instant, or
// the end as it was.
func (s *Store) scan(ctx context.Context, topic string, at mayfly.Instant, from, to map[partition]offset) (map[partition]offset, error) {
	places, open := maps.Clone(from), map[int32]kgo.Offset{}
	for p := range from {
		if from[p] < to[p] {
			open[p] = kgo.NewOffset().At(from[p])
		}
	}
	if len(open) == 0 {
		return places, nil
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
			found := err == nil && event.At >= at // one that cannot be read is passed: a seek is how to get past it
			if places[rec.Partition] = rec.Offset; !found {
				places[rec.Partition]++
			}
			if found || rec.Offset+1 >= to[rec.Partition] {
				delete(open, rec.Partition)
				client.PauseFetchPartitions(map[string][]int32{topic: {rec.Partition}})
			}
		}
	}
	return places, nil
}

// starts are the oldest records that are kept.
func (s *Store) starts(ctx context.Context, topic string) (map[partition]offset, error) {
	return offsets(s.admin.ListStartOffsets(ctx, topic))(topic)
}

// ends are behind the last records that every copy in sync has.
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
		places := map[partition]offset{}
		for p, l := range listed[topic] {
			places[p] = l.Offset
		}
		return places, nil
	}
}

// Lag implements store.Reader. It counts the reader's share.
func (r *reader) Lag(ctx context.Context) (int64, error) {
	if err := r.start(ctx); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.s.opts.Patience+r.s.opts.Handover)
	defer cancel()
	if err := r.share.await(ctx); err != nil {
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
	return waiting(r.share.places(), starts, ends), nil
}

// waiting counts what is between the places and the ends and is still kept.
func waiting(places, starts, ends map[partition]offset) (n int64) {
	for p, at := range places {
		n += max(0, ends[p]-max(at, starts[p]))
	}
	return n
}
