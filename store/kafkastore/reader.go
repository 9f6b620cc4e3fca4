package kafkastore

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// reader implements store.Reader for one stream and one consumer group.
type reader struct {
	s        *Store
	topic    string
	group    string
	client   *kgo.Client
	assigned *assignment
	stuck    map[partition]error // partitions that stopped at an unreadable record
	closed   atomic.Bool
}

func (r *reader) start(ctx context.Context) error {
	if r.closed.Load() {
		return mayfly.Errorf(mayfly.Invalid, "the reader is closed")
	}
	return r.s.checkOpen(ctx)
}

// Next implements store.Reader. From its return until Commit or the next call of Next,
// the group does not reassign the reader's partitions, for up to Options.RebalanceTimeout.
// Errors: Invalid, Unavailable, Corrupt (a record cannot be decoded: the reader
// returns this error until a Seek).
func (r *reader) Next(ctx context.Context, limit int) ([]store.Record, error) {
	if limit <= 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "limit of %d records must be positive", limit)
	}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	for {
		r.client.AllowRebalance()
		for p, err := range r.stuck {
			if r.assigned.owns(p) {
				return nil, err
			}
			delete(r.stuck, p)
		}
		fetches := r.client.PollRecords(ctx, limit)
		if records := r.read(fetches); len(records) > 0 {
			return records, nil
		}
		if err := r.failure(fetches); err != nil {
			r.client.AllowRebalance()
			return nil, unavailable("read "+r.topic, err)
		}
	}
}

// read decodes the fetched records and advances the reader past them. A partition
// stops at a record that cannot be decoded.
func (r *reader) read(fetches kgo.Fetches) []store.Record {
	records := make([]store.Record, 0, fetches.NumRecords())
	for rec := range fetches.RecordsAll() {
		if r.stuck[rec.Partition] != nil {
			continue
		}
		event, err := store.ReadEvent(rec.Value)
		if err != nil {
			r.stuck[rec.Partition] = fmt.Errorf("kafka: record %d of %s/%d: %w", rec.Offset, rec.Topic, rec.Partition, err)
			continue
		}
		r.assigned.advance(rec.Partition, rec.Offset+1)
		records = append(records, store.Record{Partition: uint32(rec.Partition), Offset: uint64(rec.Offset), Event: event})
	}
	return records
}

// failure returns the error of a fetch. Lost records are only logged, because the
// client continues after them.
func (r *reader) failure(fetches kgo.Fetches) error {
	for _, f := range fetches.Errors() {
		if lost := (*kgo.ErrDataLoss)(nil); errors.As(f.Err, &lost) {
			r.s.opts.Logger.Error("kafka records lost by the brokers", "topic", f.Topic, "partition", f.Partition, "error", f.Err)
			continue
		}
		return f.Err
	}
	return nil
}

// Commit implements store.Reader. If a partition of the returned records moved to
// another reader before this call, the others are committed and the error is
// Unavailable: the new reader reads those records again, and effects are idempotent
// by their key (I13). Errors: Invalid, Unavailable, Unknown.
func (r *reader) Commit(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	defer r.client.AllowRebalance()
	if positions := r.assigned.uncommitted(); len(positions) > 0 {
		ctx, cancel := context.WithTimeout(ctx, r.s.opts.Timeout)
		defer cancel()
		if err := r.commit(ctx, positions); err != nil {
			return commitError(err)
		}
		r.assigned.markCommitted(positions)
	}
	if r.assigned.takeLost() {
		return commitError(kerr.IllegalGeneration)
	}
	return nil
}

// commit retries until the group's coordinator gives a final answer: the coordinator
// may be moving to another broker.
func (r *reader) commit(ctx context.Context, positions map[partition]offset) error {
	list := map[string]map[int32]kgo.EpochOffset{r.topic: epochless(positions)}
	for {
		var failed error
		r.client.CommitOffsetsSync(ctx, list, func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			if failed = err; err == nil {
				failed = refusal(answer)
			}
		})
		if final(failed) {
			return failed
		}
		select {
		case <-time.After(pollInterval):
		case <-ctx.Done():
			return errors.Join(failed, ctx.Err())
		}
	}
}

// final reports whether a retry cannot change the result.
func final(err error) bool {
	var answer *kerr.Error
	return err == nil || errors.As(err, &answer) && !answer.Retriable ||
		errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func epochless(positions map[partition]offset) map[int32]kgo.EpochOffset {
	list := map[int32]kgo.EpochOffset{}
	for p, at := range positions {
		list[p] = kgo.EpochOffset{Epoch: -1, Offset: at}
	}
	return list
}

func refusal(answer *kmsg.OffsetCommitResponse) error {
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return err
			}
		}
	}
	return nil
}

func commitError(err error) error {
	for _, fenced := range []error{kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress} {
		if errors.Is(err, fenced) {
			return mayfly.Wrap(mayfly.Unavailable, wrapped("commit", err), "the group was rebalanced; records that were not committed are read again")
		}
	}
	return mayfly.Wrap(mayfly.Unknown, wrapped("commit", err), hintOf(err))
}

// Close implements store.Reader. It commits nothing.
func (r *reader) Close() error {
	if r.closed.CompareAndSwap(false, true) {
		r.leave()
		r.s.setReader(r.group, nil)
	}
	return nil
}
