package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// fastSettings are the product's windows with an hour written as a second. What
// is shorter than that in the product, such as how long a URL lasts, is given a
// time that a machine can keep.
const fastSettings = `
stories:
  lifetimes: [24s, 6s, 12s, 48s]
  live: 5
  urls: 4s
  archive_urls: 1s
pastes:
  anonymous: true
  shortest_lifetime: 1s
feed:
  shortest_lifetime: 1s
births:
  timeout: 800ms
  remind_after: 600ms
walk:
  interval: 50ms
  settle: 1s
  lateness: 100ms
ends:
  archive_after: 1500ms
  archive_lateness: 100ms
  reconcile: 5s
rates:
  writes: 0/1h
  reads: 0/1h
  address_reads: 0/1h
  address_writes: 0/1h
disk:
  floor: 64MiB
`

// Every golden story once more, played by the real binary over HTTP: all at
// once, each by people of its own.
func TestGoldenStoriesComeTrueInTheRealBinary(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the 50 seconds that 50 hours of stories are")
	}
	all := scripts(t)
	at := storetest.Address(t)
	s := startServer(t, fastSettings+"listen:\n  kv: "+at+"\n")
	s.redis = at
	b := &realtime{server: s, documents: s.readDocuments(), hour: time.Second}
	sum := b.playAll(t, b, all)
	t.Logf("%d golden stories in the real binary, in %s: %s", len(all), time.Since(b.begins.Time()).Round(time.Second), sum)
	if a, err := b.ask(request{method: http.MethodGet, target: "/metrics", admin: true}); err != nil || !contains(a, servedLate) {
		t.Errorf("served_after_deadline_total is not there, or not 0: %v", err)
	}
}

// playAll plays scripts side by side on a stage that b is, or is a part of.
func (b *realtime) playAll(t *testing.T, on stage, all []script) tally {
	b.first, b.begins = earliest(all), mayfly.InstantOf(time.Now().Add(200*time.Millisecond))
	counts := make([]tally, len(all))
	var playing sync.WaitGroup
	for i, script := range all {
		playing.Go(func() { counts[i] = newPlayer(t, on, script).play() })
	}
	playing.Wait()
	var sum tally
	for _, c := range counts {
		sum.add(c)
	}
	if sum.missed*10 >= sum.lines {
		t.Errorf("%d of %d lines were not asked in time: the machine is too slow to tell", sum.missed, sum.lines)
	}
	return sum
}

// realtime is the stage of the real binary, in real time.
type realtime struct {
	*server
	documents
	hour   time.Duration  // how long an hour of a script takes; six of them are whole seconds
	begins mayfly.Instant // when the first of the scripts does
	first  time.Duration  // and at what time of its day
}

// moving is how long a line waits for the archive at most: three hours of a script.
func (b *realtime) moving() time.Duration { return 3 * b.hour }

func (b *realtime) span(d time.Duration) time.Duration {
	return time.Duration(float64(d) / float64(time.Hour) * float64(b.hour)).Round(time.Millisecond)
}

// margin is how far from a mark what happens right before or at it is asked.
func (b *realtime) margin() time.Duration { return b.hour * 3 / 20 }

func (b *realtime) midnight() mayfly.Instant { return b.begins.Add(-b.span(b.first)) }

// lifetime is seconds for hours.
func (b *realtime) lifetime(word string) string {
	d, err := time.ParseDuration(word)
	if err != nil {
		return word // what is no lifetime stays none
	}
	return b.span(d).Truncate(time.Second).String()
}

func (b *realtime) urls(archived bool) time.Duration {
	if archived {
		return b.hour
	}
	return 4 * b.hour
}

// since keeps away from marks: what happens right before one is asked a margin
// before it, what happens at it a margin after it.
func (b *realtime) since(birth mayfly.Instant, after time.Duration) mayfly.Instant {
	mark := after.Round(time.Hour)
	switch away := after - mark; {
	case mark == 0 || away.Abs() > time.Second:
		return birth.Add(b.span(after))
	case away < 0:
		return birth.Add(b.span(mark) - b.margin())
	default:
		return birth.Add(b.span(mark) + b.margin())
	}
}

func (b *realtime) wait(planned mayfly.Instant) mayfly.Instant {
	time.Sleep(time.Until(planned.Time()))
	return mayfly.InstantOf(time.Now())
}

// late says whether a line was asked later than planned, or so near before a
// mark answered that it had passed: what must come then cannot be said.
func (b *realtime) late(after time.Duration, planned mayfly.Instant, a answer) bool {
	before := after.Round(time.Hour) > after
	return a.began.Sub(planned) > b.margin()*2/3 || before && a.ended.Sub(planned) > b.margin()
}

// listens leaves a busy machine some time; it ends before the next line of a script.
func (b *realtime) listens() time.Duration { return 2 * time.Second }

func (b *realtime) ask(r request) (answer, error) {
	began := mayfly.InstantOf(time.Now())
	if r.command != "" {
		return b.command(r, began)
	}
	a, err := b.send(context.Background(), r)
	a.began, a.ended = began, mayfly.InstantOf(time.Now())
	if err != nil {
		return a, err
	}
	if r.listen > 0 {
		a.ended = began // whether it came too late is a question of its beginning
	}
	if err := b.documented(r, a); err != nil {
		return a, fmt.Errorf("%s %s: the answer is not as the document says: %w", r.method, r.target, err)
	}
	if a.status >= http.StatusInternalServerError {
		return a, fmt.Errorf("%s %s: %d %s", r.method, r.target, a.status, excerpt(a.body))
	}
	return a, nil
}

// command sends a command over a connection of its own.
func (b *realtime) command(r request, began mayfly.Instant) (answer, error) {
	a := answer{began: began}
	client, err := net.Dial("tcp", b.redis)
	if err != nil {
		return a, err
	}
	a.body, err = r.converse(client)
	a.ended = mayfly.InstantOf(time.Now())
	return a, err
}

// bearer is a token by the key of the server's own folder.
func (b *realtime) bearer(user, scope string) (string, error) {
	g := account.Grant{Issuer: issuer, Audience: issuer, Scopes: []account.Scope{account.Scope(scope)}, Subject: scope, Lasts: time.Hour}
	if user != "" {
		g.User, g.Subject = mayfly.HomeUserOf(issuer, user), user
		if scope != "user" {
			g.Scopes = append(g.Scopes, account.User)
		}
	}
	token, err := b.key.Mint(g, mayfly.InstantOf(time.Now()))
	return string(token), err
}

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
	redis      string // host:port; empty if nothing listens there
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
	if r.listen > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.listen)
		defer cancel()
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
	if r.listen > 0 && errors.Is(err, context.DeadlineExceeded) {
		err = nil // what has come of the stream
	}
	return answer{status: res.StatusCode, header: res.Header, body: body}, err
}
