package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/demo"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// running is a server that a test started with mayfly serve.
type running struct {
	*testing.T
	data       string
	api, admin string
	said       []string // what it printed at its start
	log        *storetest.LogBuffer
	stop       context.CancelFunc
	ended      chan error
}

// startServer starts a server on free ports and waits until it listens.
func startServer(t *testing.T, data string, more ...string) *running {
	t.Helper()
	t.Chdir(t.TempDir()) // a folder without a configuration file
	ctx, stop := context.WithCancel(t.Context())
	r := &running{T: t, data: data, log: new(storetest.LogBuffer), stop: stop, ended: make(chan error, 1)}
	out, in := io.Pipe()
	root := newRoot()
	root.SetArgs(append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--set", "disk.floor=0", "--log-level", "debug"}, more...))
	root.SetOut(in)
	root.SetErr(r.log)
	go func() {
		err := root.ExecuteContext(ctx)
		in.CloseWithError(io.EOF)
		r.ended <- err
	}()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		r.said = append(r.said, lines.Text())
		if strings.Contains(lines.Text(), " explain ") {
			break // the last line
		}
	}
	if len(r.said) < 3 {
		t.Fatalf("the server printed %q and ended with %v\n%s", r.said, <-r.ended, r.log)
	}
	address := regexp.MustCompile(`https?://[0-9.:]+`)
	r.api, r.admin = address.FindString(r.said[0]), address.FindString(r.said[1])
	t.Cleanup(func() { r.end() })
	return r
}

// end stops the server gracefully.
func (r *running) end() {
	r.Helper()
	r.stop()
	if err, ok := <-r.ended; ok {
		close(r.ended)
		if err != nil {
			r.Errorf("it ended with %v\n%s", err, r.log)
		}
	}
}

// run runs a verb against the server and checks its exit code and output.
func (r *running) run(code int, want string, args ...string) string {
	r.Helper()
	return runVerb(r.T, code, want, append(args, "--data", r.data)...)
}

func runVerb(t *testing.T, code int, want string, args ...string) string {
	t.Helper()
	var out, log bytes.Buffer
	got := Run(args, &out, &log)
	if text := out.String() + log.String(); got != code || !strings.Contains(text, want) {
		t.Errorf("%q: exit %d, wanted %d with %q:\n%s", args, got, code, want, text)
	}
	return out.String()
}

func TestAServerNeedsNoConfigurationAndPrintsWhatToTry(t *testing.T) {
	r := startServer(t, filepath.Join(t.TempDir(), "data with 'quotes'"))
	said := strings.Join(r.said, "\n")
	for _, want := range []string{r.api + "/docs/api", "token --user ana", "/followers/~ben", "story picture", "-F media=@", `'\''quotes'\''`} {
		if !strings.Contains(said, want) {
			t.Errorf("no %q in\n%s", want, said)
		}
	}
	if len(r.said) > 17 {
		t.Errorf("%d lines", len(r.said))
	}
	for _, line := range r.said[3:] {
		if !strings.HasPrefix(line, "  ") {
			t.Errorf("%q", line)
		}
	}
	admin, err := client.New(r.admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := admin.Ready(t.Context(), "api"); err != nil || !h.Ready {
		t.Error(h, err)
	}
	runVerb(t, exitConflict, "stop that one, or choose another folder", "serve", "--data", r.data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	runVerb(t, exitUnavailable, "choose another address", "serve", "--data", filepath.Join(t.TempDir(), "d"), "--listen", strings.TrimPrefix(r.api, "http://"), "--set", "disk.floor=0")
	r.end()
	if text := r.log.String(); !strings.Contains(text, "stopping") || strings.Contains(text, "level=ERROR") {
		t.Error(text)
	}
}

func TestARequestInProgressFinishesWhenTheServerStops(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	r := startServer(t, data)
	token := strings.TrimSpace(r.run(exitOK, "", "token", "--user", "ana"))
	api, err := client.New(r.api, client.Options{Token: token, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	picture, err := demo.Picture()
	if err != nil {
		t.Fatal(err)
	}
	begun, rest := make(chan struct{}), make(chan struct{})
	var once sync.Once
	source := client.Source{Name: "slow.jpg", Size: -1, Open: func() (io.ReadCloser, error) {
		half := len(picture) / 2
		return io.NopCloser(io.MultiReader(bytes.NewReader(picture[:half]), waiting(rest), bytes.NewReader(picture[half:]))), nil
	}}
	type outcome struct {
		story wire.Story
		err   error
	}
	published := make(chan outcome, 1)
	go func() {
		story, err := api.Publish(t.Context(), client.Publication{
			Story: wire.NewStory{Audience: "everyone"}, Media: []client.Source{source},
			Progress: func(int, int64, int64) { once.Do(func() { close(begun) }) },
		})
		published <- outcome{story, err}
	}()
	<-begun // the server has asked for the body
	r.stop()
	r.awaitLog("stopping, finishing requests")
	// Until it takes no new connection; not for long, because a port that is free again may
	// be another process's a moment later.
	for range 100 {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.api, "http://"))
		if err != nil {
			break
		}
		_ = c.Close()
		time.Sleep(10 * time.Millisecond)
	}
	close(rest)
	got := <-published
	if got.err != nil {
		t.Fatalf("a request in progress failed: %v\n%s", got.err, r.log)
	}
	r.end()
	again := startServer(t, data)
	again.run(exitOK, got.story.ID.String(), "story", "open", got.story.ID.String(), "--server", again.api)
}

// answerOf sends a request on a new connection. It returns the status, whether the
// server closes the connection, and the body.
func (r *running) answerOf(url string) (status int, last bool, body string) {
	r.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	res, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		r.Fatalf("%s: %v\n%s", url, err, r.log)
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		r.Fatal(err)
	}
	return res.StatusCode, res.Close, string(text)
}

// awaitLog waits until the log contains a text.
func (r *running) awaitLog(want string) {
	r.Helper()
	for began := time.Now(); !strings.Contains(r.log.String(), want); time.Sleep(time.Millisecond) {
		if time.Since(began) > 30*time.Second {
			r.Fatalf("the log does not contain %q\n%s", want, r.log)
		}
	}
}

func TestAStoppingServerReportsNotReadyBeforeItRefusesRequests(t *testing.T) {
	r := startServer(t, filepath.Join(t.TempDir(), "data"), "--set", "listen.drain_after=10m")
	for _, url := range []string{r.api + "/readyz", r.admin + "/readyz"} {
		if status, last, body := r.answerOf(url); status != 200 || last {
			t.Errorf("%s: %d %t %s", url, status, last, body)
		}
	}
	r.stop()
	r.awaitLog("draining")
	for _, url := range []string{r.admin + "/readyz", r.admin + "/readyz?role=api", r.admin + "/readyz?role=walk"} {
		if status, _, body := r.answerOf(url); status != 503 || !strings.Contains(body, `"draining`) {
			t.Errorf("%s: %d %s", url, status, body)
		}
	}
	if status, last, body := r.answerOf(r.api + "/readyz"); status != 503 || !last || strings.TrimSpace(body) != `{"ready":false}` {
		t.Errorf("%d %t %s", status, last, body)
	}
	if status, last, body := r.answerOf(r.api + "/openapi.json"); status != 200 || !last {
		t.Errorf("requests are refused: %d %t %s", status, last, body)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil { // the second: it ends the wait, and nothing else
		t.Fatal(err)
	}
	r.end()
	if text := r.log.String(); !strings.Contains(text, "stopping, finishing requests") || strings.Contains(text, "level=ERROR") {
		t.Error(text)
	}
}

func TestAServerStopsAfterDrainAfterWithoutASecondSignal(t *testing.T) {
	r := startServer(t, filepath.Join(t.TempDir(), "data"), "--set", "listen.drain_after=300ms")
	began := time.Now()
	r.end()
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("it drained for %s", took)
	}
}

// waiting is a reader that blocks until the channel is closed.
type waiting <-chan struct{}

func (w waiting) Read([]byte) (int, error) {
	<-w
	return 0, io.EOF
}

func TestAFailedDiskHasItsOwnExitCode(t *testing.T) {
	err := errors.Join(mayfly.Wrap(mayfly.Unavailable, &store.FuseError{}, "look at the disk"), mayfly.Errorf(mayfly.Unavailable, "closed"))
	if !node.DiskFailed(err) || exitCode(err) != exitDisk {
		t.Errorf("exit code %d", exitCode(err))
	}
}
