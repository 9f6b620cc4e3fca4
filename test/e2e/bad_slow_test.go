package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/test/pace"
)

// badPace is how long a client of the slow tests may keep the server waiting, and
// badPatience is when it must have been given up.
const (
	badPace     = time.Second
	badPatience = 20 * time.Second
)

// slow is one slow client: what it says at once, what it then says byte by byte,
// and how it is answered; 0 is a connection that is closed, at most with HTTP's own 400.
type slow struct {
	name   string
	first  string
	drip   string
	status int
	says   string
}

// C9: slow clients cannot hold resources, wherever they are slow. All of them at
// once, each many times, while others are answered as ever.
func TestSlowClientsAreGivenUp(t *testing.T) {
	cfg := badConfig(t)
	cfg.Listen.HeaderWithin, cfg.Listen.BodyWithin, cfg.Listen.IdleWithin = badPace, badPace, time.Second
	cfg.Media.MaxConcurrent = 1_000 // they are all of one user
	h := openBadServer(t, cfg)
	photo := string(picture("slow", 1))
	form := badForm{{"story", `{}`}, {"media", photo}}
	story := "/v1/stories/" + h.good.ID.String()
	upload := h.reserves("ana", slices.Repeat([]int{1000}, 10)...)
	post := func(typ string, length int) string {
		return h.head(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: typ, length: fmt.Sprint(length)})
	}
	zeros := strings.Repeat("0", 1000)
	clients := []slow{
		{"nothing at all", "", "", 0, ""},
		{"a request line", "GE", "T " + story + " HTTP/1.1\r\n", 0, ""},
		{"headers", "GET " + story + " HTTP/1.1\r\nHost: x\r\n", strings.Repeat("X-A: b\r\n", 100), 0, ""},
		{"a body that never begins", post("image/png", len(photo)), "", 400, "slowly"},
		{"a body", post("image/png", len(photo)) + photo[:20], photo[20:], 400, "slowly"},
		{"a form", post(form.typ(), len(form.text())) + form.text()[:20], form.text()[20:], 400, "slowly"},
		{"a body that stops after megabytes", post("video/mp4", 40<<20) + badBox("ftyp", "isom\x00\x00\x02\x00isommp41") + badU32(39<<20) + "mdat" + strings.Repeat("frames", 1<<19), "", 400, "slowly"},
		{"a medium within a form", post(form.typ(), len(form.text())) + form.text()[:len(form.text())-60], form.text()[len(form.text())-60:], 400, "slowly"},
		{"chunks", h.head(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "image/png", chunked: true}), strings.Repeat("1\r\nx\r\n", 100), 400, ""},
		{"a medium of an upload", h.head(badAsk{as: "ana", method: http.MethodPut, target: "/v1/uploads/" + upload + "/{n}", typ: "image/png", length: "1000"}) + photo[:8], zeros, 400, "slowly"},
		{"JSON", h.head(badAsk{as: "ana", method: http.MethodPost, target: "/v1/uploads", typ: "application/json", length: "1000"}) + "{", zeros, 400, "slowly"},
		{"a body that the route does not read", h.head(badAsk{method: http.MethodGet, target: story, length: "1000"}), zeros, 200, ""},
		{"a body that was refused", h.head(badAsk{method: http.MethodPost, target: "/v1/stories", typ: "image/png", length: "1000"}), zeros, 401, ""},
		{"a body of a route that is none", h.head(badAsk{method: http.MethodPost, target: "/nothing", length: "1000"}), zeros, 404, ""},
		{"a promise", h.head(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "image/png", length: "1000", header: []string{"Expect: 100-continue"}}), "", 100, ""},
		{"silence after an answer", h.head(badAsk{method: http.MethodGet, target: story}), "", 200, ""},
	}
	before := h.stored()
	const each = 8
	var at sync.WaitGroup
	for _, c := range clients {
		for n := range each {
			one := c
			one.first = strings.Replace(c.first, "{n}", fmt.Sprint(n), 1)
			at.Go(func() { h.tries(one) })
		}
	}
	h.answers() // while they are at it
	at.Wait()
	h.alone(badPatience)
	before.hot++ // of what was published meanwhile
	h.settles(before)
	t.Logf("%d slow clients of %d kinds, given up within %s; one that is waited for at most %s", each*len(clients), len(clients), badPatience, badPace)
}

// tries is a slow client: it must hear what it should, and be hung up on.
func (h *badServer) tries(c slow) {
	conn := h.dial(false)
	defer func() { _ = conn.Close() }() // hung up on by then
	begun := time.Now()
	over := make(chan struct{})
	defer close(over)
	go drip(conn, c.first, c.drip, over)
	from := bufio.NewReader(conn)
	res, err := http.ReadResponse(from, nil)
	switch {
	case c.status == 0 && err == nil && res.StatusCode != http.StatusBadRequest: // half a line is no header
		h.Errorf("%s: %d, and no answer was due", c.name, res.StatusCode)
	case c.status != 0 && err != nil:
		h.Errorf("%s: no answer: %v", c.name, err)
	case c.status != 0:
		text, err := io.ReadAll(res.Body)
		if err != nil && c.says != "" || res.StatusCode != c.status || !strings.Contains(string(text), c.says) {
			h.Errorf("%s: %d %s %v, wanted %d and %q", c.name, res.StatusCode, excerpt(text), err, c.status, c.says)
		}
	}
	_, err = io.Copy(io.Discard, from) // until it is hung up on
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		h.Errorf("%s: not hung up on", c.name)
	}
	if took := time.Since(begun); took > badPatience {
		h.Errorf("%s: given up after %s", c.name, took)
	}
}

// drip says one text at once and another byte by byte, until it is hung up on.
func drip(conn net.Conn, first, text string, over <-chan struct{}) {
	if _, err := io.WriteString(conn, first); err != nil {
		return
	}
	next := time.NewTicker(badPace / 4)
	defer next.Stop()
	for i := range len(text) {
		select {
		case <-over:
			return
		case <-next.C:
		}
		if _, err := io.WriteString(conn, text[i:i+1]); err != nil {
			return
		}
	}
}

// C9: who asks and does not read is hung up on, whatever was asked for, and what
// was to be sent to them does not pile up.
func TestReadersThatDoNotReadAreGivenUp(t *testing.T) {
	pace.Slow(t, "real connections time out")
	cfg := badConfig(t)
	cfg.Listen.BodyWithin = badPace
	h := openBadServer(t, cfg)
	film := placedMP4()[:strings.Index(placedMP4(), "mdat")-4]
	const frames = 24 << 20 // more than sockets hold
	a := h.send(badAsk{
		as: "ana", method: http.MethodPost, target: "/v1/stories?audience=everyone", typ: "video/mp4", length: fmt.Sprint(len(film) + 8 + frames),
		stream: io.MultiReader(strings.NewReader(film+badU32(8+frames)+"mdat"), repeated("frames", frames)),
	})
	large := badRead[wire.Story](t, a, http.StatusCreated)
	heap := watchHeap()
	asks := map[string]badAsk{
		"a large medium":       {method: http.MethodGet, target: large.Media[0].URL},
		"thousands of stories": {method: http.MethodGet, target: "/v1/stories/" + h.good.ID.String()},
		"thousands of nothing": {method: http.MethodHead, target: h.good.Media[0].URL},
		"thousands of 304":     {method: http.MethodGet, target: h.good.Media[0].URL, header: []string{"If-None-Match: *"}},
		"thousands of 404":     {method: http.MethodGet, target: "/nothing"},
	}
	for _, ask := range asks {
		for range 4 {
			conn := h.dial(false)
			t.Cleanup(func() { _ = conn.Close() })                              // never read
			go func() { _, _ = io.Copy(conn, repeated(h.head(ask), 64<<20)) }() // until it is hung up on
		}
	}
	h.answers() // while they are at it
	h.alone(patience)
	if grew := heap.stop(); grew > badHeap {
		t.Errorf("the heap grew by %d MiB", grew>>20)
	}
	t.Logf("%d clients that ask and do not read were hung up on", 4*len(asks))
}

// The real binary's listener is the one that has the bounds (C9): what `mayfly
// serve` builds holds them, and its memory stays where it was.
func TestTheRealBinaryHoldsItsBounds(t *testing.T) {
	pace.Slow(t, "real connections time out")
	s := startServer(t, "listen:\n  header_timeout: 1s\n  body_timeout: 1s\n  idle_timeout: 2s\n  max_connections: 64\nrates:\n  address_reads: 0/1h\n  address_writes: 0/1h\ndisk:\n  floor: 0\n")
	address := strings.TrimPrefix(s.api, "http://")
	before := s.resident()
	cases := []struct {
		name, text string
		status     int // 0: closed without an answer
	}{
		{"a header of a megabyte", "GET / HTTP/1.1\r\nHost: x\r\nX-A: " + strings.Repeat("x", 1<<20), 431},
		{"thousands of headers", "GET / HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X-A: x\r\n", 100_000), 431},
		{"headers that never end", "GET / HTTP/1.1\r\nHost: x\r\nX-A: ", 0},
		{"nothing", "", 0},
		{"a body that never comes", "POST /v1/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n", 400},
		{"a body that the route does not read", "GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", 200},
		{"two lengths", "POST /v1/token HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400},
		{"a terabyte", "POST /v1/token HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1099511627776\r\n\r\n", 413},
		{"a path that is none", "GET /v1/../key HTTP/1.1\r\nHost: x\r\n\r\n", 400},
	}
	const each = 20 // many more than may be connected at once
	var at sync.WaitGroup
	for _, c := range cases {
		for range each {
			at.Go(func() {
				if status, err := sendRaw(address, c.text); status != c.status {
					t.Errorf("%s: %d, not %d: %v", c.name, status, c.status, err)
				}
			})
		}
	}
	at.Wait()
	res, err := s.client.Get(s.api + "/")
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("afterwards: %d %v", res.StatusCode, err)
	}
	after := s.resident()
	if after-before > 64<<20 {
		t.Errorf("resident memory grew from %d to %d MiB", before>>20, after>>20)
	}
	t.Logf("%d bad clients of %d kinds, 64 at a time; resident memory %d MiB before, %d MiB after", each*len(cases), len(cases), before>>20, after>>20)
}

// sendRaw sends a text and waits for an answer; 0 is none.
func sendRaw(address, text string) (status int, err error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return -1, err
	}
	defer func() { _ = conn.Close() }() // it was answered
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return -1, err
	}
	go func() { _, _ = io.WriteString(conn, text) }() // the server may hang up in the middle
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	var late net.Error
	if errors.As(err, &late) && late.Timeout() {
		return -1, err
	}
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// resident is the memory that the server's process has, by its own metrics.
func (s *server) resident() int64 {
	s.Helper()
	res, err := s.client.Get(s.admin + "/metrics")
	if err != nil {
		s.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		s.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`).FindSubmatch(text)
	if found == nil {
		s.Fatal("no resident memory among the metrics")
	}
	bytes, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		s.Fatal(err)
	}
	return int64(bytes)
}
