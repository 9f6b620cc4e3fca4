package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"math/rand/v2"
	"net/http"
	"strconv"
)

// httpWriter publishes one story after the other, each of another author, with a
// picture of its own, as a form.
type httpWriter struct {
	conn    *httpConn
	random  *rand.Rand
	authors []httpUser
	form    httpForm
	request []byte
}

func (t httpTrial) newWriters(s *httpBench, seed uint64) ([]httpAsker, error) {
	authors, err := s.users("author", t.authors)
	if err != nil {
		return nil, err
	}
	picture, err := benchPicture(seed)
	if err != nil {
		return nil, err
	}
	return dialAll(s.server.API(), t.writers, func(conn *httpConn, n int) httpAsker {
		return &httpWriter{conn: conn, random: rand.New(rand.NewPCG(seed, uint64(n))), authors: authors, form: newHTTPForm(picture, formStory("everyone"))}
	})
}

// dialAll makes so many askers, each with a connection.
func dialAll(url string, n int, asker func(conn *httpConn, n int) httpAsker) ([]httpAsker, error) {
	var all []httpAsker
	for i := range n {
		conn, err := dialHTTP(url)
		if err != nil {
			return nil, errors.Join(err, closeAll(all))
		}
		all = append(all, asker(conn, i))
	}
	return all, nil
}

func (w *httpWriter) close() error { return w.conn.close() }

func (w *httpWriter) next() []byte {
	w.request = w.form.publish(w.request[:0], w.authors[w.random.IntN(len(w.authors))], w.random)
	return w.request
}

func (w *httpWriter) ask() error { return w.conn.do(w.next(), http.StatusCreated) }

// httpForm is a story with a picture, as browsers and curl send it.
type httpForm struct {
	body  []byte
	table int // where in it the picture's quantisation table is
}

const (
	formEdge  = "----mayfly-bench-4f1c"
	formPhoto = "--" + formEdge + "\r\nContent-Disposition: form-data; name=\"media\"; filename=\"photo.jpg\"\r\nContent-Type: image/jpeg\r\n\r\n"
	formEnd   = "\r\n--" + formEdge + "--\r\n"
)

// formStory is the field of a form that describes a story.
func formStory(audience string) string {
	return "--" + formEdge + "\r\nContent-Disposition: form-data; name=\"story\"\r\nContent-Type: application/json\r\n\r\n" +
		`{"caption":"` + loadCaption + `","audience":"` + audience + "\"}\r\n"
}

// newHTTPForm returns a form with the fields and then the picture.
func newHTTPForm(picture []byte, fields string) httpForm {
	head := fields + formPhoto
	f := httpForm{body: []byte(head), table: len(head) + bytes.Index(picture, []byte{0xff, 0xdb}) + 5}
	f.body = append(append(f.body, picture...), formEnd...)
	return f
}

// publish appends the request of an author to out.
func (f httpForm) publish(out []byte, author httpUser, random *rand.Rand) []byte {
	return f.request(out, "/v1/stories", "Bearer "+author.token, random)
}

// request appends a POST of the form to out. No two pictures are the same: any
// quantisation table without a zero makes a picture.
func (f httpForm) request(out []byte, path, authorization string, random *rand.Rand) []byte {
	out = append(out, "POST "...)
	out = append(append(out, path...), " HTTP/1.1\r\nHost: mayfly\r\nAuthorization: "...)
	out = append(append(out, authorization...), "\r\nContent-Type: multipart/form-data; boundary="+formEdge+"\r\nContent-Length: "...)
	out = strconv.AppendInt(out, int64(len(f.body)), 10)
	out = append(out, "\r\n\r\n"...)
	picture := len(out) + f.table
	out = append(out, f.body...)
	binary.BigEndian.PutUint64(out[picture:], random.Uint64()|0x0101010101010101)
	return out
}

// benchPicture is a JPEG of about the size of a medium of the other trials. It is
// so small in pixels that it is its own thumbnail: what is measured is a medium
// that is cleaned and stored, not one that is painted again.
func benchPicture(seed uint64) ([]byte, error) {
	const side = 112
	random := rand.New(rand.NewPCG(seed, 99))
	noise := image.NewGray(image.Rect(0, 0, side, side))
	for i := range noise.Pix {
		noise.Pix[i] = byte(random.Uint32())
	}
	best := new(bytes.Buffer)
	for quality := 95; quality > 5; quality -= 5 {
		best.Reset()
		if err := jpeg.Encode(best, noise, &jpeg.Options{Quality: quality}); err != nil {
			return nil, err
		}
		if best.Len() <= benchMedium+benchMedium/16 {
			return best.Bytes(), nil
		}
	}
	return nil, fmt.Errorf("no picture of %d bytes: the last has %d", benchMedium, best.Len())
}
