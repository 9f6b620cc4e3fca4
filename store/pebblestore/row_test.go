package pebblestore

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
)

func drawID(t *rapid.T, label string) mayfly.ID {
	var id mayfly.ID
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, label))
	return id
}

// drawItem draws any row that can be encoded, also such as the engine never writes.
func drawItem(t *rapid.T) mayfly.Item {
	instant := rapid.Int64()
	item := mayfly.Item{
		ID:          drawID(t, "id"),
		Owner:       mayfly.UserID(drawID(t, "owner")),
		Product:     mayfly.Product(rapid.Byte().Draw(t, "product")),
		Fate:        mayfly.Fate(rapid.Byte().Draw(t, "fate")),
		Audience:    mayfly.Audience(rapid.Byte().Draw(t, "audience")),
		Media:       rapid.Uint8Range(0, 10).Draw(t, "media"),
		State:       mayfly.State(rapid.Byte().Draw(t, "state")),
		Generation:  mayfly.Generation(rapid.Uint32().Draw(t, "generation")),
		Nonce:       mayfly.Nonce(rapid.Uint64().Draw(t, "nonce")),
		Run:         mayfly.Run(rapid.Uint64Range(0, 3).Draw(t, "run")),
		Cause:       mayfly.Cause(rapid.Byte().Draw(t, "cause")),
		Changed:     mayfly.Instant(instant.Draw(t, "changed")),
		Held:        rapid.Bool().Draw(t, "held"),
		ServesUntil: mayfly.Instant(instant.Draw(t, "serves")) * mayfly.Instant(rapid.IntRange(0, 1).Draw(t, "restored")),
		Keys: mayfly.Keys{
			Hot:  mayfly.Generation(rapid.Uint32Range(0, 2).Draw(t, "hot")),
			Cold: mayfly.Generation(rapid.Uint32Range(0, 2).Draw(t, "cold")),
		},
	}
	if item.Media > 0 {
		item.Upload = drawID(t, "upload")
	}
	stamp := rapid.Custom(func(t *rapid.T) mayfly.Stamp {
		return mayfly.Stamp{Generation: mayfly.Generation(rapid.Uint32().Draw(t, "generation")), At: mayfly.Instant(instant.Draw(t, "at"))}
	})
	item.Moved = rapid.OneOf(rapid.Just(lastStamp(&item)), stamp).Draw(t, "moved")
	if item.Held {
		item.Hold = stamp.Draw(t, "hold")
	}
	return item
}

func rowBytes(item *mayfly.Item) []byte {
	flags, size := rowFlags(item)
	b := make([]byte, size)
	putRow(b, item, flags)
	return b
}

func TestARowDecodesToTheItemThatWasEncoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		item := drawItem(t)
		var got mayfly.Item
		if err := readRow(&got, item.ID, rowBytes(&item)); err != nil || got != item {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, item)
		}
	})
}

func TestRowKeysSortByMinuteShardDeadlineAndID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) mayfly.ID {
			id, err := mayfly.NewID(mayfly.Instant(rapid.Int64Range(0, 200_000).Draw(t, label)), 30, 0, rapid.Uint64Range(0, 40).Draw(t, label+" random"))
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		a, b := draw("a"), draw("b")
		less := func() bool {
			switch {
			case a.Minute() != b.Minute():
				return a.Minute() < b.Minute()
			case a.Shard() != b.Shard():
				return a.Shard() < b.Shard()
			case a.Deadline() != b.Deadline():
				return a.Deadline() < b.Deadline()
			}
			return a.Compare(b) < 0
		}()
		ka, kb := keyOf(a), keyOf(b)
		if got := bytes.Compare(ka.bytes(), kb.bytes()) < 0; got != less {
			t.Fatalf("%x before %x: %t, want %t", ka, kb, got, less)
		}
		if id, err := idAt(ka.bytes()); err != nil || id != a {
			t.Fatalf("%s, %v", id, err)
		}
	})
}

// FuzzDecoding: bytes that were never written are Corrupt, and a row that can be
// decoded is encoded to the same bytes.
func FuzzDecoding(f *testing.F) {
	item := mayfly.Item{Media: 1, Run: 2, ServesUntil: 3, Keys: mayfly.Keys{Cold: 4}, Held: true, Moved: mayfly.Stamp{Generation: 5, At: 6}}
	f.Add(rowBytes(&item))
	f.Add(rowBytes(&mayfly.Item{}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		var got mayfly.Item
		err := readRow(&got, mayfly.ID{}, data)
		if err != nil && !errors.Is(err, mayfly.Corrupt) {
			t.Fatal(err)
		}
		if err == nil && !bytes.Equal(rowBytes(&got), data) {
			t.Fatalf("%x reads as %x", data, rowBytes(&got))
		}
		if _, err := readRecord(data); err != nil && !errors.Is(err, mayfly.Corrupt) {
			t.Fatal(err)
		}
		if _, err := rowLockOf(data); err != nil && !errors.Is(err, mayfly.Corrupt) {
			t.Fatal(err)
		}
	})
}
