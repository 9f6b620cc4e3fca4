// Command badger is a peer of mayfly bench kv: Badger with SyncWrites, and otherwise
// its default settings, behind the Redis protocol of mayfly.
//
// It prints one line of JSON when it serves: its address, and the name and the key of
// a namespace. It ends when its standard input does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"log"
	"net"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/dgraph-io/badger/v4"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/resp"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

func main() {
	data := flag.String("data", "", "data folder")
	flag.Int("users", 0, "not used")
	flag.Parse()
	if err := run(context.Background(), *data); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, data string) error {
	db, err := badger.Open(badger.DefaultOptions(data).WithSyncWrites(true).WithLoggingLevel(badger.ERROR))
	if err != nil {
		return err
	}
	rows, err := pebblestore.Open(pebblestore.Options{FS: vfs.NewMem(), Dir: "rows", Tables: kv.Tables()})
	if err != nil {
		return err
	}
	spaces, err := kv.New(kv.Options{Rows: rows.Rows(), Store: entries{db: db}})
	if err != nil {
		return err
	}
	const name = "bench"
	now := mayfly.InstantOf(time.Now())
	if err := spaces.Configure(ctx, name, spaces.Defaults(), now); err != nil {
		return err
	}
	key, _, err := spaces.AddKey(ctx, mayfly.UserID{}, name, now)
	if err != nil {
		return err
	}
	server, err := resp.NewServer(resp.Options{KV: spaces, Read: func() clock.Reading {
		now := mayfly.InstantOf(time.Now())
		return clock.Reading{Now: now, Steady: now, Confirmed: true}
	}})
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"url": l.Addr().String(), "users": []map[string]string{{"id": name, "token": key.Reveal()}}}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	go func() {
		for range time.Tick(time.Second) { // as its documentation advises, but more often
			for db.RunValueLogGC(0.5) == nil {
			}
		}
	}()
	return server.Serve(ctx, l)
}

// entries is what GET and SET need of store.KV. Badger keeps the expiry in seconds.
type entries struct {
	store.KV
	db *badger.DB
}

// Get implements store.KV.
func (e entries) Get(_ context.Context, _ store.KVSpace, _ mayfly.Instant, keys ...string) ([]store.KVEntry, error) {
	found := make([]store.KVEntry, len(keys))
	return found, e.db.View(func(t *badger.Txn) error {
		for i, key := range keys {
			found[i].Key = key
			item, err := t.Get([]byte(key))
			if errors.Is(err, badger.ErrKeyNotFound) {
				continue
			}
			if err == nil {
				found[i].Value, err = item.ValueCopy(nil)
			}
			if err != nil {
				return err
			}
			found[i].Found, found[i].Expiry = true, mayfly.Instant(item.ExpiresAt())*1000
		}
		return nil
	})
}

// Apply implements store.KV for sets without a condition.
func (e entries) Apply(_ context.Context, _ store.KVSpace, _ mayfly.Instant, g store.KVGroup) ([]store.KVResult, error) {
	results := make([]store.KVResult, len(g.Ops))
	err := e.db.Update(func(t *badger.Txn) error {
		for i := range g.Ops {
			o := &g.Ops[i]
			if o.Action != store.KVSet || o.If != store.KVAlways || o.Old || o.KeepExpiry {
				return mayfly.Errorf(mayfly.Unsupported, "only GET and SET are there")
			}
			entry := badger.NewEntry([]byte(o.Key), o.Value)
			if o.Expiry != 0 {
				entry.ExpiresAt = uint64(o.Expiry+999) / 1000
			}
			if err := t.SetEntry(entry); err != nil {
				return err
			}
			results[i].Done = true
		}
		return nil
	})
	return results, err
}
