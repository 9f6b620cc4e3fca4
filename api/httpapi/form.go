package httpapi

import (
	"errors"
	"io"
	"iter"
	"mime/multipart"

	"github.com/mayflyhq/mayfly"
)

// partHeader is the most bytes of headers between two parts.
const partHeader = 16 << 10

// MediaForm reads a multipart form: first a part with the given name, if there is one,
// of which it returns the bytes, one more than most at most; then parts named media,
// each read from the connection when it is asked for. media is nil without any.
func (c *Call) MediaForm(boundary, name string, most int64) (fields []byte, media iter.Seq2[io.Reader, error], err error) {
	if boundary == "" || len(boundary) > 70 {
		return nil, nil, mayfly.Errorf(mayfly.Invalid, "the form has no boundary").WithHint("let your HTTP library write the Content-Type")
	}
	f := &form{in: multipart.NewReader(c.Body, boundary), body: c.Body, name: name}
	first, err := f.next()
	if err == nil && first != nil && first.FormName() == name {
		if fields, err = io.ReadAll(io.LimitReader(first, most+1)); err != nil {
			return nil, nil, badForm(err)
		}
		if int64(len(fields)) > most {
			return fields, nil, nil
		}
		first, err = f.next()
	}
	if err != nil || first == nil {
		return fields, nil, err
	}
	return fields, f.media(first), nil
}

func badForm(err error) error {
	if KindOf(err) != 0 {
		return err
	}
	// The cause is not wrapped: the early end of a form must not look like that of a picture.
	return mayfly.Errorf(mayfly.Invalid, "the form cannot be parsed: %v", err).WithHint("send every part complete, and the end of the form")
}

// form is a multipart body that is read from the connection part by part.
type form struct {
	in   *multipart.Reader
	body *Body
	name string // of the part before the media
}

// next returns the next part; nil at the end of the form.
func (f *form) next() (*multipart.Part, error) {
	f.body.Bound(partHeader)
	defer f.body.Bound(-1)
	part, err := f.in.NextPart()
	if err == io.EOF { // not wrapped: a wrapped EOF is a form without its end
		_, err = io.Copy(io.Discard, f.body) // fails if the body is shorter than its Content-Length
		return nil, err
	}
	if err != nil {
		return nil, badForm(err)
	}
	return part, nil
}

// media returns the parts from first on.
func (f *form) media(first *multipart.Part) iter.Seq2[io.Reader, error] {
	return func(yield func(io.Reader, error) bool) {
		for part, err := first, error(nil); part != nil || err != nil; part, err = f.next() {
			if err == nil && part.FormName() != "media" {
				err = mayfly.Errorf(mayfly.Invalid, "unexpected part %.40q", part.FormName()).WithHint("send at most one part named " + f.name + " first, then parts named media")
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(partReader{part}, nil) {
				return
			}
		}
	}
}

// partReader turns the errors of a part into errors of the form: a form without
// its end must not look like a broken picture.
type partReader struct{ part *multipart.Part }

func (p partReader) Read(b []byte) (int, error) {
	n, err := p.part.Read(b)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = badForm(err)
	}
	return n, err
}
