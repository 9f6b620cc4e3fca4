package httpapi

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/mayflyhq/mayfly"
)

// body is a request's body as it comes in: bounded, and given up when it comes
// too slowly (C9), as a whole or because nothing comes any more: who was fast
// before must not stop for as long as that has earned. It remembers why it broke off, so that the answer says that
// and not what somebody above made of it.
type body struct {
	from    io.Reader
	control *http.ResponseController
	within  time.Duration
	waited  time.Duration // for the client
	read    int64
	most    int64 // bytes in all
	budget  int64 // bytes until the next part, while headers of one are read; negative: no such bound
	broke   error
}

func newBody(w http.ResponseWriter, r *http.Request, most int64, within time.Duration) *body {
	b := &body{from: r.Body, control: http.NewResponseController(w), within: within, most: most, budget: -1}
	if r.ContentLength != 0 { // a body that nobody asks for is read by the server before it answers: it must not wait for ever
		_ = b.control.SetReadDeadline(time.Now().Add(within))
	}
	return b
}

func (b *body) Read(p []byte) (int, error) {
	if b.broke != nil {
		return 0, b.broke
	}
	begun := time.Now()
	_ = b.control.SetReadDeadline(begun.Add(b.within + min(0, paid(b.read)-b.waited))) // without deadlines there is no slow client
	n, err := b.from.Read(p)
	b.waited += time.Since(begun)
	b.read += int64(n)
	if b.budget >= 0 {
		if b.budget -= int64(n); b.budget < 0 {
			return n, b.breaks(mayfly.Errorf(mayfly.TooLarge, "the header of a part is too long").WithHint("name and type of a part are enough"))
		}
	}
	switch {
	case b.read > b.most:
		return n, b.breaks(mayfly.Errorf(mayfly.TooLarge, "the body has more than %d bytes", b.most).WithHint("send less"))
	case errors.Is(err, io.EOF):
		_ = b.control.SetReadDeadline(time.Time{}) // or the server would take the end of it for the client's
		return n, io.EOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, b.breaks(mayfly.Errorf(mayfly.Invalid, "the body came too slowly").WithHint("send it faster, or in smaller uploads"))
	case err != nil:
		return n, b.breaks(mayfly.Errorf(mayfly.Invalid, "the body broke off: %w", err).WithHint("send it again, whole"))
	}
	return n, nil
}

func (b *body) breaks(err error) error {
	b.broke = err
	return err
}

// why is what broke the body off, or else err.
func (b *body) why(err error) error {
	if err != nil && b.broke != nil {
		return b.broke
	}
	return err
}
