package pasteapi

import (
	"html/template"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"
	"weak"

	"github.com/mayflyhq/mayfly"
)

func testID(t *testing.T, n int, lifetime time.Duration) mayfly.ID {
	t.Helper()
	l := mayfly.Never
	if lifetime > 0 {
		var err error
		if l, err = mayfly.LifetimeOf(lifetime); err != nil {
			t.Fatal(err)
		}
	}
	id, err := mayfly.NewID(sampleNow, l, 0, uint64(n))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestTheCacheKeepsALanguageOfAPasteApart(t *testing.T) {
	c := newRenderedCache(1 << 20)
	id, other := testID(t, 1, time.Hour), testID(t, 2, time.Hour)
	c.put(id, "", rendered{HTML: "guessed"}, sampleNow)
	c.put(id, "go", rendered{HTML: "go"}, sampleNow)
	c.put(other, "go", rendered{HTML: "other"}, sampleNow)
	for _, want := range []struct {
		id       mayfly.ID
		language string
		html     template.HTML
	}{{id, "", "guessed"}, {id, "go", "go"}, {other, "go", "other"}, {other, "", ""}} {
		if got, ok := c.get(want.id, want.language); got.HTML != want.html || ok != (want.html != "") {
			t.Errorf("%s in %q is %q (%v), want %q", want.id, want.language, got.HTML, ok, want.html)
		}
	}
	if n := c.forget(id); n != 2 {
		t.Errorf("%d entries were forgotten, want 2", n)
	}
	if _, ok := c.get(id, "go"); ok {
		t.Error("a forgotten paste is in the cache")
	}
	if _, ok := c.get(other, "go"); !ok {
		t.Error("another paste was forgotten")
	}
}

func TestWhatHasEndedLeavesTheCacheWithoutTraffic(t *testing.T) {
	c := newRenderedCache(1 << 20)
	short, long, never := testID(t, 1, time.Minute), testID(t, 2, time.Hour), testID(t, 3, 0)
	for _, id := range []mayfly.ID{short, long, never} {
		c.put(id, "", rendered{HTML: "x"}, sampleNow)
	}
	if n := c.drop(short.Deadline() - 1); n != 0 {
		t.Errorf("%d entries left before the deadline", n)
	}
	if n := c.drop(short.Deadline()); n != 1 {
		t.Errorf("%d entries left at the deadline, want 1", n)
	}
	if _, ok := c.get(short, ""); ok {
		t.Error("the ended paste is in the cache")
	}
	if _, ok := c.get(never, ""); !ok {
		t.Error("the paste that never expires left")
	}
	if n := c.drop(sampleNow.Add(maxRenderedAge - 1)); n != 0 {
		t.Errorf("%d entries left too early", n)
	}
	if n := c.drop(sampleNow.Add(maxRenderedAge)); n != 2 {
		t.Errorf("%d entries left when they were old, want 2", n)
	}
	c.put(short, "", rendered{HTML: "x"}, short.Deadline())
	if _, ok := c.get(short, ""); ok {
		t.Error("an ended paste was stored")
	}
	c.put(long, "", rendered{HTML: "x", Busy: true}, sampleNow)
	if _, ok := c.get(long, ""); ok {
		t.Error("what is plain for now only was stored")
	}
}

func TestTheCacheIsBoundedInBytes(t *testing.T) {
	const most = 1 << 20
	c := newRenderedCache(most)
	page := rendered{HTML: template.HTML(strings.Repeat("x", 10_000))}
	for n := range 1000 {
		c.put(testID(t, n, time.Hour), "", page, sampleNow)
	}
	c.entries.CleanUp()
	if got := c.bytes(); got > most || got < most/2 {
		t.Errorf("the cache holds %d bytes, want at most %d", got, most)
	}
	none := newRenderedCache(0)
	none.put(testID(t, 1, time.Hour), "", page, sampleNow)
	if _, ok := none.get(testID(t, 1, time.Hour), ""); ok || none.drop(0)+none.forget(mayfly.ID{}) != 0 || none.bytes() != 0 {
		t.Error("a cache of 0 bytes keeps something")
	}
}

func TestAnEntryThatHasLeftTheCacheIsFreed(t *testing.T) {
	c := newRenderedCache(1 << 20)
	id := testID(t, 1, time.Minute)
	put := func() weak.Pointer[byte] { // the only other reference ends with it
		html := strings.Repeat("x", 10_000)
		c.put(id, "", rendered{HTML: template.HTML(html)}, sampleNow)
		return weak.Make(unsafe.StringData(html))
	}
	text := put()
	runtime.GC()
	if _, ok := c.get(id, ""); !ok || text.Value() == nil {
		t.Fatal("the cache does not hold its entry")
	}
	c.entries.CleanUp() // what the cache does now and then by itself must not come later, and do the work of drop
	c.drop(id.Deadline())
	runtime.GC()
	if text.Value() != nil || c.bytes() != 0 {
		t.Errorf("the text of an ended paste is still in memory; the cache holds %d bytes", c.bytes())
	}
	runtime.KeepAlive(c)
}
