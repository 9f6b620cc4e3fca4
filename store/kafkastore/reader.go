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

// reader reads a stream for a group.
type reader struct {
	s      *Store
	topic  string
	group  string
	client *kgo.Client
	share  *share
	stuck  map[partition]error // behind a record that cannot be read
	closed atomic.Bool
}

func (r *reader) start(ctx context.Context) error {
	if r.closed.Load() {
		return mayfly.Errorf(mayfly.Invalid, "the reader is closed")
	}
	return r.s.begin(ctx)
}

// Next implements store.Reader. From its return until Commit, or until it is called
// again, the group does not give the reader's partitions away, for as long as
// Options.Handover lets it. Errors: Invalid, Unavailable, Corrupt (a record cannot be
// read: the reader stands still until a Seek).
func (r *reader) Next(ctx context.Context, limit int) ([]store.Record, error) {
	if limit <= 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "a limit of %d records", limit)
	}
	if err := r.start(ctx); err != nil {
		return nil, err
	}
	for {
		r.client.AllowRebalance()
		for p, err := range r.stuck {
			if r.share.owns(p) {
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

// read is what can be read of fetches. It moves the reader behind that.
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
		r.share.move(rec.Partition, rec.Offset+1)
		records = append(records, store.Record{Partition: uint32(rec.Partition), Offset: uint64(rec.Offset), Event: event})
	}
	return records
}

// failure is what the client found to be wrong and the caller should know.
func (r *reader) failure(fetches kgo.Fetches) error {
	for _, f := range fetches.Errors() {
		if lost := (*kgo.ErrDataLoss)(nil); errors.As(f.Err, &lost) { // the client reads on from what there is
			r.s.opts.Logger.Error("kafka: the brokers have lost records", "topic", f.Topic, "partition", f.Partition, "error", f.Err)
			continue
		}
		return f.Err
	}
	return nil
}

// Commit implements store.Reader. If the group has given something of what Next
// returned to another reader before this, the rest is committed and the error is
// Unavailable: the other one reads it again, and effects are once by their key (I13).
// Errors: Invalid, Unavailable, Unknown.
func (r *reader) Commit(ctx context.Context) error {
	if err := r.start(ctx); err != nil {
		return err
	}
	defer r.client.AllowRebalance()
	if places := r.share.unsaved(); len(places) > 0 {
		ctx, cancel := context.WithTimeout(ctx, r.s.opts.Patience)
		defer cancel()
		if err := r.commit(ctx, places); err != nil {
			return commitError(err)
		}
		r.share.save(places)
	}
	if r.share.forgo() {
		return commitError(kerr.IllegalGeneration)
	}
	return nil
}

// commit tries until the group's coordinator has an answer: it may be moving.
func (r *reader) commit(ctx context.Context, places map[partition]offset) error {
	list := map[string]map[int32]kgo.EpochOffset{r.topic: epochless(places)}
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
		case <-time.After(lookAgain):
		case <-ctx.Done():
			return errors.Join(failed, ctx.Err())
		}
	}
}

// final says that trying again gives the same answer.
func final(err error) bool {
	var answer *kerr.Error
	return err == nil || errors.As(err, &answer) && !answer.Retriable ||
		errors.Is(err, kgo.ErrClientClosed) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func epochless(places map[partition]offset) map[int32]kgo.EpochOffset {
	list := map[int32]kgo.EpochOffset{}
	for p, at := range places {
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
			return mayfly.Wrap(mayfly.Unavailable, wrapped("commit", err), "the group was shared out anew; what was not committed is read again")
		}
	}
	return mayfly.Wrap(mayfly.Unknown, wrapped("commit", err), hintOf(err))
}

// Close implements store.Reader. It commits nothing.
func (r *reader) Close() error {
	if r.closed.CompareAndSwap(false, true) {
		r.leave()
		r.s.settle(r.group, nil)
	}
	return nil
}
