package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// badAsk is a request as it goes over the wire, byte by byte: nothing of it is
// put right on the way.
type badAsk struct {
	as             string // a role or a user; empty: no token
	method, target string
	typ            string
	header         []string // further lines
	body           string
	stream         io.Reader // instead of body
	length         string    // what Content-Length says; empty: the truth, of body; unsaid: there is none
	chunked        bool      // body is sent in chunks
	ends           bool      // the client says that nothing more comes
	raw            string    // instead of everything above
	admin          bool
}

const unsaid = "-"

// patience is how long a client of bad input waits for an answer.
const patience = 30 * time.Second

// send sends the request on a connection of its own and reads the answer; of a
// connection that was closed without one the status is 0.
func (h *badServer) send(a badAsk) answer {
	h.Helper()
	var err error
	for range askedAgain {
		conn := h.dial(a.admin)
		go h.write(conn, a)
		var got answer
		got, err = h.hear(bufio.NewReader(conn), a.method)
		_ = conn.Close() // nothing was left unread that matters
		if err == nil || got.header.Get("Mayfly-Request") != "" || got.status == http.StatusRequestHeaderFieldsTooLarge {
			if err != nil && got.status != http.StatusRequestHeaderFieldsTooLarge { // there the server hangs up on what still comes
				h.Errorf("an answer that is not whole: %v", err)
			}
			return got
		}
	}
	h.Errorf("an answer that is not whole, %d times: %v", askedAgain, err)
	return answer{}
}

// askedAgain is how often a request is sent that net/http refuses by itself: it
// hangs up on what still comes, which may cut its answer on the way.
const askedAgain = 5

func (h *badServer) dial(admin bool) *net.TCPConn {
	h.Helper()
	address := h.api
	if admin {
		address = h.admin
	}
	conn, err := net.Dial("tcp", address)
	if err != nil {
		h.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		h.Fatal(err)
	}
	return conn.(*net.TCPConn)
}

// write writes the request. The server may have answered and closed before it
// is all out: what came of it, the answer tells.
func (h *badServer) write(conn *net.TCPConn, a badAsk) {
	if _, err := io.WriteString(conn, h.head(a)); err != nil {
		return
	}
	body := a.stream
	switch {
	case a.raw != "":
		body = strings.NewReader("")
	case a.chunked:
		body = strings.NewReader(fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(a.body), a.body))
	case body == nil:
		body = strings.NewReader(a.body)
	}
	if _, err := io.Copy(conn, body); err != nil {
		return
	}
	if a.ends {
		_ = conn.CloseWrite() // or the server was faster
	}
}

func (h *badServer) head(a badAsk) string {
	if a.raw != "" {
		return a.raw
	}
	lines := []string{a.method + " " + a.target + " HTTP/1.1", "Host: stories.example.org"}
	if a.as != "" {
		lines = append(lines, "Authorization: Bearer "+h.bearer(a.as))
	}
	if a.typ != "" {
		lines = append(lines, "Content-Type: "+a.typ)
	}
	switch {
	case a.chunked:
		lines = append(lines, "Transfer-Encoding: chunked")
	case a.length == unsaid:
	case a.length != "":
		lines = append(lines, "Content-Length: "+a.length)
	case a.body != "" || a.method == http.MethodPost || a.method == http.MethodPut:
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(a.body)))
	}
	return strings.Join(append(lines, a.header...), "\r\n") + "\r\n\r\n"
}

// hear reads one answer, and says whether it was whole.
func (h *badServer) hear(from *bufio.Reader, method string) (answer, error) {
	h.Helper()
	res, err := http.ReadResponse(from, &http.Request{Method: method})
	if err != nil {
		return answer{body: []byte(err.Error())}, nil // no answer: the caller decides whether that is right
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, 64<<20))
	return answer{status: res.StatusCode, header: res.Header, body: body}, err
}

// badRead is what an answer must have in it.
func badRead[T any](t *testing.T, a answer, status int) T {
	t.Helper()
	var v T
	if a.status != status {
		t.Fatalf("%d, not %d: %s", a.status, status, excerpt(a.body))
	}
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v: %s", err, excerpt(a.body))
	}
	return v
}

// badForm is a multipart form: name and content of each part.
type badForm [][2]string

// badBoundary is what the forms of bad input are parted by.
const badBoundary = "a-boundary-of-bad-input"

func (f badForm) typ() string { return "multipart/form-data; boundary=" + badBoundary }

func (f badForm) text() string { return f.open() + "--" + badBoundary + "--\r\n" }

// open is the form without its end.
func (f badForm) open() string {
	var b bytes.Buffer
	for _, part := range f {
		fmt.Fprintf(&b, "--%s\r\nContent-Disposition: form-data; name=%q; filename=\"f\"\r\n\r\n%s\r\n", badBoundary, part[0], part[1])
	}
	return b.String()
}

// repeated is a text over and over, so many bytes long, without being in memory.
func repeated(text string, length int64) io.Reader {
	return io.LimitReader(&repeating{text: strings.Repeat(text, 64<<10/len(text)+1)}, length)
}

type repeating struct {
	text string
	at   int
}

func (r *repeating) Read(p []byte) (int, error) {
	n := copy(p, r.text[r.at:])
	r.at = (r.at + n) % len(r.text)
	return n, nil
}
