package e2e

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/product/account"
)

// buildBinary builds the real binary, once for all tests that run it.
var buildBinary = sync.OnceValues(func() (string, error) {
	var err error
	if binaryFolder, err = os.MkdirTemp("", "mayfly-e2e-"); err != nil {
		return "", err
	}
	path := filepath.Join(binaryFolder, "mayfly")
	out, err := exec.Command("go", "build", "-buildvcs=false", "-o", path, "github.com/mayflyhq/mayfly/cmd/mayfly").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
})

// binaryFolder is where the binary is; empty until it is built.
var binaryFolder string

// TestMain takes the binary away again.
func TestMain(m *testing.M) {
	code := m.Run()
	if binaryFolder != "" {
		if err := os.RemoveAll(binaryFolder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

// server is the real binary, serving on free ports.
type server struct {
	*testing.T
	api, admin string // URLs
	key        *account.Key
	client     *http.Client
	process    *exec.Cmd
	log        bytes.Buffer // what it wrote to standard error; whole when it has ended
}

// startServer starts `mayfly serve` on a folder of its own with a configuration
// file, and stops it when the test is over.
func startServer(t *testing.T, settings string) *server {
	t.Helper()
	folder := t.TempDir()
	s := serveIn(t, folder, settings)
	var err error
	if s.key, err = account.LoadKey(filepath.Join(folder, "data", "key")); err != nil {
		t.Fatal(err)
	}
	return s
}

// serveIn starts `mayfly serve` with its data in a folder.
func serveIn(t *testing.T, folder, settings string) *server {
	t.Helper()
	path, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	file, data := filepath.Join(folder, "mayfly.yaml"), filepath.Join(folder, "data")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &server{T: t, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 20 * time.Second}}
	s.process = exec.Command(path, "serve", "--config", file, "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--log-level", "warn")
	s.process.Dir, s.process.Stderr = folder, &s.log
	out, err := s.process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	s.listens(out)
	return s
}

// listens reads where the server listens from what it prints.
func (s *server) listens(out io.Reader) {
	s.Helper()
	lines := bufio.NewScanner(out)
	url := regexp.MustCompile(`http://127\.0\.0\.1:[0-9]+`)
	for s.admin == "" && lines.Scan() {
		found := url.FindString(lines.Text())
		switch {
		case found == "":
		case s.api == "":
			s.api = found
		default:
			s.admin = found
		}
	}
	if s.admin == "" {
		_ = s.process.Wait() // so that the log is whole
		s.Fatalf("it does not say where it listens: %v\n%s", lines.Err(), s.log.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }() // an unread pipe would block the process; this ends with it
}

// readDocuments reads the OpenAPI documents of both listeners.
func (s *server) readDocuments() documents {
	s.Helper()
	var both documents
	for _, admin := range []bool{false, true} {
		a, err := s.send(context.Background(), request{method: http.MethodGet, target: "/openapi.json", admin: admin})
		if err != nil {
			s.Fatal(err)
		}
		one, err := readDocument(a.body, admin)
		if err != nil {
			s.Fatal(err)
		}
		both = append(both, one...)
	}
	return both
}

// stop ends the server as an operator does, and wants it to end well.
func (s *server) stop() {
	if s.process.ProcessState != nil {
		return
	}
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		s.Errorf("stop the server: %v", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.process.Wait() }()
	select {
	case err := <-ended:
		if err != nil {
			s.Errorf("the server ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		s.Errorf("the server does not end: %v", s.process.Process.Kill())
		<-ended
	}
	if s.Failed() && s.log.Len() > 0 {
		s.Logf("the server's log:\n%s", s.log.String())
	}
	s.client.CloseIdleConnections()
}

// send asks over the network.
func (s *server) send(ctx context.Context, r request) (answer, error) {
	base := s.api
	if r.admin {
		base = s.admin
	}
	req, err := http.NewRequestWithContext(ctx, r.method, base+r.target, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	res, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }() // read to its end below
	body, err := io.ReadAll(res.Body)
	return answer{status: res.StatusCode, header: res.Header, body: body}, err
}
