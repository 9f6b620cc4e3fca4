package httpapi_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// refusedUpload is an upload that the server refuses before it has read it.
type refusedUpload struct {
	Method  string            `json:"method"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Length  int               `json:"length"` // bytes of the body, all zero

	want int
	code string
}

// seen is what a client saw of an answer.
type seen struct {
	Status int    `json:"status"` // 0: the client got no answer, and Body says why
	Body   string `json:"body"`
}

// client sends uploads, or says why it cannot be run here.
type client func(t *testing.T, all []refusedUpload) []seen

func TestARefusedUploadReachesEveryClientAsAnAnswer(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Stories.Live = 1 })
	h.Publish("ana", `{"audience":"everyone"}`)
	server := httptest.NewServer(h.Handlers.Public())
	defer server.Close()
	const length = 2 << 20
	upload := func(as, method, path, typ string, want int, code string) refusedUpload {
		headers := map[string]string{"Content-Type": typ}
		if token := h.Token(as); token != "" {
			headers["Authorization"] = "Bearer " + token
		}
		return refusedUpload{Method: method, URL: server.URL + path, Headers: headers, Length: length, want: want, code: code}
	}
	reserved := nodetest.ReadJSON[wire.Upload](t, h.Want(nodetest.Request{As: "ben", Method: "POST", Path: "/v1/uploads", Body: fmt.Sprintf(`{"media":[{"length":%d}]}`, 4*length)}, 201))
	uploads := []refusedUpload{
		upload("ben", "POST", "/v1/stories", "text/csv", 415, "unsupported"),
		upload("ben", "POST", "/v1/stories?audience=everyone", "image/jpeg", 415, "unsupported"), // zeros are no picture
		upload("ben", "PUT", "/v1/uploads/"+reserved.ID.String()+"/0", "image/jpeg", 415, "unsupported"),
		upload("ben", "POST", "/v1/uploads", "application/json", 413, "too_large"),
		upload("anonymous", "POST", "/v1/stories", "image/jpeg", 401, "unauthenticated"),
		upload("moderator", "POST", "/v1/stories", "image/jpeg", 403, "denied"),
		upload("ana", "POST", "/v1/stories?audience=everyone", "image/jpeg", 409, "conflict"),
		upload("ben", "POST", "/v1/nothing", "image/jpeg", 404, "not_found"),
		upload("ben", "PUT", "/v1/stories", "image/jpeg", 405, "method"),
	}
	clients := map[string]client{
		"curl":     curlClient,
		"urllib":   pythonClient("urllib"),
		"requests": pythonClient("requests"),
		"go":       goClient,
		"node":     nodeClient,
		"whole":    wholeClient,
	}
	for name, send := range clients {
		t.Run(name, func(t *testing.T) {
			for i, got := range send(t, uploads) {
				u := uploads[i]
				if got.Status != u.want || !strings.Contains(got.Body, `"code":"`+u.code+`"`) {
					t.Errorf("%s %s as %s: %d %.200q, want %d %s", u.Method, strings.TrimPrefix(u.URL, server.URL), u.Headers["Content-Type"], got.Status, got.Body, u.want, u.code)
				}
			}
		})
	}
}

func TestOnlySoMuchOfAnEndlessUploadIsReadBeforeItIsRefused(t *testing.T) {
	h := newTestNode(t)
	server := httptest.NewServer(h.Handlers.Public())
	defer server.Close()
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	sent := make(chan int, 1)
	go func() {
		chunk := []byte(fmt.Sprintf("%x\r\n%s\r\n", 64<<10, make([]byte, 64<<10)))
		total, err := io.WriteString(conn, "POST /v1/stories HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\nTransfer-Encoding: chunked\r\n\r\n")
		for n := 0; err == nil; total += n {
			n, err = conn.Write(chunk)
		}
		sent <- total
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != http.StatusUnauthorized || !res.Close {
		t.Errorf("%+v, %v", res, err)
	}
	_ = conn.Close() // the answer was read
	if total := <-sent; total < 8<<20 || total > 32<<20 {
		t.Errorf("%d bytes were sent before the answer", total)
	}
}

// scriptClient runs a program that reads the uploads and prints what it saw.
func scriptClient(t *testing.T, all []refusedUpload, program string, args ...string) (found []seen) {
	t.Helper()
	in, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = bytes.NewReader(in)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil || len(found) != len(all) {
		t.Fatalf("%s: %v, %d answers: %s", program, err, len(found), &log)
	}
	return found
}

func pythonClient(library string) client {
	return func(t *testing.T, all []refusedUpload) []seen {
		module := map[string]string{"urllib": "urllib.request", "requests": "requests"}[library]
		if err := exec.CommandContext(t.Context(), "python3", "-c", "import "+module).Run(); err != nil {
			t.Skipf("python3 has no %s here: %v", library, err)
		}
		return scriptClient(t, all, "python3", "testdata/refused.py", library)
	}
}

func nodeClient(t *testing.T, all []refusedUpload) []seen {
	if err := exec.CommandContext(t.Context(), "node", "-e", "fetch").Run(); err != nil {
		t.Skipf("node has no fetch here: %v", err)
	}
	return scriptClient(t, all, "node", "testdata/refused.mjs")
}

func curlClient(t *testing.T, all []refusedUpload) (found []seen) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skipf("curl is not here: %v", err)
	}
	for _, u := range all {
		args := []string{"-q", "-sS", "-X", u.Method, "--noproxy", "*", "-H", "Expect:", "--data-binary", "@-", "-w", "\n%{http_code}"}
		for name, value := range u.Headers {
			args = append(args, "-H", name+": "+value)
		}
		cmd := exec.CommandContext(t.Context(), "curl", append(args, u.URL)...)
		cmd.Stdin = bytes.NewReader(make([]byte, u.Length))
		out, err := cmd.CombinedOutput()
		if err != nil {
			found = append(found, seen{Body: fmt.Sprintf("%v: %s", err, out)})
			continue
		}
		at := bytes.LastIndexByte(out, '\n')
		status, err := strconv.Atoi(string(out[at+1:]))
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		found = append(found, seen{status, string(out[:at])})
	}
	return found
}

func goClient(t *testing.T, all []refusedUpload) (found []seen) {
	for _, u := range all {
		q, err := http.NewRequestWithContext(t.Context(), u.Method, u.URL, bytes.NewReader(make([]byte, u.Length)))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range u.Headers {
			q.Header.Set(name, value)
		}
		found = append(found, readAnswer(http.DefaultClient.Do(q)))
	}
	return found
}

// wholeClient sends a request to its end before it reads anything, as the
// simplest clients do. It sends more than the buffers on the way hold.
func wholeClient(t *testing.T, all []refusedUpload) (found []seen) {
	for _, u := range all {
		q, err := http.NewRequestWithContext(t.Context(), u.Method, u.URL, bytes.NewReader(make([]byte, 4*u.Length)))
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range u.Headers {
			q.Header.Set(name, value)
		}
		conn, err := net.Dial("tcp", q.URL.Host)
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Write(conn); err != nil {
			found = append(found, seen{Body: err.Error()})
		} else {
			found = append(found, readAnswer(http.ReadResponse(bufio.NewReader(conn), q)))
		}
		_ = conn.Close() // the answer was read
	}
	return found
}

func readAnswer(res *http.Response, err error) seen {
	if err != nil {
		return seen{Body: err.Error()}
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return seen{Body: err.Error()}
	}
	return seen{res.StatusCode, string(body)}
}
