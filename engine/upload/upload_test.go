package upload_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const start = fixture.Start

var ana, ben = fixture.Ana(), fixture.Ben()

// described is a medium that knows its type at once and its dimensions at its end.
type described struct {
	io.Reader
	ended bool
}

func (*described) Type() string { return "image/webp" }

func (d *described) Dimensions() (width, height uint32) {
	if !d.ended {
		return 0, 0
	}
	return 30, 20
}

func (d *described) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	d.ended = d.ended || errors.Is(err, io.EOF)
	return n, err
}

func TestTheTypeOfAMediumIsDescribedOrDetected(t *testing.T) {
	e := fixture.Open(t)
	u := e.Upload(ana, start)
	want := mayfly.Medium{Type: "image/webp", Size: 3, SHA256: sha256.Sum256([]byte("abc")), Width: 30, Height: 20}
	if m, err := u.Add(t.Context(), &described{Reader: strings.NewReader("abc")}); err != nil || m != want {
		t.Fatalf("%+v, %v", m, err)
	}
	if m, err := u.Add(t.Context(), strings.NewReader("GIF89a")); err != nil || m.Type != "image/gif" || m.Width != 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	if stored := u.Media(); len(stored) != 2 || stored[0] != want {
		t.Errorf("%+v", stored)
	}
}

func TestAMediumOfExactlyTheLimitIsStored(t *testing.T) {
	e := fixture.Open(t)
	u := fixture.UploadTo(t, e.Uploads(upload.Options{MaxMedium: 1000, MaxMedia: 3}), ana, start)
	for range 3 {
		if m, err := u.Add(t.Context(), iotest.OneByteReader(bytes.NewReader(make([]byte, 1000)))); err != nil || m.Size != 1000 {
			t.Fatalf("%+v, %v", m, err)
		}
	}
}

func TestACopyHasTheSameBytesAndDescription(t *testing.T) {
	e := fixture.Open(t)
	content := []byte("a medium that was cleaned before")
	medium := mayfly.Medium{Type: "image/png", Size: int64(len(content)), SHA256: sha256.Sum256(content), Width: 7, Height: 9}
	u := e.Upload(ana, start)
	if err := u.Copy(t.Context(), bytes.NewReader(content), medium); err != nil || u.Media()[0] != medium {
		t.Fatalf("%+v, %v", u.Media(), err)
	}
	if err := u.Copy(t.Context(), bytes.NewReader(content[1:]), medium); !errors.Is(err, mayfly.Corrupt) {
		t.Errorf("other bytes: %v", err)
	}
	if err := u.Check(ana, start); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("it may be published after a bad copy: %v", err)
	}
}

func TestAnUploadIsPublishedByItsOwnerWhileItIsYoung(t *testing.T) {
	e := fixture.Open(t)
	u, none := e.Upload(ana, start, "sea"), (*upload.Upload)(nil)
	for name, c := range map[string]struct {
		u     *upload.Upload
		owner mayfly.UserID
		at    mayfly.Instant
		want  error
	}{
		"its owner":       {u, ana, start, nil},
		"the last moment": {u, ana, u.ID.Deadline() - 1, nil},
		"too late":        {u, ana, u.ID.Deadline(), mayfly.Gone},
		"another user":    {u, ben, start, mayfly.Invalid},
		"no media":        {e.Upload(ana, start), ana, u.ID.Deadline(), nil},
		"no upload":       {none, ben, start, nil},
	} {
		if err := c.u.Check(c.owner, c.at); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestNoUploadBeginsWithoutAClockOrRandomBits(t *testing.T) {
	e := fixture.Open(t)
	doubt := mayfly.Errorf(mayfly.Unavailable, "the clock is in doubt")
	for name, o := range map[string]upload.Options{
		"clock":       {MayMint: func() error { return doubt }},
		"random bits": {Random: iotest.ErrReader(doubt)},
	} {
		if _, err := e.Uploads(o).Begin(ana, start); !errors.Is(err, doubt) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := e.Uploads(o).Reserve(t.Context(), ana, fixture.Expect(1), start); !errors.Is(err, doubt) {
			t.Errorf("%s: reserve: %v", name, err)
		}
	}
	if trail := e.Hooks.Trail(); len(trail) > 0 {
		t.Errorf("written %q", trail)
	}
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	for i, o := range []upload.Options{{MaxMedium: -1}, {MaxMedia: -1}, {MaxMedia: 256}, {MaxOpen: -1}, {MaxUnpublished: -1}, {Limits: media.Limits{Image: -1}}} {
		if _, err := upload.New(store.Set{}, o); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// A user who sends many media slowly is refused one more, whichever way it comes;
// other users are not, and each that ends makes room.
func TestAUserSendsABoundedNumberOfMediaAtOnce(t *testing.T) {
	r := reserve(t, 2, upload.Options{MaxConcurrent: 2})
	begin := func(owner mayfly.UserID) *upload.Upload {
		u, err := r.uploads.Begin(owner, start)
		r.Must(err)
		return u
	}
	slow := []func(io.Reader) error{
		func(in io.Reader) error { _, err := begin(ana).AddCleaned(t.Context(), in); return err },
		func(in io.Reader) error { _, err := r.put(0, in); return err },
	}
	var ends []func()
	for _, send := range slow {
		in, out := io.Pipe()
		done := make(chan error, 1)
		go func() { done <- send(in) }()
		photo := fixture.Padded(fixture.Photo(t, 1))
		_, err := out.Write(photo[:1]) // returns when it was read: the medium is in progress
		r.Must(err)
		ends = append(ends, func() {
			_, err := out.Write(photo[1:])
			r.Must(errors.Join(err, out.Close(), <-done))
		})
	}
	another := func(owner mayfly.UserID) error {
		_, err := begin(owner).AddCleaned(t.Context(), r.photo(2))
		return err
	}
	_, err := r.put(1, r.photo(2))
	for _, err := range []error{err, another(ana)} {
		if e := (*mayfly.Error)(nil); !errors.Is(err, mayfly.Limited) || !errors.As(err, &e) || e.Hint == "" {
			t.Errorf("one more: %v, want Limited with a hint", err)
		}
	}
	r.Must(another(ben))
	for _, end := range ends {
		end()
		r.Must(another(ana))
	}
	_, err = r.put(1, r.photo(2))
	r.Must(err)
}
