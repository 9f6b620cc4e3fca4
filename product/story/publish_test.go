package story_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/product/story"
)

func TestAStoryIsWhatItsAuthorHasPublished(t *testing.T) {
	e := open(t)
	first, second := photo(t, 1), photo(t, 2)
	s := e.publish(story.Draft{
		Author: user("ana"), Caption: "the sea\x07\r\nat dawn", Media: media(first, second),
		Overlays: json.RawMessage(` [ {"y":0.25,"x":0.5,"kind":"text","text":"hi\u0007"} ] `),
	})
	if s.Body.Text != "the sea\nat dawn" || s.Item.Audience != mayfly.Followers || s.Item.ID.Lifetime().String() != "24h" || s.Again {
		t.Errorf("%+v", s)
	}
	if string(s.Overlays) != `[{"kind":"text","x":0.5,"y":0.25,"text":"hi"}]` {
		t.Errorf("overlays %s", s.Overlays)
	}
	if len(s.Body.Media) != 2 || s.Body.Media[0].Type != "image/jpeg" || s.Body.Media[0].Width != 64 || s.Body.Media[0].Height != 48 {
		t.Errorf("media %+v", s.Body.Media)
	}
	opened, err := e.stories.Open(t.Context(), s.Item.ID, mayfly.ViewerOf(user("ana")), e.clock())
	e.Must(err)
	if string(opened.Overlays) != string(s.Overlays) || opened.Tier().String() != "hot" || opened.Archived {
		t.Errorf("%+v", opened)
	}
}

func TestADraftThatIsNotByTheRulesIsRefusedAndNothingIsStored(t *testing.T) {
	many := make([][]byte, 11)
	for i := range many {
		many[i] = photo(t, byte(i))
	}
	overlays := func(s string) func(*story.Draft) {
		return func(d *story.Draft) { d.Overlays = json.RawMessage(s) }
	}
	for name, tc := range map[string]struct {
		change func(*story.Draft)
		kind   mayfly.Kind
		hint   string
	}{
		"no author":            {func(d *story.Draft) { d.Author = mayfly.UserID{} }, mayfly.Unauthenticated, "token"},
		"no media":             {func(d *story.Draft) { d.Media = media() }, mayfly.Invalid, "1 to 10"},
		"nil media":            {func(d *story.Draft) { d.Media = nil }, mayfly.Invalid, "1 to 10"},
		"eleven media":         {func(d *story.Draft) { d.Media = media(many...) }, mayfly.Invalid, "another story"},
		"an empty medium":      {func(d *story.Draft) { d.Media = media(photo(t, 1), nil) }, 0, ""},
		"no picture":           {func(d *story.Draft) { d.Media = media(photo(t, 1), []byte("<html>a page</html>")) }, mayfly.Unsupported, ""},
		"a cut picture":        {func(d *story.Draft) { d.Media = media(photo(t, 1)[:200]) }, mayfly.Invalid, ""},
		"a long caption":       {func(d *story.Draft) { d.Caption = strings.Repeat("ä", 2_201) }, mayfly.Invalid, "shorter"},
		"a NUL":                {func(d *story.Draft) { d.Caption = "a\x00b" }, mayfly.Invalid, "plain text"},
		"no UTF-8":             {func(d *story.Draft) { d.Caption = "\xff" }, mayfly.Invalid, "plain text"},
		"no audience":          {func(d *story.Draft) { d.Audience = "only_author" }, mayfly.Invalid, "close_friends"},
		"another lifetime":     {func(d *story.Draft) { d.Lifetime = "25h" }, mayfly.Invalid, "24h, 6h, 12h, 48h"},
		"never":                {func(d *story.Draft) { d.Lifetime = "never" }, mayfly.Invalid, "24h, 6h, 12h, 48h"},
		"no lifetime":          {func(d *story.Draft) { d.Lifetime = "soon" }, mayfly.Invalid, "24h"},
		"a long key":           {func(d *story.Draft) { d.Key = strings.Repeat("k", 256) }, mayfly.Invalid, "UUID"},
		"an upload's own key":  {func(d *story.Draft) { d.Key = "upload:x" }, mayfly.Invalid, "UUID"},
		"media and upload":     {func(d *story.Draft) { d.Upload = mayfly.ID{1} }, mayfly.Invalid, "not both"},
		"a megabyte of labels": {overlays("[" + strings.Repeat(" ", 1<<20) + "]"), mayfly.TooLarge, "fewer"},
		"no list":              {overlays(`{"kind":"text"}`), mayfly.Invalid, "mention"},
		"an unknown kind":      {overlays(`[{"kind":"script","x":0,"y":0}]`), mayfly.Invalid, "hashtag"},
		"an unknown field":     {overlays(`[{"kind":"text","onclick":"x"}]`), mayfly.Invalid, "hashtag"},
		"outside":              {overlays(`[{"kind":"text","x":1.01}]`), mayfly.Invalid, "0 to 1"},
		"a script":             {overlays(`[{"kind":"link","target":"javascript:alert(1)"}]`), mayfly.Invalid, "https"},
		"fifty-one":            {overlays("[" + strings.Repeat(`{"kind":"emoji"},`, 50) + `{"kind":"emoji"}]`), mayfly.Invalid, "fewer"},
		"deep":                 {overlays(strings.Repeat("[", 30_000)), mayfly.Invalid, ""},
		"two lists":            {overlays(`[] []`), mayfly.Invalid, ""},
		"overlays no UTF-8":    {overlays("[{\"kind\":\"text\",\"text\":\"\xff\"}]"), mayfly.Invalid, "UTF-8"},
		"a long label":         {overlays(`[{"kind":"text","text":"` + strings.Repeat("a", 501) + `"}]`), mayfly.Invalid, "shorter"},
		"a source that fails": {func(d *story.Draft) {
			d.Media = func(yield func(io.Reader, error) bool) {
				_ = yield(bytes.NewReader(photo(t, 1)), nil) && yield(nil, mayfly.Errorf(mayfly.TooLarge, "the body is too large"))
			}
		}, mayfly.TooLarge, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t)
			d := e.draft()
			tc.change(&d)
			_, err := e.stories.Publish(t.Context(), d, e.clock)
			if err == nil || tc.kind != 0 && !errors.Is(err, tc.kind) || !strings.Contains(fmt.Sprint(err), tc.hint) {
				t.Errorf("%v, want %s with a hint of %q", err, tc.kind, tc.hint)
			}
			author := user("ana")
			if n := e.objects(e.Set.Hot); n != 0 || e.count(engine.Owners, string(author[:])) != 0 {
				t.Errorf("%d objects were left", n)
			}
		})
	}
}

func TestOverlaysAreCheckedBeforeAMediumIsRead(t *testing.T) {
	e := open(t)
	d := e.draft()
	d.Overlays = json.RawMessage(`[{"kind":"nothing"}]`)
	d.Media = func(func(io.Reader, error) bool) { t.Error("media were asked for") }
	if _, err := e.stories.Publish(t.Context(), d, e.clock); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
}

func TestTheSameKeyIsTheSameStoryEvenAtTheLimitAndOtherContentIsAConflict(t *testing.T) {
	e := open(t, func(o *settings) { o.Live = 2 })
	keyed := func() story.Draft {
		d := e.draft()
		d.Key, d.Overlays = "k1", json.RawMessage(`[{"kind":"emoji","text":"🌊"}]`)
		return d
	}
	first := e.publish(keyed())
	e.publish(e.draft())
	again := e.publish(keyed())
	if !again.Again || again.Item.ID != first.Item.ID || e.objects(e.Set.Hot) != 2 {
		t.Errorf("again %+v, %d objects", again, e.objects(e.Set.Hot))
	}
	for name, change := range map[string]func(*story.Draft){
		"caption":  func(d *story.Draft) { d.Caption = "shore" },
		"audience": func(d *story.Draft) { d.Audience = "close_friends" },
		"lifetime": func(d *story.Draft) { d.Lifetime = "6h" },
		"overlays": func(d *story.Draft) { d.Overlays = json.RawMessage(`[{"kind":"emoji","text":"🏖"}]`) },
		"media":    func(d *story.Draft) { d.Media = media(photo(t, 99)) },
	} {
		d := keyed()
		change(&d)
		if _, err := e.stories.Publish(t.Context(), d, e.clock); !errors.Is(err, mayfly.Conflict) || strings.Contains(err.Error(), "live") {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if n := e.objects(e.Set.Hot); n != 2 {
		t.Errorf("%d objects after the conflicts", n)
	}
	if _, err := e.stories.Publish(t.Context(), e.draft(), e.clock); !errors.Is(err, mayfly.Conflict) || !strings.Contains(err.Error(), "2 stories are live") {
		t.Errorf("the third: %v", err)
	}
}

func TestTheLiveLimitIsExactWhenManyPublishAtOnce(t *testing.T) {
	t.Run("alone", func(t *testing.T) { manyPublishAtOnce(t, true) })
	t.Run("beside other nodes", func(t *testing.T) { manyPublishAtOnce(t, false) })
}

func manyPublishAtOnce(t *testing.T, alone bool) {
	const limit, tries = 20, 60
	e := open(t, func(o *settings) { o.Live, o.Alone, o.Upload.MaxConcurrent = limit, alone, tries })
	var published, refused atomic.Int64
	var wait sync.WaitGroup
	for i := range tries {
		bytes := photo(t, byte(i))
		wait.Go(func() {
			d := e.draft()
			d.Media = media(bytes)
			_, err := e.stories.Publish(t.Context(), d, e.clock)
			switch {
			case err == nil:
				published.Add(1)
			case errors.Is(err, mayfly.Conflict):
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wait.Wait()
	ring, err := e.stories.Ring(t.Context(), user("ana"), mayfly.ViewerOf(user("ana")), e.clock())
	e.Must(err)
	if published.Load() != limit || refused.Load() != tries-limit || len(ring) != limit || e.objects(e.Set.Hot) != limit {
		t.Errorf("%d published, %d refused, %d in the ring, %d objects", published.Load(), refused.Load(), len(ring), e.objects(e.Set.Hot))
	}
	// One that ends makes room, and so does one that is deleted.
	e.Must(e.stories.Delete(t.Context(), ring[0].Item.ID, user("ana"), e.clock()))
	e.publish(e.draft())
	if _, err := e.stories.Publish(t.Context(), e.draft(), e.clock); !errors.Is(err, mayfly.Conflict) {
		t.Error(err)
	}
	e.pass(24 * time.Hour)
	e.publish(e.draft())
}

func TestPreflightSaysWhatPublishWouldSay(t *testing.T) {
	e := open(t, func(o *settings) { o.Live = 2 })
	ask := func() story.Preflight {
		p, err := e.stories.Preflight(t.Context(), user("ana"), e.clock())
		e.Must(err)
		return p
	}
	if p := ask(); !p.MayPublish || p.Live != 0 || p.LiveLimit != 2 || p.NextAt != 0 || p.MaxMedia != 10 || p.Limits.Image != 20<<20 || len(p.Types) != 7 || len(p.Lifetimes) != 4 {
		t.Errorf("%+v", p)
	}
	first := e.publish(e.draft())
	e.pass(time.Minute)
	e.publish(e.draft())
	if p := ask(); p.MayPublish || p.Live != 2 || p.NextAt != first.Item.ID.Deadline() || !strings.Contains(p.Reason, "limit") {
		t.Errorf("%+v", p)
	}
	e.at(first.Item.ID.Deadline())
	if p := ask(); !p.MayPublish || p.Live != 1 {
		t.Errorf("%+v", p)
	}
}
