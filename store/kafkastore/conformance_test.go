//go:build servers

package kafkastore

import (
	"context"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/pebblestore"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/tables"
)

func TestKafkaKeepsTheContract(t *testing.T) {
	storetest.Log(t, "kafkastore", func(t *testing.T) store.Set {
		rest, err := pebblestore.Open(pebblestore.Options{Tables: append(tables.All(), storetest.Own()...), FS: vfs.NewMem(), Dir: "rest", MemtableBytes: 1 << 20, CacheBytes: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := rest.Close(); err != nil {
				t.Error(err)
			}
		})
		s := open(t, brokerOptions(t))
		return store.Set{Writer: staged{rest.Writer(), s}, Log: s}
	})
}

// staged commits a batch stage by stage: events to the log, inserts to the embedded
// store.
type staged struct {
	rest store.Writer
	log  store.Log
}

func (w staged) Commit(ctx context.Context, b *store.Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	for _, stage := range b.Stages() {
		var rest store.Batch
		rest.Insert(stage.Inserts...)
		if err := w.rest.Commit(ctx, &rest); err != nil {
			return err
		}
		if err := w.log.Append(ctx, stage.Events...); err != nil {
			return err
		}
	}
	return nil
}
