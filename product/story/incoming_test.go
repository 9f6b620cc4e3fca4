package story_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/story"
)

// behind is a photo with something behind it, which ends with err.
func behind(t testing.TB, n int, err error) (photograph []byte, sent io.Reader) {
	t.Helper()
	photograph = photo(t, 7)
	return photograph, io.MultiReader(bytes.NewReader(photograph), bytes.NewReader(make([]byte, n)), failing{err})
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// ways are the two ways in for bytes that come from outside.
func ways(e *env) map[string]func(length int, r io.Reader) (mayfly.Medium, error) {
	return map[string]func(length int, r io.Reader) (mayfly.Medium, error){
		"publish": func(_ int, r io.Reader) (mayfly.Medium, error) {
			d := story.Draft{Author: user("ana"), Media: func(yield func(io.Reader, error) bool) { yield(r, nil) }}
			s, err := e.stories.Publish(e.Context(), d, e.clock)
			if err != nil {
				return mayfly.Medium{}, err
			}
			return s.Body.Media[0], nil
		},
		"put": func(length int, r io.Reader) (mayfly.Medium, error) {
			reserved, err := e.stories.Reserve(e.Context(), user("ana"), []upload.Expected{{Length: int64(length)}}, e.clock())
			e.Must(err)
			return e.uploads.Put(e.Context(), user("ana"), reserved.Upload, 0, r, e.clock())
		},
	}
}

func TestWhatLiesBehindAMediumIsReadAndDropped(t *testing.T) {
	e := open(t)
	for name, way := range ways(e) {
		plain, sent := behind(t, 3<<20, io.EOF) // as phones put a film behind a picture
		got, err := way(len(plain)+(3<<20), sent)
		if err != nil || got.Size > int64(len(plain)) {
			t.Errorf("%s: %d bytes of %d, %v", name, got.Size, len(plain), err)
		}
		if n, err := sent.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: not read to its end: %d %v", name, n, err)
		}
	}
}

func TestABodyThatBreaksOffBehindTheMediumIsNotTaken(t *testing.T) {
	e := open(t)
	for name, way := range ways(e) {
		plain, sent := behind(t, 10, mayfly.Errorf(mayfly.Invalid, "it broke off"))
		if _, err := way(len(plain)+10, sent); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	objects, err := e.Set.Hot.List(t.Context(), "", "", 10)
	if e.Must(err); len(objects) > 0 {
		t.Errorf("%d objects stayed", len(objects))
	}
}

func TestMoreBehindAMediumThanItMayHaveItselfIsTooLarge(t *testing.T) {
	e := open(t, func(o *settings) { o.Upload.Limits.Image = 64 << 10 })
	for name, way := range ways(e) {
		plain, sent := behind(t, 1<<20, io.EOF)
		if _, err := way(len(plain)+(1<<20), sent); !errors.Is(err, mayfly.TooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestACaptionTurnsNoDirectionButItsOwn(t *testing.T) {
	e := open(t)
	d := e.draft()
	d.Caption = "a\u202eb\u2066c\u2069d\u200ee\u200ff\u061cg"
	if s := e.publish(d); s.Body.Text != "abcd\u200ee\u200ff\u061cg" {
		t.Errorf("%q", s.Body.Text)
	}
}
