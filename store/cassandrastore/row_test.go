package cassandrastore

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestARowDecodesToTheItemThatWasEncoded(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		item := births(t, 1, "24h")[0].Item
		item.Product, item.Fate, item.Audience, item.Media = mayfly.Product(r.Uint32()), mayfly.Fate(r.Uint32()), mayfly.Audience(r.Uint32()), uint8(r.Uint32())
		item.State, item.Cause, item.Held = mayfly.State(r.Uint32()), mayfly.Cause(r.Uint32()), r.IntN(2) == 0
		item.Generation, item.Nonce, item.Run = mayfly.Generation(r.Uint32()), mayfly.Nonce(r.Uint64()), mayfly.Run(r.Uint64())
		item.Changed, item.ServesUntil = mayfly.Instant(r.Int64()), mayfly.Instant(r.Int64())
		item.Moved = mayfly.Stamp{Generation: mayfly.Generation(r.Uint32()), At: mayfly.Instant(r.Int64())}
		item.Hold = mayfly.Stamp{Generation: mayfly.Generation(r.Uint32()), At: mayfly.Instant(r.Int64())}
		item.Keys = mayfly.Keys{Hot: mayfly.Generation(r.Uint32()), Cold: mayfly.Generation(r.Uint32())}
		for i := range item.Upload {
			item.Upload[i], item.Owner[i] = byte(r.Uint32()), byte(r.Uint32())
		}
		got, err := readRow(placeOf(item.ID).at, item.ID[:], rowBytes(item))
		if err != nil || got != item {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, item)
		}
	}
}

func TestBytesThatAreNoRowAreCorrupt(t *testing.T) {
	item := births(t, 1, "24h")[0].Item
	good, at := rowBytes(item), placeOf(item.ID).at
	other := func(i int, b byte) []byte {
		c := append([]byte(nil), good...)
		c[i] = b
		return c
	}
	for name, c := range map[string]struct {
		at      int64
		id, row []byte
	}{
		"no bytes":         {at, item.ID[:], nil},
		"too short":        {at, item.ID[:], good[:rowSize-1]},
		"too long":         {at, item.ID[:], append(good[:rowSize:rowSize], 0)},
		"another format":   {at, item.ID[:], other(0, rowFormat-1)},
		"held more or so":  {at, item.ID[:], other(atHeld, 2)},
		"another's place":  {at + 1, item.ID[:], good},
		"not an id":        {at, make([]byte, 16), good},
		"an id cut short":  {at, item.ID[:15], good},
		"nothing whatever": {0, nil, nil},
	} {
		if _, err := readRow(c.at, c.id, c.row); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%s: %v, want Corrupt", name, err)
		}
	}
	if _, err := readRow(at, item.ID[:], good); err != nil {
		t.Error(err)
	}
}
