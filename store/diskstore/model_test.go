package diskstore

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// TestTheTierIsAMapFromKeysToBytes tries random operations, reopenings among
// them, against a plain map. rapid prints the seed of a failure.
func TestTheTierIsAMapFromKeysToBytes(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mem, model := vfs.NewMem(), map[mayfly.BlobKey][]byte{}
		s := mustOpen(t, testOptions(mem))
		keys := rapid.Map(rapid.IntRange(0, 9), testKey)
		sizes := rapid.SampledFrom([]int{0, 1, 600, testInline, testInline + 1, framePayload, 2*framePayload + 1})
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				key := keys.Draw(rt, "key")
				data := bytes.Repeat([]byte{rapid.Byte().Draw(rt, "byte")}, sizes.Draw(rt, "size"))
				mustPut(t, s, key, data)
				model[key] = data
			},
			"delete": func(rt *rapid.T) {
				gone := rapid.SliceOfN(keys, 0, 5).Draw(rt, "keys")
				if err := s.Delete(t.Context(), gone...); err != nil {
					rt.Fatal(err)
				}
				for _, key := range gone {
					delete(model, key)
				}
			},
			"copy": func(rt *rapid.T) {
				from, as := keys.Draw(rt, "from"), keys.Draw(rt, "as")
				if _, err := s.CopyTo(t.Context(), s, from, as); err == nil {
					model[as] = model[from]
				} else if model[from] != nil {
					rt.Fatal(err)
				}
			},
			"read": func(rt *rapid.T) {
				key := keys.Draw(rt, "key")
				span := store.Span{Offset: rapid.Int64Range(0, 700).Draw(rt, "offset"), Length: rapid.Int64Range(0, frameSize).Draw(rt, "length")}
				got, err := readAll(t.Context(), s, key, span)
				want, there := model[key]
				if span.Offset > 0 && span.Offset >= int64(len(want)) {
					there = false
				}
				if there != (err == nil) {
					rt.Fatalf("%+v of %s with %d bytes: %v", span, key, len(want), err)
				}
				if end, e := endOf(span, int64(len(want))); there && (e != nil || !bytes.Equal(got, want[span.Offset:end])) {
					rt.Fatalf("%+v of %s with %d bytes: %d bytes", span, key, len(want), len(got))
				}
			},
			"open again": func(rt *rapid.T) {
				mustClose(t, s)
				s = mustOpen(t, testOptions(mem))
			},
			"reclaim": func(rt *rapid.T) {
				if err := s.Reclaim(t.Context()); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				listed, err := s.List(t.Context(), "", "", 100)
				if err != nil {
					rt.Fatal(err)
				}
				var want []store.Listed
				for _, key := range slices.Sorted(maps.Keys(model)) {
					want = append(want, store.Listed{Key: key, Size: int64(len(model[key]))})
				}
				if !slices.Equal(listed, want) {
					rt.Fatalf("listed %v, want %v", listed, want)
				}
				wantClean(t, s)
			},
		})
		mustClose(t, s)
	})
}

// TestWritersOfTheSameKeysLeaveOneWholeObjectAndNoGarbage lets small and big
// objects, deletes, moves and readers meet.
func TestWritersOfTheSameKeysLeaveOneWholeObjectAndNoGarbage(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, tinyVolumes(mem))
	var all sync.WaitGroup
	for w := range 9 {
		all.Go(func() {
			for i := range 60 {
				key := testKey((w + i) % 3)
				switch {
				case w < 5:
					size := []int{100, testInline + 1, framePayload + 1}[i%3]
					if _, err := s.Put(t.Context(), key, bytes.NewReader(bytes.Repeat([]byte{byte(w)}, size))); err != nil {
						t.Error(err)
					}
				case w == 5:
					if err := s.Delete(t.Context(), testKey(0), testKey(1), testKey(2), testKey(0)); err != nil {
						t.Error(err)
					}
				case w == 6:
					if err := s.Reclaim(t.Context()); err != nil {
						t.Error(err)
					}
				default:
					data, err := readAll(t.Context(), s, key, store.Span{})
					if err != nil && !isNotFound(err) {
						t.Error(err)
					}
					if len(data) > 0 && bytes.Count(data, data[:1]) != len(data) {
						t.Error("a mix of two objects")
					}
				}
			}
		})
	}
	all.Wait()
	if _, err := contents(t.Context(), s); err != nil {
		t.Error(err)
	}
	mustClose(t, s)
	wantClean(t, mustOpen(t, tinyVolumes(mem)))
}
