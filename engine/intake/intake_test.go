package intake_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const start = fixture.Start

var ana, ben = fixture.Ana(), fixture.Ben()

func publish(t testing.TB, in *intake.Intake, d intake.Draft, now mayfly.Instant) intake.Published {
	t.Helper()
	p, err := in.Publish(t.Context(), d, now)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestABirthIsWhatWasAskedFor(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	d := e.Draft()
	d.Audience, d.Data, d.Lifetime = mayfly.CloseFriends, []byte(`{"sticker":1}`), fixture.Lifetime(t, 6*time.Hour)
	d.Upload = e.Upload(ana, start-1000, "\x89PNG\r\n\x1a\n and so on", "plain words")
	p := publish(t, in, d, start)

	id := p.Item.ID
	if id.Birth() != start || id.Deadline() != start.Add(6*time.Hour) || id.Trace() != ana.Trace() || !id.Valid() {
		t.Errorf("id %s: born %s, ends %s", id, id.Birth(), id.Deadline())
	}
	row, found := e.Find(id)
	if !found || row != p.Item {
		t.Errorf("row %+v (%t)\n said %+v", row, found, p.Item)
	}
	want := mayfly.Item{
		ID: id, Owner: ana, Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.CloseFriends, Media: 2, Upload: d.Upload.ID,
		State: mayfly.Active, Generation: mayfly.Born, Nonce: row.Nonce, Changed: start, Keys: mayfly.Keys{Hot: mayfly.Born},
	}
	if row != want || row.Nonce == 0 {
		t.Errorf("row %+v\nwant %+v", row, want)
	}
	body, err := e.Real.Ledger.Body(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if b := body[0].Body; b.Text != "sea" || string(b.Data) != `{"sticker":1}` || len(b.Media) != 2 ||
		b.Media[0].Type != "image/png" || b.Media[0].Size != 18 || b.Media[1].SHA256 != sha256.Sum256([]byte("plain words")) {
		t.Errorf("body %+v", b)
	}
	for n, medium := range body[0].Body.Media {
		r, o, err := e.Real.Hot.Open(t.Context(), row.MediaKey(row.Keys.Hot, n), store.Span{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil || sha256.Sum256(text) != medium.SHA256 || o.Size != medium.Size {
			t.Errorf("medium %d: %q, %v", n, text, err)
		}
	}
	if owned := e.Owned(ana); !slices.Equal(owned, []mayfly.ID{id}) {
		t.Errorf("the owner index has %v", owned)
	}
	if events := e.Events(mayfly.Births); len(events) != 1 || events[0] != mayfly.EventOf(row, mayfly.WasCreated) {
		t.Errorf("events %+v", events)
	}
	if p.Again || p.Remind {
		t.Errorf("%+v", p)
	}
}

// L12: what a row names is durable before it; an item without an index entry
// cannot exist; an event tells of what is there.
func TestContentComesFirstThenTheIndexThenTheRowThenTheEvent(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	d := e.Draft()
	d.Key, d.Upload = "k", e.Upload(ana, start, "one", "two")
	publish(t, in, d, start)
	want := []string{"put hot", "put hot", "swap idempotency", "0 put owners", "0 put rings", "0 put uploads", "1 insert story", "2 append story.created"}
	if got := e.Hooks.Trail(); !slices.Equal(got, want) {
		t.Errorf("written %q\n   want %q", got, want)
	}
}

func TestAnAnonymousItemHasNoOwnerAndARandomTrace(t *testing.T) {
	e := fixture.Open(t)
	d := e.Draft()
	d.Owner, d.Product, d.Fate = mayfly.UserID{}, mayfly.Paste, mayfly.Purge
	p := publish(t, e.Intake(intake.Options{}), d, start)
	if got, want := e.Hooks.Trail(), []string{"0 insert paste", "1 append paste.created"}; !slices.Equal(got, want) {
		t.Errorf("written %q\n   want %q", got, want)
	}
	if !p.Item.Owner.IsZero() {
		t.Errorf("%+v", p.Item)
	}
	d.Key = "k"
	if _, err := e.Intake(intake.Options{}).Publish(t.Context(), d, start); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a key without a user: %v", err)
	}
}

// The trace of an anonymous id must not follow from its other bits: a user who
// guesses ids would have fewer to guess.
func TestTraceAndRandomBitsOfAnAnonymousIDAreIndependent(t *testing.T) {
	bits := func(first byte, rest byte) io.Reader {
		return bytes.NewReader(append([]byte{first, first & 0xf0, rest, rest, rest, rest, rest, rest}, bytes.Repeat([]byte{1}, 8)...))
	}
	mint := func(r io.Reader) mayfly.ID {
		e := fixture.Open(t)
		d := e.Draft()
		d.Owner = mayfly.UserID{}
		return publish(t, e.Intake(intake.Options{Random: r}), d, start).Item.ID
	}
	a, b, c := mint(bits(0, 0)), mint(bits(0xff, 0)), mint(bits(0xff, 0xff))
	if a.Trace() == b.Trace() || b.Trace() != c.Trace() {
		t.Errorf("traces %d, %d, %d", a.Trace(), b.Trace(), c.Trace())
	}
	if a[9]&0xf != b[9]&0xf || [6]byte(a[10:]) != [6]byte(b[10:]) || [6]byte(b[10:]) == [6]byte(c[10:]) {
		t.Errorf("random parts %x, %x, %x", a[9:], b[9:], c[9:])
	}
}

func TestNothingIsMintedWhileTheClockIsInDoubt(t *testing.T) {
	e := fixture.Open(t)
	doubt := mayfly.Errorf(mayfly.Unavailable, "the clock is in doubt").WithHint("set it right")
	in := e.Intake(intake.Options{MayMint: func() error { return doubt }})
	d := e.Draft()
	d.Key = "k"
	if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, doubt) || !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("publish: %v", err)
	}
	if got := e.Hooks.Trail(); len(got) > 0 {
		t.Errorf("written %q", got)
	}
}

func TestDraftsThatMakeNoSenseAreRefusedAndWriteNothing(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{MaxBody: 100})
	bens := e.Upload(ben, start, "ben's")
	old := e.Upload(ana, start.Add(-24*time.Hour), "old")
	e.Hooks.Trail() // what was uploaded
	for name, tc := range map[string]struct {
		change func(*intake.Draft)
		want   mayfly.Kind
	}{
		"no sort":                {func(d *intake.Draft) { d.Product = 0 }, mayfly.Invalid},
		"no such sort":           {func(d *intake.Draft) { d.Product = mayfly.Post + 1 }, mayfly.Invalid},
		"no fate":                {func(d *intake.Draft) { d.Fate = 0 }, mayfly.Invalid},
		"no audience":            {func(d *intake.Draft) { d.Audience = 0 }, mayfly.Invalid},
		"no such audience":       {func(d *intake.Draft) { d.Audience = mayfly.OnlyAuthor + 1 }, mayfly.Invalid},
		"a lifetime misspelt":    {func(d *intake.Draft) { d.Lifetime = 1<<10 | 1 }, mayfly.Invalid},
		"a key of 256 bytes":     {func(d *intake.Draft) { d.Key = string(make([]byte, 256)) }, mayfly.Invalid},
		"another user's upload":  {func(d *intake.Draft) { d.Upload = bens }, mayfly.Invalid},
		"an upload of yesterday": {func(d *intake.Draft) { d.Upload = old }, mayfly.Gone},
		"born in the future":     {func(d *intake.Draft) { d.Born, d.Serial = start+1, 1 }, mayfly.Invalid},
		"moves in with a key":    {func(d *intake.Draft) { d.Born, d.Serial, d.Key = start-1, 1, "key" }, mayfly.Invalid},
		"moves in for no user":   {func(d *intake.Draft) { d.Born, d.Serial, d.Owner = start-1, 1, mayfly.UserID{} }, mayfly.Invalid},
		"moves in after its end": {func(d *intake.Draft) { d.Born = start.Add(-d.Lifetime.Duration()) }, mayfly.Invalid},
		"101 bytes of body":      {func(d *intake.Draft) { d.Text, d.Data = string(make([]byte, 50)), make([]byte, 51) }, mayfly.TooLarge},
	} {
		d := e.Draft()
		tc.change(&d)
		if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	if got := e.Hooks.Trail(); len(got) > 0 {
		t.Errorf("written %q", got)
	}
}

func TestAnUploadHasOneOwner(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	d := e.Draft()
	d.Upload = e.Upload(ana, start, "sea")
	p := publish(t, in, d, start)
	if _, err := in.Publish(t.Context(), d, start+1); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("published a second time: %v", err)
	}
	if born := e.Due(p.Item.ID.Minute()); len(born) != 1 {
		t.Errorf("%d items own it", len(born))
	}
	if _, err := d.Upload.Add(t.Context(), bytes.NewReader([]byte("late"))); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a medium was added after it was published: %v", err)
	}

	// After a failure without a key it is unknown whether the row will land.
	d.Upload = e.Upload(ana, start, "sky")
	e.Hooks.Commit = fixture.FailCommit(mayfly.Errorf(mayfly.Unknown, "lost"))
	if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Unavailable) {
		t.Fatal(err)
	}
	e.Hooks.Commit = nil
	if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("published again after a failure: %v", err)
	}
}

func TestAnUploadThatFailedCannotBePublished(t *testing.T) {
	torn := errors.New("connection reset")
	for name, tc := range map[string]struct {
		media []io.Reader // all but the last go well
		full  bool
		want  error
	}{
		"too large":     {media: []io.Reader{bytes.NewReader(make([]byte, 1001))}, want: mayfly.TooLarge},
		"empty":         {media: []io.Reader{bytes.NewReader(nil)}, want: mayfly.Invalid},
		"torn off":      {media: []io.Reader{io.MultiReader(bytes.NewReader([]byte("ab")), iotest.ErrReader(torn))}, want: torn},
		"the fourth":    {media: []io.Reader{one(), one(), one(), one()}, want: mayfly.Invalid},
		"the disk full": {media: []io.Reader{one(), one()}, full: true, want: mayfly.Full},
	} {
		t.Run(name, func(t *testing.T) {
			e := fixture.Open(t)
			puts := 0
			e.Hooks.Hot.Put = func(_ context.Context, _ mayfly.BlobKey, do func() (store.Object, error)) (store.Object, error) {
				if puts++; tc.full && puts == 2 {
					return store.Object{}, mayfly.Errorf(mayfly.Full, "no room")
				}
				return do()
			}
			in := e.Intake(intake.Options{})
			u, err := e.Uploads(upload.Options{MaxMedium: 1000, MaxMedia: 3}).Begin(ana, start)
			if err != nil {
				t.Fatal(err)
			}
			for n, r := range tc.media {
				_, err = u.Add(t.Context(), r)
				if last := n == len(tc.media)-1; last != (err != nil) {
					t.Fatalf("medium %d: %v", n, err)
				}
			}
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			d := e.Draft()
			d.Upload = u
			if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Invalid) {
				t.Errorf("published: %v", err)
			}
			if len(e.Owned(ana)) > 0 {
				t.Error("an item was born")
			}
		})
	}
}

func one() io.Reader { return bytes.NewReader([]byte("x")) }

func TestAFailedCommitHasAKindThatACallerCanActOn(t *testing.T) {
	for _, tc := range []struct{ err, want error }{
		{mayfly.Errorf(mayfly.Full, "no room"), mayfly.Full},
		{mayfly.Errorf(mayfly.Invalid, "no"), mayfly.Invalid},
		{mayfly.Errorf(mayfly.Unavailable, "away"), mayfly.Unavailable},
		{mayfly.Errorf(mayfly.Unknown, "lost"), mayfly.Unavailable},
		{mayfly.Wrap(mayfly.Unknown, mayfly.Errorf(mayfly.Unavailable, "the fuse"), ""), mayfly.Unavailable},
		{errors.New("bare"), mayfly.Unavailable},
		{context.DeadlineExceeded, mayfly.Unavailable},
		{&store.StageError{Stage: 0, Err: errors.New("bare")}, mayfly.Unavailable},
		{&store.StageError{Stage: 1, Err: mayfly.Errorf(mayfly.Unknown, "lost")}, mayfly.Unavailable},
	} {
		e := fixture.Open(t)
		e.Hooks.Commit = fixture.FailCommit(tc.err)
		_, err := e.Intake(intake.Options{}).Publish(t.Context(), e.Draft(), start)
		var kinded *mayfly.Error
		if !errors.Is(err, tc.want) || !errors.Is(err, tc.err) || !errors.As(err, &kinded) || kinded.Kind != tc.want {
			t.Errorf("%v became %v (kind %v), want %v outermost", tc.err, err, kinded, tc.want)
		}
	}
}

func TestABirthWithoutRandomBitsIsNoBirth(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{Random: iotest.ErrReader(errors.New("no entropy"))})
	if _, err := in.Publish(t.Context(), e.Draft(), start); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("publish: %v", err)
	}
}

// When only the event could not be appended, a durable reminder stands in for it.
func TestABirthWhoseEventFailedLeavesAReminder(t *testing.T) {
	e := fixture.Open(t)
	set, _ := storetest.Prefix(e.Real, storetest.FailNth(1, storetest.Fault{Stage: 2}))
	in, err := intake.New(set, intake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p := publish(t, in, e.Draft(), start)
	if row, found := e.Find(p.Item.ID); !p.Remind || !found || row != p.Item {
		t.Errorf("%+v, row %+v (%t)", p, row, found)
	}
	if r := e.RemindersOf(p.Item.ID, start.Add(2*time.Minute)); len(r) != 1 || r[0].Step.String() != "announce" {
		t.Errorf("reminders %+v", r)
	}
}

func TestABirthWhoseEventAndReminderFailedIsNotAcknowledged(t *testing.T) {
	e := fixture.Open(t)
	set, _ := storetest.Prefix(e.Real, func(c storetest.Call) storetest.Fault {
		return storetest.Fault{Fails: c.Op == storetest.Commit, Stage: len(c.Stages) - 1}
	})
	in, err := intake.New(set, intake.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := in.Publish(t.Context(), e.Draft(), start); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestSettingsThatMakeNoSenseAreRefused(t *testing.T) {
	for i, o := range []intake.Options{
		{Timeout: -1}, {KeepKeys: -1}, {RemindAfter: -1}, {MaxBody: -1},
	} {
		if _, err := intake.New(store.Set{}, o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", fmt.Sprint(i), err)
		}
	}
}

func TestNothingIsPublishedForAnErasedAccount(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	d := e.Draft()
	d.Key = "once"
	if _, err := in.Publish(t.Context(), d, start); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.Real.Rows.Swap(t.Context(), engine.Erased, engine.ErasedKey(ana), nil, []byte("erased"), 0); err != nil {
		t.Fatal(err)
	}
	for name, d := range map[string]intake.Draft{"a new one": e.Draft(), "a retry": d} {
		if _, err := in.Publish(t.Context(), d, start+1); !errors.Is(err, mayfly.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := e.Draft()
	other.Owner = ben
	if _, err := in.Publish(t.Context(), other, start); err != nil {
		t.Errorf("another user: %v", err)
	}
}

// A reminder to announce tells of the birth, whatever the item has become since.
func TestAnnounceTellsOfTheBirthAndNothingElse(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	item := publish(t, in, e.Draft(), start).Item
	born := e.Events(mayfly.Births)
	item.State, item.Generation, item.Changed = mayfly.Cold, 5, start.Add(48*time.Hour)
	failures, err := in.Announce(t.Context(), walk.Batch{Items: []mayfly.Item{item}, Now: start.Add(49 * time.Hour)})
	if err != nil || len(failures) > 0 {
		t.Fatal(failures, err)
	}
	if got := e.Events(mayfly.Births); len(got) != 2 || got[0] != born[0] || got[1] != born[0] {
		t.Errorf("%+v, want the birth twice: %+v", got, born)
	}
}

// A caller that has just read the mark of erasure hands the answer in, and the
// mark is not read again within a second.
func TestAnAdmissionHoldsForASecondAndForItsOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := fixture.Open(t)
		in := e.Intake(intake.Options{})
		admitted, err := in.Admit(t.Context(), ana)
		e.Must(err)
		_, _, err = e.Real.Rows.Swap(t.Context(), engine.Erased, engine.ErasedKey(ana), nil, []byte("erased"), 0)
		e.Must(err)
		_, _, err = e.Real.Rows.Swap(t.Context(), engine.Erased, engine.ErasedKey(ben), nil, []byte("erased"), 0)
		e.Must(err)
		d := e.Draft()
		d.Admission = admitted
		if _, err := in.Publish(t.Context(), d, start); err != nil {
			t.Errorf("at once: %v", err)
		}
		d.Owner = ben
		if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Denied) {
			t.Errorf("another owner: %v", err)
		}
		time.Sleep(time.Second)
		d.Owner = ana
		if _, err := in.Publish(t.Context(), d, start); !errors.Is(err, mayfly.Denied) {
			t.Errorf("a second later: %v", err)
		}
	})
}

// An item that moves in keeps its time and is there once, whatever stops it half-way.
func TestAnItemMovesInOnceInItsOwnTime(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	d := e.Draft()
	d.Born, d.Serial, d.Lifetime = start.Add(-400*24*time.Hour), 7, mayfly.Never
	p := publish(t, in, d, start)
	if id := p.Item.ID; p.Again || id.Birth() != d.Born || id.Trace() != ana.Trace() || id.Expires() {
		t.Errorf("%+v", p)
	}
	if again := publish(t, in, d, start.Add(90*24*time.Hour)); !again.Again || again.Item != p.Item {
		t.Errorf("again %+v\nfirst %+v", again, p)
	}
	other := d
	other.Text = "another text"
	if _, err := in.Publish(t.Context(), other, start); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("another item of the same name: %v", err)
	}
	other.Serial = 8
	if q := publish(t, in, other, start); q.Again || q.Item.ID == p.Item.ID {
		t.Errorf("%+v", q)
	}
}
