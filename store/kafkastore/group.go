package kafkastore

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

const maxGroup = 128

// Reader implements store.Log. The readers of a group, one in each process, share
// the partitions out among them; each sees its share alone. It returns when the group
// has let it in, which takes as long as Options.Session if a reader died just before.
//
// The brokers forget where a group stands that nobody has read for for
// offsets.retention.minutes (7 days unless set); it then starts at the oldest event.
func (s *Store) Reader(ctx context.Context, stream mayfly.Stream, group string) (store.Reader, error) {
	if stream != mayfly.Births && stream != mayfly.Ends {
		return nil, mayfly.Errorf(mayfly.Invalid, "%s is not a stream", stream)
	}
	if group == "" || len(group) > maxGroup {
		return nil, mayfly.Errorf(mayfly.Invalid, "a group has a name of 1 to %d bytes", maxGroup)
	}
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	r := &reader{
		s: s, topic: s.opts.topic(stream), group: s.opts.Prefix + stream.String() + "." + group,
		share: newShare(), stuck: map[partition]error{},
	}
	if !s.occupy(r.group) {
		return nil, mayfly.Errorf(mayfly.Conflict, "group %q reads %s already", group, stream)
	}
	if err := r.join(ctx); err != nil {
		s.settle(r.group, nil)
		return nil, unavailable(fmt.Sprintf("join group %q of %s", group, stream), err)
	}
	if !s.settle(r.group, r) {
		return nil, errors.Join(mayfly.Errorf(mayfly.Unavailable, "kafka: the store is closed"), r.Close())
	}
	return r, nil
}

func (s *Store) occupy(group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.readers[group]; taken {
		return false
	}
	s.readers[group] = nil
	return true
}

// settle puts the reader into its group's place, or frees it if there is none; false
// if the store was closed meanwhile.
func (s *Store) settle(group string, r *reader) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == nil {
		delete(s.readers, group)
	} else {
		s.readers[group] = r
	}
	return !s.closed
}

// join becomes a member of the group and waits for a share of the topic.
func (r *reader) join(ctx context.Context) (err error) {
	o := r.s.opts
	r.client, err = kgo.NewClient(append(r.s.common,
		kgo.ConsumerGroup(r.group),
		kgo.ConsumeTopics(r.topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), // one at a time: members with different ones cannot meet
		kgo.SessionTimeout(o.Session),
		kgo.HeartbeatInterval(o.Session/4),
		kgo.RebalanceTimeout(o.Handover),
		kgo.DisableAutoCommit(),                           // a place is committed when its effects are there (I13)
		kgo.BlockRebalanceOnPoll(),                        // between Next and Commit no partition goes to another reader
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // rather once more than never
		kgo.AdjustFetchOffsetsFn(r.begin),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, list map[string][]int32) { r.share.take(list[r.topic]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, list map[string][]int32) { r.share.give(list[r.topic]) }),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { r.share.lose() }),
	)...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Patience+o.Session+o.Handover)
	defer cancel()
	if err := r.share.await(ctx); err != nil {
		r.leave()
		return err
	}
	return nil
}

// begin is asked where to begin in partitions that the group just gave.
func (r *reader) begin(ctx context.Context, list map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	committed := map[partition]offset{}
	for p, at := range list[r.topic] {
		committed[p] = at.EpochOffset().Offset // below 0 if the group has none
	}
	starts, err := r.s.starts(ctx, r.topic)
	if err != nil {
		return nil, err
	}
	for p, at := range r.share.begin(committed, starts) {
		if at != committed[p] {
			list[r.topic][p] = kgo.NewOffset().At(at)
		}
	}
	return list, nil
}

// leave gives the place in the group up, so that others need not wait for the
// session to end. If the brokers are away it ends by itself.
func (r *reader) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), r.s.opts.Patience)
	defer cancel()
	r.client.AllowRebalance()
	if err := r.client.LeaveGroupContext(ctx); err != nil {
		r.s.opts.Logger.Warn("kafka: leave the group", "group", r.group, "error", err)
	}
	r.client.CloseAllowingRebalance()
}
