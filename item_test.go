package mayfly_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
)

const noon = mayfly.Instant(1_767_268_800_000) // 2026-01-01T12:00:00Z

// born is a story with one medium, as intake would write it.
func born(t testing.TB, lifetime string, owner mayfly.UserID) mayfly.Item {
	t.Helper()
	l, err := mayfly.ParseLifetime(lifetime)
	if err != nil {
		t.Fatal(err)
	}
	id, err := mayfly.NewID(noon, l, owner.Trace(), 0x123456789)
	if err != nil {
		t.Fatal(err)
	}
	upload, err := mayfly.NewID(noon-1, 1, owner.Trace(), 0x987654321)
	if err != nil {
		t.Fatal(err)
	}
	return mayfly.Item{
		ID: id, Owner: owner, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Followers, Media: 1, Upload: upload,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: 1, Changed: noon, Keys: mayfly.Keys{Hot: mayfly.Born},
	}
}

func TestAnItemEndsAtItsDeadlineToTheMillisecond(t *testing.T) {
	item := born(t, "24h", mayfly.UserOf("i", "ana"))
	deadline := noon.Add(24 * time.Hour)
	restored := item
	restored.ServesUntil = deadline.Add(time.Hour)
	early := item
	early.ServesUntil = deadline - 5000 // earlier than the deadline: the deadline counts
	eternal := born(t, "never", item.Owner)
	for name, c := range map[string]struct {
		item mayfly.Item
		end  mayfly.Instant
	}{
		"as born": {item, deadline}, "restored": {restored, deadline.Add(time.Hour)}, "restored until before its deadline": {early, deadline},
	} {
		if c.item.End() != c.end {
			t.Errorf("%s: ends at %s, want %s", name, c.item.End(), c.end)
		}
		for now, ended := range map[mayfly.Instant]bool{noon: false, c.end - 1: false, c.end: true, c.end + 1: true, c.end.Add(10 * 365 * 24 * time.Hour): true} {
			if c.item.EndedAt(now) != ended {
				t.Errorf("%s: ended %d ms from its end: %t", name, now-c.end, !ended)
			}
			want := "active"
			if ended {
				want = "sweep_pending"
			}
			if got := c.item.Shown(now); got != want {
				t.Errorf("%s: shown as %s, want %s", name, got, want)
			}
		}
	}
	if eternal.EndedAt(1<<62) || eternal.End() != 0 || eternal.Shown(1<<62) != "active" {
		t.Errorf("what never expires ended")
	}
	for _, s := range states()[1:] {
		item.State = s
		if got := item.Shown(deadline); got != s.String() {
			t.Errorf("%s is shown as %s", s, got)
		}
	}
}

func TestTheEndOfAnItemDoesNotDependOnItsState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, _, _, _, _ := minted(t, "id")
		item := mayfly.Item{
			ID: id, State: rapid.SampledFrom(states()).Draw(t, "state"), Held: rapid.Bool().Draw(t, "held"),
			ServesUntil: mayfly.Instant(rapid.Int64Range(0, 1<<50).Draw(t, "serves until")),
		}
		now := mayfly.Instant(rapid.Int64Range(0, 1<<50).Draw(t, "now"))
		want := id.Expires() && now >= id.Deadline() && now >= item.ServesUntil
		if item.EndedAt(now) != want {
			t.Fatalf("ended: %t, want %t", !want, want)
		}
		if id.Expires() && want != (now >= item.End()) {
			t.Fatalf("End %d and EndedAt(%d) disagree", item.End(), now)
		}
	})
}

func TestOnlyABirthIsValid(t *testing.T) {
	ana := mayfly.UserOf("i", "ana")
	good := map[string]func(*mayfly.Item){
		"as born":         func(*mayfly.Item) {},
		"without owner":   func(i *mayfly.Item) { i.Owner = mayfly.UserID{} },
		"without media":   func(i *mayfly.Item) { i.Media, i.Upload, i.Keys = 0, mayfly.ID{}, mayfly.Keys{} },
		"held by support": func(i *mayfly.Item) { i.Held, i.Cause = true, mayfly.BySupport },
		"a paste":         func(i *mayfly.Item) { i.Product, i.Fate = mayfly.Paste, mayfly.Purge },
		"for itself":      func(i *mayfly.Item) { i.Audience = mayfly.OnlyAuthor },
	}
	bad := map[string]func(*mayfly.Item){
		"no id":              func(i *mayfly.Item) { i.ID = mayfly.ID{} },
		"a random UUID":      func(i *mayfly.Item) { i.ID[6] = 0x40 },
		"expired":            func(i *mayfly.Item) { i.State = mayfly.ExpiredHot },
		"no state":           func(i *mayfly.Item) { i.State = 0 },
		"generation 0":       func(i *mayfly.Item) { i.Generation = 0 },
		"generation 2":       func(i *mayfly.Item) { i.Generation = 2 },
		"no nonce":           func(i *mayfly.Item) { i.Nonce = 0 },
		"no sort":            func(i *mayfly.Item) { i.Product = 0 },
		"an unknown sort":    func(i *mayfly.Item) { i.Product = mayfly.Post + 1 },
		"no fate":            func(i *mayfly.Item) { i.Fate = 0 },
		"an unknown fate":    func(i *mayfly.Item) { i.Fate = mayfly.Purge + 1 },
		"no audience":        func(i *mayfly.Item) { i.Audience = 0 },
		"unknown audience":   func(i *mayfly.Item) { i.Audience = mayfly.OnlyAuthor + 1 },
		"another's trace":    func(i *mayfly.Item) { i.Owner = mayfly.UserOf("i", "ben") },
		"held without cause": func(i *mayfly.Item) { i.Held = true },
		"restored":           func(i *mayfly.Item) { i.ServesUntil = noon.Add(48 * time.Hour) },
		"media, no upload":   func(i *mayfly.Item) { i.Upload = mayfly.ID{} },
		"upload, no media":   func(i *mayfly.Item) { i.Media, i.Keys = 0, mayfly.Keys{} },
		"media, not hot":     func(i *mayfly.Item) { i.Keys.Hot = 0 },
		"hot of a later one": func(i *mayfly.Item) { i.Keys.Hot = 2 },
		"cold at birth":      func(i *mayfly.Item) { i.Keys.Cold = 1 },
		"keys, no media":     func(i *mayfly.Item) { i.Media, i.Upload = 0, mayfly.ID{} },
	}
	for name, change := range good {
		item := born(t, "24h", ana)
		change(&item)
		if err := item.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range bad {
		item := born(t, "24h", ana)
		change(&item)
		if err := item.Validate(); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestKeysAreMadeOfIDsAndNumbersAndSpreadByTrace(t *testing.T) {
	item := born(t, "24h", mayfly.UserOf("i", "ana"))
	prefix := string(rune('0'+item.ID.Trace()%20/10)) + string(rune('0'+item.ID.Trace()%20%10))
	for _, c := range []struct{ got, want mayfly.BlobKey }{
		{mayfly.UploadKey(item.Upload, 0), mayfly.BlobKey(prefix + "/" + item.Upload.Short() + "/0-0")},
		{mayfly.UploadKey(item.Upload, 12), mayfly.BlobKey(prefix + "/" + item.Upload.Short() + "/0-12")},
		{item.MediaKey(mayfly.Born, 3), mayfly.UploadKey(item.Upload, 3)},
		{item.MediaKey(2, 3), mayfly.BlobKey(prefix + "/" + item.ID.Short() + "/2-3")},
		{item.MediaKey(4_000_000_000, 0), mayfly.BlobKey(prefix + "/" + item.ID.Short() + "/4000000000-0")},
	} {
		if c.got != c.want {
			t.Errorf("key %q, want %q", c.got, c.want)
		}
	}
	prefixes := map[string]bool{}
	for trace := range mayfly.TraceMax + 1 {
		id, err := mayfly.NewID(noon, 1, trace, 0)
		if err != nil {
			t.Fatal(err)
		}
		prefix, _, _ := strings.Cut(string(mayfly.UploadKey(id, 0)), "/")
		prefixes[prefix] = true
	}
	if len(prefixes) != mayfly.Prefixes {
		t.Errorf("%d prefixes", len(prefixes))
	}
}

func TestNoTwoGenerationsOrObjectsShareAKey(t *testing.T) {
	item := born(t, "24h", mayfly.UserOf("i", "ana"))
	seen := map[mayfly.BlobKey]bool{}
	for g := mayfly.Born; g < 30; g++ {
		for n := range 30 {
			key := item.MediaKey(g, n)
			if seen[key] {
				t.Errorf("key %q is there twice", key)
			}
			seen[key] = true
		}
	}
}

func TestEventsGoToTheirStreamUnderTheirName(t *testing.T) {
	item := born(t, "24h", mayfly.UserOf("i", "ana"))
	item.Generation, item.Changed = 9, noon+9
	item.Moved, item.Hold = mayfly.Stamp{Generation: 5, At: noon + 5}, mayfly.Stamp{Generation: 7, At: noon + 7}
	stamps := map[mayfly.Verb]mayfly.Stamp{mayfly.WasCreated: {Generation: mayfly.Born, At: item.ID.Birth()}, mayfly.WasHeld: item.Hold}
	streams := map[string]mayfly.Stream{
		"created": mayfly.Births, "expired": mayfly.Ends, "archived": mayfly.Ends,
		"deleted": mayfly.Ends, "restored": mayfly.Ends, "held": mayfly.Ends,
	}
	keys := map[mayfly.EventKey]bool{}
	for sort := mayfly.Story; sort <= mayfly.Post; sort++ {
		for verb := mayfly.WasCreated; verb <= mayfly.WasHeld; verb++ {
			item.Product = sort
			e := mayfly.EventOf(item, verb)
			if e.Type() != sort.String()+"."+verb.String() || e.Stream() != streams[verb.String()] {
				t.Errorf("%s goes to %s", e.Type(), e.Stream())
			}
			stamp, known := stamps[verb]
			if !known {
				stamp = item.Moved
			}
			if e.ID != item.ID || e.Generation != stamp.Generation || e.At != stamp.At || e.Owner != item.Owner {
				t.Errorf("event %+v, want %+v", e, stamp)
			}
			keys[e.Key()] = true
		}
	}
	if len(keys) != 24 {
		t.Errorf("%d keys of 24 events", len(keys))
	}
	e := mayfly.EventOf(item, mayfly.WasHeld)
	again := e
	again.At++ // appended again later: the same event
	if e.Key() != again.Key() {
		t.Error("the instant is part of the idempotency key")
	}
}

func TestNamesInTheAPIAreFixed(t *testing.T) {
	for got, want := range map[string]string{
		mayfly.Story.String(): "story", mayfly.Entry.String(): "entry", mayfly.Paste.String(): "paste", mayfly.Post.String(): "post",
		mayfly.Archive.String(): "archive", mayfly.Purge.String(): "purge", mayfly.Births.String(): "births", mayfly.Ends.String(): "ends",
		mayfly.Everyone.String(): "everyone", mayfly.Followers.String(): "followers", mayfly.CloseFriends.String(): "close_friends",
		mayfly.OnlyAuthor.String(): "only_author", mayfly.Product(9).String(): "product(9)", mayfly.Fate(9).String(): "fate(9)",
		mayfly.Audience(9).String(): "audience(9)", mayfly.Verb(9).String(): "verb(9)", mayfly.Stream(9).String(): "stream(9)",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
