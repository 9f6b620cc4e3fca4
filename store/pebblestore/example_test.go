package pebblestore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

// Open the embedded store, write the birth of a story together with its event, and
// read the story back. The product opens it on vfs.Default in a folder.
func Example() {
	ctx := context.Background()
	db, err := pebblestore.Open(pebblestore.Options{FS: vfs.NewMem(), Dir: "db"})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	ana := mayfly.UserOf("example", "ana")
	lifetime, err := mayfly.ParseLifetime("24h")
	if err != nil {
		log.Fatal(err)
	}
	birth := mayfly.InstantOf(time.Date(2026, 7, 1, 10, 0, 0, 0, time.UTC))
	id, err := mayfly.NewID(birth, lifetime, ana.Trace(), 42) // 42 is a random number in the product
	if err != nil {
		log.Fatal(err)
	}
	item := mayfly.Item{
		ID: id, Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: 1, Changed: birth,
	}

	var batch store.Batch
	batch.Insert(store.Birth{Item: item, Body: mayfly.Body{Text: "hello"}})
	batch.Then() // the event follows the row that it is about
	batch.Append(mayfly.EventOf(item, mayfly.WasCreated))
	if err := db.Writer().Commit(ctx, &batch); err != nil {
		log.Fatal(err)
	}

	rows, err := db.Ledger().Get(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	bodies, err := db.Ledger().Body(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s, %s until %s\n", bodies[0].Body.Text, rows[0].Item.State, rows[0].Item.ID.Deadline().Time().Format(time.RFC3339))
	// Output: hello, active until 2026-07-02T10:00:00Z
}
