package store_test

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func drawBody(t *rapid.T) mayfly.Body {
	b := mayfly.Body{Text: rapid.String().Draw(t, "text")}
	if data := rapid.SliceOfN(rapid.Byte(), 0, 50).Draw(t, "data"); len(data) > 0 {
		b.Data = data
	}
	for range rapid.IntRange(0, 4).Draw(t, "media") {
		b.Media = append(b.Media, mayfly.Medium{
			Type: rapid.String().Draw(t, "type"), Size: rapid.Int64Range(0, math.MaxInt64).Draw(t, "size"),
			SHA256: [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash")),
			Width:  rapid.Uint32().Draw(t, "width"), Height: rapid.Uint32().Draw(t, "height"),
		})
	}
	return b
}

func TestABodyReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawBody(t)
		data := store.AppendBody([]byte("before"), want)
		got, err := store.ReadBody(data[6:])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
		}
		for i := range data { // what was read shares nothing
			data[i] = 0xff
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatal("the body changes with the bytes that it was read from")
		}
	})
}

func TestACutOrPaddedBodyIsCorrupt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := store.AppendBody(nil, drawBody(t))
		for n := range data {
			if _, err := store.ReadBody(data[:n]); !errors.Is(err, mayfly.Corrupt) {
				t.Fatalf("%d of %d bytes: %v", n, len(data), err)
			}
		}
		if _, err := store.ReadBody(append(data, 0)); !errors.Is(err, mayfly.Corrupt) {
			t.Fatalf("a byte more: %v", err)
		}
	})
}

func TestAnUnknownFormatIsCorrupt(t *testing.T) {
	body := store.AppendBody(nil, mayfly.Body{Text: "x"})
	event := store.AppendEvent(nil, mayfly.Event{})
	for _, format := range []byte{0, 3, 255} {
		body[0], event[0] = format, format
		if _, err := store.ReadBody(body); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("body of format %d: %v", format, err)
		}
		if _, err := store.ReadEvent(event); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("event of format %d: %v", format, err)
		}
	}
}

func TestAnEventReadsBackAsItWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := mayfly.Event{
			ID:         mayfly.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")),
			Generation: mayfly.Generation(rapid.Uint32().Draw(t, "generation")),
			Product:    mayfly.Product(rapid.Byte().Draw(t, "sort")), Verb: mayfly.Verb(rapid.Byte().Draw(t, "verb")),
			At:    mayfly.Instant(rapid.Int64().Draw(t, "at")),
			Owner: mayfly.UserID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "owner")),
		}
		data := store.AppendEvent([]byte("before"), want)[6:]
		got, err := store.ReadEvent(data)
		if err != nil || got != want {
			t.Fatalf("%v\n got %+v\nwant %+v", err, got, want)
		}
		for n := range data {
			if _, err := store.ReadEvent(data[:n]); !errors.Is(err, mayfly.Corrupt) {
				t.Fatalf("%d bytes: %v", n, err)
			}
		}
	})
}

// The bytes are a stored format: they may grow a new format number, not change.
func TestTheBytesOfBodiesAndEventsAreFixed(t *testing.T) {
	body := mayfly.Body{Text: "hi", Data: []byte{9}, Media: []mayfly.Medium{{Type: "a/b", Size: 300, SHA256: [32]byte{0xaa, 31: 0xbb}, Width: 1, Height: 128}}}
	want := "\x01\x02hi\x01\x09\x01\x03a/b\xac\x02\xaa" + string(make([]byte, 30)) + "\xbb\x01\x80\x01"
	if got := store.AppendBody(nil, body); string(got) != want {
		t.Errorf("body %q, want %q", got, want)
	}
	event := mayfly.Event{ID: mayfly.ID{0: 1, 15: 2}, Generation: 3, Product: mayfly.Paste, Verb: mayfly.WasExpired, At: 0x0102030405060708, Owner: mayfly.UserID{0: 4, 15: 5}}
	want = "\x02\x01" + string(make([]byte, 14)) + "\x02\x00\x00\x00\x03\x03\x02\x01\x02\x03\x04\x05\x06\x07\x08\x04" + string(make([]byte, 14)) + "\x05"
	if got := store.AppendEvent(nil, event); string(got) != want {
		t.Errorf("event %q, want %q", got, want)
	}
}

func FuzzReadBodyNeverPanics(f *testing.F) {
	f.Add(store.AppendBody(nil, mayfly.Body{}))
	f.Add(store.AppendBody(nil, mayfly.Body{Text: "text", Data: []byte{1}, Media: []mayfly.Medium{{Type: "image/png", Size: 1 << 40}, {}}}))
	f.Add([]byte("\x01\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		body, err := store.ReadBody(data)
		if err != nil {
			if !errors.Is(err, mayfly.Corrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := store.ReadBody(store.AppendBody(nil, body))
		if err != nil || !reflect.DeepEqual(again, body) {
			t.Fatalf("%v\n got %+v\nwant %+v", err, again, body)
		}
	})
}

func FuzzReadEventNeverPanics(f *testing.F) {
	f.Add(store.AppendEvent(nil, mayfly.Event{Generation: 7}))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := store.ReadEvent(data)
		if err == nil && !bytes.Equal(store.AppendEvent(nil, e), data) {
			t.Fatalf("%x reads as %+v", data, e)
		}
	})
}
