package intake_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// told is a medium that knows what it is, and its dimensions at its end.
type told struct {
	io.Reader
	read bool
}

func (*told) Type() string { return "image/webp" }

func (m *told) Dimensions() (width, height uint32) {
	if !m.read {
		return 0, 0
	}
	return 30, 20
}

func (m *told) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.read = m.read || errors.Is(err, io.EOF)
	return n, err
}

func tell(text string) *told { return &told{Reader: strings.NewReader(text)} }

func TestAMediumThatSaysWhatItIsIsBelieved(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	u := e.Upload(in, ana, start)
	want := mayfly.Medium{Type: "image/webp", Size: 3, SHA256: sha256.Sum256([]byte("abc")), Width: 30, Height: 20}
	if m, err := u.Add(t.Context(), tell("abc")); err != nil || m != want {
		t.Fatalf("%+v, %v", m, err)
	}
	if m, err := u.Add(t.Context(), strings.NewReader("GIF89a")); err != nil || m.Type != "image/gif" || m.Width != 0 {
		t.Fatalf("%+v, %v", m, err)
	}
	d := e.Draft()
	d.Upload = u
	p := publish(t, in, d, start)
	body, err := e.Real.Ledger.Body(t.Context(), p.Item.ID)
	if err != nil || body[0].Body.Media[0] != want {
		t.Errorf("%+v, %v", body, err)
	}
}

func TestReservedMediaArriveInAnyOrderAndArePublishedTogether(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	reserved := e.Upload(in, ana, start)
	stored := make([]mayfly.Medium, 3)
	for _, n := range []int{2, 0, 1} {
		var err error
		if stored[n], err = in.AddAt(t.Context(), ana, reserved.ID, n, tell(strings.Repeat("x", n+1))); err != nil || stored[n].Width != 30 {
			t.Fatal(err)
		}
	}
	u, err := in.Resume(ana, reserved.ID, stored)
	if err != nil {
		t.Fatal(err)
	}
	d := e.Draft()
	d.Upload = u
	p := publish(t, in, d, start)
	body, err := e.Real.Ledger.Body(t.Context(), p.Item.ID)
	if err != nil || len(body[0].Body.Media) != 3 || body[0].Body.Media[2] != stored[2] || p.Item.Upload != reserved.ID {
		t.Errorf("%+v, %v", body, err)
	}
	for n := range 3 {
		r, object, err := e.Real.Hot.Open(t.Context(), p.Item.MediaKey(mayfly.Born, n), store.Span{})
		if err != nil || object.Size != int64(n+1) {
			t.Fatal(err)
		}
		r.Close()
	}
}

func TestAReservedMediumSentAgainIsTheSameAndNeverAnother(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	id := e.Upload(in, ana, start).ID
	first, err := in.AddAt(t.Context(), ana, id, 0, tell("abc"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := in.AddAt(t.Context(), ana, id, 0, tell("abc")); err != nil || again != first {
		t.Errorf("%+v, %v", again, err)
	}
	torn := errors.New("torn off")
	for want, r := range map[error]io.Reader{
		mayfly.Conflict: tell("abd"),
		mayfly.Invalid:  tell(""),
		torn:            io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(torn)),
	} {
		if _, err := in.AddAt(t.Context(), ana, id, 0, r); !errors.Is(err, want) {
			t.Errorf("%v: %v", want, err)
		}
	}
	object, err := e.Real.Hot.Stat(t.Context(), mayfly.UploadKey(id, 0))
	if err != nil || object.SHA256 != first.SHA256 {
		t.Errorf("%+v, %v", object, err)
	}
}

func TestAReservedMediumThatFailedCanBeSentAgain(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{MaxMedium: 1000})
	id := e.Upload(in, ana, start).ID
	torn := errors.New("torn off")
	for want, r := range map[error]io.Reader{
		mayfly.Invalid:  strings.NewReader(""),
		mayfly.TooLarge: bytes.NewReader(make([]byte, 1001)),
		torn:            io.MultiReader(strings.NewReader("abc"), iotest.ErrReader(torn)),
	} {
		if _, err := in.AddAt(t.Context(), ana, id, 0, r); !errors.Is(err, want) {
			t.Errorf("%v: %v", want, err)
		}
	}
	if _, err := in.AddAt(t.Context(), ana, id, 0, strings.NewReader("abc")); err != nil {
		t.Error(err)
	}
}

func TestOneRequestAtATimeStoresAReservedMedium(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	id := e.Upload(in, ana, start).ID
	during := func(n int) error {
		_, err := in.AddAt(context.Background(), ana, id, n, strings.NewReader("other"))
		return err
	}
	var same, beside error
	_, err := in.AddAt(t.Context(), ana, id, 0, &onRead{strings.NewReader("abc"), func() { same, beside = during(0), during(1) }})
	if err != nil || !errors.Is(same, mayfly.Conflict) || beside != nil {
		t.Errorf("%v; at the same time %v; beside it %v", err, same, beside)
	}
}

// onRead calls do at its first Read.
type onRead struct {
	io.Reader
	do func()
}

func (o *onRead) Read(p []byte) (int, error) {
	if o.do != nil {
		do := o.do
		o.do = nil
		do()
	}
	return o.Reader.Read(p)
}

func TestNobodyAddsToOrResumesWhatIsNotTheirs(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{MaxMedia: 2})
	id := e.Upload(in, ana, start).ID
	one := mayfly.Medium{Type: "image/png", Size: 1}
	for name, call := range map[string]func() error{
		"ben adds":      func() error { _, err := in.AddAt(t.Context(), ben, id, 0, tell("x")); return err },
		"no upload":     func() error { _, err := in.AddAt(t.Context(), ana, mayfly.ID{}, 0, tell("x")); return err },
		"below zero":    func() error { _, err := in.AddAt(t.Context(), ana, id, -1, tell("x")); return err },
		"too many":      func() error { _, err := in.AddAt(t.Context(), ana, id, 2, tell("x")); return err },
		"ben resumes":   func() error { _, err := in.Resume(ben, id, []mayfly.Medium{one}); return err },
		"no such":       func() error { _, err := in.Resume(ana, mayfly.ID{}, nil); return err },
		"three resumed": func() error { _, err := in.Resume(ana, id, []mayfly.Medium{one, one, one}); return err },
		"one missing":   func() error { _, err := in.Resume(ana, id, []mayfly.Medium{one, {}}); return err },
	} {
		if err := call(); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(e.Objects(e.Real.Hot)) != 0 {
		t.Error("something was stored")
	}
}
