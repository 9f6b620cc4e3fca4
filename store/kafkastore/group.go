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

// Reader implements store.Log. The partitions are divided among the readers of a
// group, of which each process has at most one. Reader returns when the group has
// admitted it; if another reader died just before, that takes up to Options.SessionTimeout.
//
// The brokers delete the offsets of a group that has had no reader for
// offsets.retention.minutes (default 7 days); it then starts at the oldest event.
func (s *Store) Reader(ctx context.Context, stream mayfly.Stream, group string) (store.Reader, error) {
	if stream != mayfly.Births && stream != mayfly.Ends {
		return nil, mayfly.Errorf(mayfly.Invalid, "unknown stream %s; use births or ends", stream)
	}
	if group == "" || len(group) > maxGroup {
		return nil, mayfly.Errorf(mayfly.Invalid, "group name %q must have 1 to %d bytes", group, maxGroup)
	}
	if err := s.checkOpen(ctx); err != nil {
		return nil, err
	}
	r := &reader{
		s: s, topic: s.opts.topic(stream), group: s.opts.Prefix + stream.String() + "." + group,
		assigned: newAssignment(), stuck: map[partition]error{},
	}
	if !s.reserve(r.group) {
		return nil, mayfly.Errorf(mayfly.Conflict, "this process already has a reader of %s in group %q", stream, group)
	}
	if err := r.join(ctx); err != nil {
		s.setReader(r.group, nil)
		return nil, unavailable(fmt.Sprintf("join group %q of %s", group, stream), err)
	}
	if !s.setReader(r.group, r) {
		return nil, errors.Join(mayfly.Errorf(mayfly.Unavailable, "kafka: the store is closed"), r.Close())
	}
	return r, nil
}

// reserve marks a group as in use by this process; false if it already is.
func (s *Store) reserve(group string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, taken := s.readers[group]; taken {
		return false
	}
	s.readers[group] = nil
	return true
}

// setReader stores the reader of a reserved group, or removes the reservation if r is
// nil; false if the store was closed in the meantime.
func (s *Store) setReader(group string, r *reader) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r == nil {
		delete(s.readers, group)
	} else {
		s.readers[group] = r
	}
	return !s.closed
}

// join becomes a member of the group and waits for its partitions.
func (r *reader) join(ctx context.Context) (err error) {
	o := r.s.opts
	r.client, err = kgo.NewClient(append(r.s.common,
		kgo.ConsumerGroup(r.group),
		kgo.ConsumeTopics(r.topic),
		kgo.Balancers(kgo.CooperativeStickyBalancer()), // a single one: members without a common balancer cannot join
		kgo.SessionTimeout(o.SessionTimeout),
		kgo.HeartbeatInterval(o.SessionTimeout/4),
		kgo.RebalanceTimeout(o.RebalanceTimeout),
		kgo.DisableAutoCommit(),                           // an offset is committed only after its effects are stored (I13)
		kgo.BlockRebalanceOnPoll(),                        // between Next and Commit no partition moves to another reader
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), // reading an event again is harmless, missing it is not
		kgo.AdjustFetchOffsetsFn(r.startOffsets),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, list map[string][]int32) { r.assigned.assign(list[r.topic]) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, list map[string][]int32) { r.assigned.revoke(list[r.topic]) }),
		kgo.OnPartitionsLost(func(context.Context, *kgo.Client, map[string][]int32) { r.assigned.lose() }),
	)...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout+o.SessionTimeout+o.RebalanceTimeout)
	defer cancel()
	if err := r.assigned.await(ctx); err != nil {
		r.leave()
		return err
	}
	return nil
}

// startOffsets is called by the client to adjust the offsets of newly assigned
// partitions.
func (r *reader) startOffsets(ctx context.Context, list map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	committed := map[partition]offset{}
	for p, at := range list[r.topic] {
		committed[p] = at.EpochOffset().Offset // negative if the group has committed none
	}
	starts, err := r.s.starts(ctx, r.topic)
	if err != nil {
		return nil, err
	}
	for p, at := range r.assigned.start(committed, starts) {
		if at != committed[p] {
			list[r.topic][p] = kgo.NewOffset().At(at)
		}
	}
	return list, nil
}

// leave leaves the group, so that the other readers need not wait for the session
// timeout. If no broker answers, the membership ends with that timeout.
func (r *reader) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), r.s.opts.Timeout)
	defer cancel()
	r.client.AllowRebalance()
	if err := r.client.LeaveGroupContext(ctx); err != nil {
		r.s.opts.Logger.Warn("leave kafka group failed", "group", r.group, "error", err)
	}
	r.client.CloseAllowingRebalance()
}
