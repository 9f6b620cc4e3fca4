package httpapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// dial serves the node on loopback and returns a connection to it.
func (h *testNode) dial() net.Conn {
	h.Helper()
	server := httptest.NewServer(h.Public)
	h.Cleanup(server.Close)
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		h.Fatal(err)
	}
	return conn
}

// post returns the head of a request that publishes a story.
func (h *testNode) post(typ string, length int) string {
	return fmt.Sprintf("POST /v1/stories HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", h.Token("ana"), typ, length)
}

// stored returns how many stories are in ana's ring.
func (h *testNode) stored() int {
	h.Helper()
	return strings.Count(h.Get("ana", "/v1/users/~ana/ring", 200).Body.String(), `"short"`)
}

func TestAClientThatSendsTooSlowlyIsCutOff(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Listen.BodyWithin = 300 * time.Millisecond })
	conn := h.dial()
	photo := picture(t, 1)
	if _, err := io.WriteString(conn, h.post("image/jpeg", len(photo))+photo[:100]); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil) // nothing more is sent
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != 400 || !strings.Contains(string(text), "too slowly") {
		t.Errorf("%d %s", answer.StatusCode, text)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("cut off after %s", took)
	}
	if n := h.stored(); n != 0 {
		t.Errorf("%d stories", n)
	}
}

func TestABodyThatNoHandlerReadsIsNotWaitedFor(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Listen.BodyWithin = 300 * time.Millisecond })
	conn := h.dial()
	if _, err := io.WriteString(conn, "POST /v1/stories HTTP/1.1\r\nHost: x\r\nContent-Type: image/jpeg\r\nContent-Length: 1000\r\n\r\nonly so much"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("the connection is held: %v", err)
	}
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("%d", answer.StatusCode)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnIncompleteBodyStoresNothing(t *testing.T) {
	h := newTestNode(t)
	photo := picture(t, 1)
	form, typ := nodetest.Form(t, "story", `{}`, "media", photo)
	whole := map[string]bool{"a length that is too short": true, "a form without its end": true, "nothing": true} // for these the request is complete
	for name, sent := range map[string]string{
		"a length that is too long":  h.post("image/jpeg", len(photo)+10) + photo,
		"a whole form, and more":     h.post(typ, len(form)+10) + form,
		"a form without its end":     h.post(typ, len(form)-20) + form[:len(form)-20],
		"half of a form":             h.post(typ, len(form)) + form[:len(form)/2],
		"a length that is too short": h.post("image/jpeg", len(photo)/2) + photo,
		"a part without a header":    h.post(typ, 40) + form[:40],
		"nothing":                    h.post("image/jpeg", 0),
		"an endless part header":     h.post(typ, 1<<20) + "--" + strings.TrimPrefix(typ, "multipart/form-data; boundary=") + "\r\nX: " + strings.Repeat("x", 64<<10),
	} {
		t.Run(name, func(t *testing.T) {
			conn := h.dial().(*net.TCPConn)
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			if !whole[name] {
				if err := conn.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			if answer.StatusCode/100 != 4 || !strings.Contains(string(text), `"hint"`) {
				t.Errorf("%d %s", answer.StatusCode, text)
			}
			if n := h.stored(); n != 0 {
				t.Errorf("%d stories", n)
			}
		})
	}
}

func TestAClientThatReadsNothingIsCutOff(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Listen.BodyWithin = 200 * time.Millisecond })
	s := h.Publish("ana", `{"audience":"everyone"}`)
	done := make(chan struct{})
	far, near := net.Pipe() // has no buffer: every byte waits for its reader
	go func() {
		defer close(done)
		w := &pipeWriter{conn: near, header: http.Header{}}
		r := httptest.NewRequest("GET", "/v1/stories/"+s.ID.String(), http.NoBody)
		h.Public.ServeHTTP(w, r)
	}()
	<-done
	_ = far.Close()
	_ = near.Close()
}

// pipeWriter is a ResponseWriter on a pipe, with its write deadline.
type pipeWriter struct {
	conn   net.Conn
	header http.Header
}

func (p *pipeWriter) Header() http.Header                 { return p.header }
func (p *pipeWriter) WriteHeader(int)                     {}
func (p *pipeWriter) Write(b []byte) (int, error)         { return p.conn.Write(b) }
func (p *pipeWriter) SetWriteDeadline(at time.Time) error { return p.conn.SetWriteDeadline(at) }
