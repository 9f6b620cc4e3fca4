package paste_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/paste"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

var ana, ben = fixture.Ana(), fixture.Ben()

func TestAPasteIsStoredByteForByteContentFirst(t *testing.T) {
	e := open(t)
	text := "GPS \x00\xff\xfe not UTF-8\r\n"
	p := e.create(paste.Draft{Author: ana, Title: "notes", Language: "go", Lifetime: "2h"}, text)
	want := []string{"put hot", "0 put owners", "0 put uploads", "1 insert paste", "2 append paste.created"}
	if got := e.Hooks.Trail(); !slices.Equal(got, want) {
		t.Errorf("written %q\n   want %q", got, want)
	}
	if got, err := e.read(p.Item.ID, ""); err != nil || got != text {
		t.Errorf("%q, %v", got, err)
	}
	opened, err := e.pastes.Open(t.Context(), p.Item.ID, mayfly.Viewer{}, "", e.clock())
	e.Must(err)
	if opened.Title != "notes" || opened.Language != "go" || opened.Item.ID.Lifetime() != fixture.Lifetime(t, 2*time.Hour) || opened.Item.Fate != mayfly.Purge || !opened.Public() {
		t.Errorf("%+v", opened)
	}
}

func TestAPasteServesUntilItsDeadlineAndNotToItsAuthorAfterIt(t *testing.T) {
	e := open(t)
	p := e.create(paste.Draft{Author: ana, Lifetime: "10m"}, "words")
	viewers := map[string]mayfly.Viewer{"anonymous": {}, "author": mayfly.ViewerOf(ana), "moderator": mayfly.ModeratorOf(ben)}
	for name, viewer := range viewers {
		e.at(p.Item.ID.Deadline() - 1)
		if _, err := e.readAs(p.Item.ID, viewer, ""); err != nil {
			t.Errorf("%s, a millisecond before: %v", name, err)
		}
		e.at(p.Item.ID.Deadline())
		if _, err := e.readAs(p.Item.ID, viewer, ""); err != error(mayfly.Gone) {
			t.Errorf("%s, at the deadline: %v", name, err)
		}
	}
}

func TestADraftThatIsRefusedStoresNothing(t *testing.T) {
	many := func(n int) string { return strings.Repeat("é", n) }
	for name, tc := range map[string]struct {
		draft paste.Draft
		text  string
		kind  mayfly.Kind
	}{
		"empty":                       {kind: mayfly.Invalid},
		"too large":                   {text: strings.Repeat("x", 101), kind: mayfly.TooLarge},
		"a lifetime of nonsense":      {paste.Draft{Lifetime: "soon"}, "x", mayfly.Invalid},
		"a lifetime that is short":    {paste.Draft{Lifetime: "599s"}, "x", mayfly.Invalid},
		"a lifetime that is long":     {paste.Draft{Lifetime: "366d"}, "x", mayfly.Invalid},
		"never":                       {paste.Draft{Lifetime: "never"}, "x", mayfly.Invalid},
		"reads below zero":            {paste.Draft{Reads: -1}, "x", mayfly.Invalid},
		"too many reads":              {paste.Draft{Reads: 1001}, "x", mayfly.Invalid},
		"a long title":                {paste.Draft{Title: many(201)}, "x", mayfly.Invalid},
		"a title that is not UTF-8":   {paste.Draft{Title: "\xff"}, "x", mayfly.Invalid},
		"a long password":             {paste.Draft{Password: many(65)}, "x", mayfly.Invalid},
		"private and anonymous":       {paste.Draft{Private: true}, "x", mayfly.Invalid},
		"a key without a user":        {paste.Draft{Key: "k"}, "x", mayfly.Invalid},
		"a language that is too long": {paste.Draft{Language: many(17)}, "x", mayfly.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			e := open(t, func(o *paste.Options) { o.MaxSize = 100 })
			tc.draft.Content = strings.NewReader(tc.text)
			_, err := e.pastes.Create(t.Context(), tc.draft, e.clock)
			var typed *mayfly.Error
			if !errors.Is(err, tc.kind) || !errors.As(err, &typed) || typed.Hint == "" {
				t.Errorf("%v", err)
			}
			if left := e.Objects(e.Real.Hot); len(left) > 0 || e.Hooks.Count("insert") > 0 {
				t.Errorf("stored: %v", left)
			}
		})
	}
	e := open(t, func(o *paste.Options) { o.Anonymous = false })
	if _, err := e.pastes.Create(t.Context(), paste.Draft{Content: strings.NewReader("x")}, e.clock); !errors.Is(err, mayfly.Unauthenticated) {
		t.Errorf("anonymous: %v", err)
	}
	e = open(t, func(o *paste.Options) { o.Never = true })
	if p := e.create(paste.Draft{Lifetime: "never"}, "x"); p.Item.ID.Expires() {
		t.Error("never expires")
	}
}

// The first read of the content may say why there is none, such as a quota (C3).
func TestContentThatCannotBeReadIsTheReasonWhyThereIsNoPaste(t *testing.T) {
	e := open(t)
	for _, reason := range []error{mayfly.Errorf(mayfly.Limited, "too many bytes"), mayfly.Errorf(mayfly.Invalid, "the body ended early: %w", io.ErrUnexpectedEOF)} {
		once := failsOnce{err: reason}
		if _, err := e.pastes.Create(t.Context(), paste.Draft{Content: &once}, e.clock); !errors.Is(err, reason) {
			t.Errorf("%v, want %v", err, reason)
		}
	}
	if e.Hooks.Count("put hot") > 0 {
		t.Error("an empty content was stored")
	}
}

// failsOnce is a reader that returns an error once, and then its end.
type failsOnce struct{ err error }

func (f *failsOnce) Read([]byte) (int, error) {
	err := f.err
	f.err = io.EOF
	return 0, err
}

func TestAnIdempotencyKeyMakesOnePaste(t *testing.T) {
	e := open(t)
	d := paste.Draft{Author: ana, Key: "k", Password: "secret"}
	first, again := e.create(d, "words"), e.create(d, "words")
	if first.Item.ID != again.Item.ID || first.Again || !again.Again || len(e.Objects(e.Real.Hot)) != 1 {
		t.Errorf("%s, then %s (%t); objects %v", first.Item.ID, again.Item.ID, again.Again, e.Objects(e.Real.Hot))
	}
	d.Content = strings.NewReader("other words")
	if _, err := e.pastes.Create(t.Context(), d, e.clock); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("other content: %v", err)
	}
}

func TestAPrivatePasteIsForItsOwnerAndAbsentForOthers(t *testing.T) {
	e := open(t)
	p := e.create(paste.Draft{Author: ana, Private: true}, "words")
	if _, err := e.readAs(p.Item.ID, mayfly.ViewerOf(ana), ""); err != nil {
		t.Errorf("owner: %v", err)
	}
	for name, viewer := range map[string]mayfly.Viewer{"anonymous": {}, "another user": mayfly.ViewerOf(ben)} {
		if _, err := e.readAs(p.Item.ID, viewer, ""); err != error(mayfly.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p.Public() {
		t.Error("it may be cached")
	}
}

func TestAPasswordIsMissingWrongOrRight(t *testing.T) {
	e := open(t)
	p := e.create(paste.Draft{Title: "diary", Password: "correct horse"}, "words")
	for password, want := range map[string]struct {
		kind  mayfly.Kind
		wrong bool
	}{"": {mayfly.Unauthenticated, false}, "wrong": {mayfly.Denied, true}, strings.Repeat("x", 1<<20): {mayfly.Denied, true}} {
		_, err := e.pastes.Open(t.Context(), p.Item.ID, mayfly.Viewer{}, password, e.clock())
		var l paste.Locked
		if !errors.Is(err, want.kind) || !errors.As(err, &l) || l.Wrong != want.wrong {
			t.Errorf("%.20q: %v", password, err)
		}
	}
	if got, err := e.read(p.Item.ID, "correct horse"); err != nil || got != "words" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := e.readAs(p.Item.ID, mayfly.ModeratorOf(ben), ""); err != nil || got != "words" {
		t.Errorf("moderator: %q, %v", got, err)
	}
	body, _ := e.Body(p.Item.ID)
	if strings.Contains(string(body.Data), "horse") {
		t.Error("the password is stored")
	}
	e.at(p.Item.ID.Deadline())
	if _, err := e.read(p.Item.ID, ""); err != error(mayfly.Gone) {
		t.Errorf("after its end: %v", err)
	}
}

func TestOnlyOwnerOrTokenDeletes(t *testing.T) {
	e := open(t)
	p, other := e.create(paste.Draft{Author: ana}, "words"), e.create(paste.Draft{}, "more words")
	id := p.Item.ID
	for name, err := range map[string]error{
		"another user":         e.pastes.Delete(t.Context(), id, ben, "", e.clock()),
		"no one":               e.pastes.Delete(t.Context(), id, mayfly.UserID{}, "", e.clock()),
		"the token of another": e.pastes.Delete(t.Context(), id, mayfly.UserID{}, e.pastes.DeleteToken(other.Item.ID), e.clock()),
		"a story":              e.pastes.Delete(t.Context(), e.Story(1).ID, ana, "", e.clock()),
		"never was":            e.pastes.Delete(t.Context(), fixtureID(t), ana, "", e.clock()),
	} {
		if err != error(mayfly.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for range 2 {
		e.Must(e.pastes.Delete(t.Context(), id, ana, "", e.clock()))
		e.Must(e.pastes.Delete(t.Context(), other.Item.ID, mayfly.UserID{}, e.pastes.DeleteToken(other.Item.ID), e.clock()))
	}
	for _, id := range []mayfly.ID{id, other.Item.ID} {
		if _, err := e.readAs(id, mayfly.ViewerOf(ana), ""); err != error(mayfly.NotFound) {
			t.Errorf("deleted: %v", err)
		}
	}
	held := e.create(paste.Draft{Author: ana}, "words").Item.ID
	e.Hold(held)
	if err := e.node().Delete(t.Context(), held, ana, "", e.clock()); err != error(mayfly.NotFound) {
		t.Errorf("held: %v", err)
	}
}

// A delete by a caller who may not costs the same reads of the store whether there is a
// paste or not (I18).
func TestARefusedDeleteCostsTheSameForEveryPaste(t *testing.T) {
	e := open(t)
	ids := map[string]mayfly.ID{
		"never was": fixtureID(t), "public": e.create(paste.Draft{}, "words").Item.ID, "private": e.create(paste.Draft{Author: ana, Private: true}, "words").Item.ID,
		"to be read once": e.create(paste.Draft{Reads: 1}, "words").Item.ID, "with a password": e.create(paste.Draft{Password: "secret"}, "words").Item.ID,
	}
	deleted := e.create(paste.Draft{Author: ana}, "words").Item.ID
	e.Must(e.pastes.Delete(t.Context(), deleted, ana, "", e.clock()))
	ids["deleted"] = deleted
	for name, id := range ids {
		pastes := e.node()
		for range 2 { // also when a cache may have it
			rows, bodies, others := e.reads(func() {
				if err := pastes.Delete(t.Context(), id, ben, "guess", e.clock()); err != error(mayfly.NotFound) {
					t.Errorf("%s: %v", name, err)
				}
			})
			if rows != 1 || bodies != 0 || others != 0 {
				t.Errorf("%s: %d rows, %d bodies and %d other rows are read", name, rows, bodies, others)
			}
		}
	}
}

// reads counts what do reads of the store.
func (e *env) reads(do func()) (rows, bodies, others int) {
	h := e.Hooks
	h.LedgerGet = func(_ context.Context, ids []mayfly.ID, get func() ([]store.Found, error)) ([]store.Found, error) {
		rows += len(ids)
		return get()
	}
	h.Body = func(_ context.Context, ids []mayfly.ID, get func() ([]store.FoundBody, error)) ([]store.FoundBody, error) {
		bodies += len(ids)
		return get()
	}
	h.RowsGet = func(_ context.Context, _ store.Table, get func() ([][]byte, error)) ([][]byte, error) {
		others++
		return get()
	}
	h.Range = func(_ context.Context, _ store.Table, get func() ([]store.Row, error)) ([]store.Row, error) {
		others++
		return get()
	}
	do()
	h.LedgerGet, h.Body, h.RowsGet, h.Range = nil, nil, nil, nil
	return rows, bodies, others
}

func fixtureID(t *testing.T) mayfly.ID {
	id, err := mayfly.NewID(start, fixture.Lifetime(t, time.Hour), ana.Trace(), 12345)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAnItemOfAnotherProductIsNoPaste(t *testing.T) {
	e := open(t)
	d := e.Draft()
	d.Audience = mayfly.Everyone
	story := e.Publish(d, start, "a medium")
	if _, err := e.read(story.ID, ""); err != error(mayfly.NotFound) {
		t.Errorf("%v", err)
	}
}

func TestOwnPastesAreListedNewestFirst(t *testing.T) {
	e := open(t)
	var want []mayfly.ID
	for i := range 5 {
		e.pass(time.Second)
		d := paste.Draft{Author: ana, Lifetime: "1h", Private: i == 1}
		if i == 0 {
			d.Lifetime = "10m"
		}
		want = append(want, e.create(d, "words").Item.ID)
		e.StoryOf(ana, 1)
	}
	e.create(paste.Draft{Author: ben}, "words")
	burned := e.create(paste.Draft{Author: ana, Reads: 1}, "words").Item.ID
	if _, err := e.claim(burned, ""); err != nil {
		t.Fatal(err)
	}
	e.Must(e.pastes.Delete(t.Context(), want[3], ana, "", e.clock()))
	e.at(want[0].Deadline())
	want = []mayfly.ID{want[4], want[2], want[1]}
	var got []mayfly.ID
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := e.pastes.List(t.Context(), ana, cursor, 2, e.clock())
		e.Must(err)
		for _, p := range page {
			got = append(got, p.Item.ID)
		}
		cursor = next
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
	if _, _, err := e.pastes.List(t.Context(), mayfly.UserID{}, "", 2, e.clock()); !errors.Is(err, mayfly.Unauthenticated) {
		t.Error(err)
	}
}

// The record of a paste is its row and its body. Row and key of the embedded ledger
// have at most maxRow bytes (docs/format-pebble.md); the benchmark measures them (P1).
func TestTheRecordOfAPasteIsSmall(t *testing.T) {
	e := open(t)
	const maxRow = 110
	p := e.create(paste.Draft{Author: ana, Title: "notes.md", Language: "markdown", Reads: 1000}, "\x00 of an unknown type")
	body, _ := e.Body(p.Item.ID)
	if size := maxRow + len(store.AppendBody(nil, body)) - len("notes.md"); size > 200 {
		t.Errorf("the record has %d bytes beside its title", size)
	}
}

func TestContentIsReadFromAnywhere(t *testing.T) {
	e := open(t)
	p := e.create(paste.Draft{}, strings.Repeat("0123456789", 10_000))
	c, err := e.pastes.Read(t.Context(), p.Item.ID, mayfly.Viewer{}, "", e.clock())
	e.Must(err)
	_, err = c.Seek(99_995, io.SeekStart)
	e.Must(err)
	if got, err := io.ReadAll(c); string(got) != "56789" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	e.Must(c.Close())
}

func TestErasingAPasteLeavesNothing(t *testing.T) {
	e := open(t)
	id := e.create(paste.Draft{Author: ana, Reads: 2}, "words").Item.ID
	if _, err := e.claim(id, ""); err != nil {
		t.Fatal(err)
	}
	e.at(id.Deadline())
	e.Now = e.clock()
	e.Change(id, mayfly.Change{To: mayfly.Deleted, Cause: mayfly.ByExpiry})
	failures, err := e.erase.Act(t.Context(), walk.Batch{Now: e.clock(), Items: []mayfly.Item{e.Row(id)}})
	e.WantActed(failures, err)
	if left := e.Objects(e.Real.Hot); len(left) > 0 || e.HasBody(id) || len(e.Partition(paste.Claims, string(id[:]))) > 0 || e.HasRow(engine.Owners, engine.OwnerKey(ana, id)) {
		t.Errorf("left: objects %v, body %t, claims %d", left, e.HasBody(id), len(e.Partition(paste.Claims, string(id[:]))))
	}
}
