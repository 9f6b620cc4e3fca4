package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store/storetest"
)

const (
	restarts     = 5
	restartReady = 2 * time.Second // how soon a server is ready
	restartEach  = 200             // stories published and read between two stops, at least
)

const restartSettings = `
stories:
  live: 10000
rates:
  writes: 0/1h
  reads: 0/1h
  address_reads: 0/1h
  address_writes: 0/1h
disk:
  floor: 64MiB
`

// The real binary is stopped and started under load, on one folder: what was
// acknowledged is there, what is under way finishes, and it is ready soon.
func TestStopAndStartUnderLoadLoseNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the real binary six times, under load")
	}
	s := newRestarted(t)
	starts := []time.Duration{s.start()}
	load := newRestartLoad(s)
	finish := load.begin()
	for range restarts {
		load.goOn(restartEach)
		upload, download := load.slowUpload(), load.slowDownload()
		s.terminate()
		s.awaitRefusal() // it has heard the signal, and both are under way
		upload.finish()
		download.finish()
		s.awaitEnd()
		starts = append(starts, s.start())
	}
	load.goOn(restartEach)
	finish()
	read := load.readAll()
	s.terminate()
	s.awaitEnd()
	raced := load.judge()
	s.verify()

	name := "restart under load"
	storetest.Proof(t, name, "stops and starts", restarts)
	storetest.Proof(t, name, "stories acknowledged, all readable afterwards", fmt.Sprintf("%d, %d read", len(load.acked), read))
	storetest.Proof(t, name, "reads answered meanwhile", load.reads)
	storetest.Proof(t, name, "slow uploads and downloads under way at a stop, all finished", 2*restarts)
	storetest.Proof(t, name, "requests without an answer", fmt.Sprintf("%d not taken, %d lost with an idle connection", len(load.unanswered)-raced, raced))
	slices.Sort(starts)
	storetest.Proof(t, name, "ready after, most of the time and at most", fmt.Sprint(starts[len(starts)/2].Round(time.Millisecond), ", ", starts[len(starts)-1].Round(time.Millisecond)))
	if starts[len(starts)/2] >= restartReady { // a busy machine may hold one of them up
		t.Errorf("ready only after %s", starts)
	}
}

// restarted is the real binary on one folder and one pair of ports, again and again.
type restarted struct {
	*testing.T
	binary, folder string
	api, admin     string // addresses
	key            *account.Key
	process        *exec.Cmd
	log            *bytes.Buffer
	handled        map[string]int    // how often the logs name a request
	failed         map[string]string // lines that say a request failed on the server's side, by request
}

func newRestarted(t *testing.T) *restarted {
	t.Helper()
	binary, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	s := &restarted{T: t, binary: binary, folder: t.TempDir(), handled: map[string]int{}, failed: map[string]string{}}
	s.api, s.admin = storetest.Address(t), storetest.Address(t)
	if err := os.WriteFile(filepath.Join(s.folder, "mayfly.yaml"), []byte(restartSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if s.process != nil && s.process.ProcessState == nil {
			_ = s.process.Process.Kill() // a test that failed in between
			_ = s.process.Wait()
		}
		if t.Failed() {
			text := s.log.String()
			t.Logf("the end of the last log:\n%s", text[max(0, len(text)-2000):])
		}
	})
	return s
}

// start starts the binary and says how long it took until it was ready.
func (s *restarted) start() time.Duration {
	s.Helper()
	s.log = &bytes.Buffer{}
	s.process = exec.Command(s.binary, "serve", "--config", "mayfly.yaml", "--data", "data", "--listen", s.api, "--admin", s.admin, "--log-level", "debug")
	s.process.Dir, s.process.Stderr = s.folder, s.log
	began := time.Now()
	if err := s.process.Start(); err != nil {
		s.Fatal(err)
	}
	for !s.isReady() {
		if time.Since(began) > 10*restartReady {
			s.Fatal("it does not become ready")
		}
		time.Sleep(2 * time.Millisecond)
	}
	took := time.Since(began)
	if s.key == nil {
		var err error
		if s.key, err = account.LoadKey(filepath.Join(s.folder, "data", "key")); err != nil {
			s.Fatal(err)
		}
	}
	return took
}

func (s *restarted) isReady() bool {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Second}
	res, err := client.Get("http://" + s.admin + "/readyz?role=api")
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close()) == nil && res.StatusCode == http.StatusOK
}

func (s *restarted) terminate() {
	s.Helper()
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		s.Fatal(err)
	}
}

// awaitRefusal waits until no new connection is taken.
func (s *restarted) awaitRefusal() {
	s.Helper()
	for began := time.Now(); ; {
		conn, err := net.Dial("tcp", s.api)
		if err != nil {
			return
		}
		_ = conn.Close() // nothing was sent
		if time.Since(began) > time.Minute {
			s.Fatal("a server that is stopping accepts connections")
		}
		time.Sleep(time.Millisecond)
	}
}

// awaitEnd wants the process to end well, and reads its log.
func (s *restarted) awaitEnd() {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			_ = s.process.Process.Kill() // Wait tells of it
		}
	})()
	if err := s.process.Wait(); err != nil {
		s.Fatalf("it ended with %v", err)
	}
	request := regexp.MustCompile(` msg=request .* request=(\S+)`)
	for line := range strings.Lines(s.log.String()) {
		wrong := strings.Contains(line, "level=ERROR") || strings.Contains(line, "broken off")
		switch found := request.FindStringSubmatch(line); {
		case found != nil && wrong:
			s.failed[found[1]] = line
			s.handled[found[1]]++
		case found != nil:
			s.handled[found[1]]++
		case wrong:
			s.Errorf("it logged %s", line)
		}
	}
}

// verify lets the binary verify the folder that the servers left.
func (s *restarted) verify() {
	s.Helper()
	verify := exec.Command(s.binary, "verify", "--config", "mayfly.yaml", "--data", "data")
	verify.Dir = s.folder
	if out, err := verify.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("LOST 0  RESURRECTED 0  EARLY 0  LATE 0  LEAK 0  DOUBLE 0  ORPHAN 0")) {
		s.Errorf("mayfly verify: %v\n%s", err, out)
	}
}

// restartSlow is a request that is under way when the server gets the signal to stop.
type restartSlow struct {
	rest chan struct{} // closed: it may go on
	done chan error
	load *restartLoad
	what string
}

func (s *restartSlow) finish() {
	s.load.Helper()
	close(s.rest)
	if err := <-s.done; err != nil {
		s.load.Errorf("a slow %s that was under way did not finish: %v", s.what, err)
	}
}

// slowUpload begins to publish a story; the server has asked for its body, and
// has half of it.
func (l *restartLoad) slowUpload() *restartSlow {
	l.Helper()
	s := &restartSlow{rest: make(chan struct{}), done: make(chan error, 1), load: l, what: "upload"}
	form, typ := restartForm(picture("slow", rand.IntN(1<<30)))
	half := &restartHalf{Reader: bytes.NewReader(form[:len(form)/2]), read: make(chan struct{}), rest: s.rest, second: bytes.NewReader(form[len(form)/2:])}
	asked := make(chan struct{})
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{Got100Continue: func() { close(asked) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+l.api+"/v1/stories", half)
	if err != nil {
		l.Fatal(err)
	}
	req.Header.Set("Content-Type", typ)
	req.Header.Set("Authorization", "Bearer "+l.tokens[0])
	req.Header.Set("Expect", "100-continue")
	client := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: restartReady * 10}}
	go func() {
		status, body, err := answerOf(client.Do(req))
		if err == nil && status != http.StatusCreated {
			err = fmt.Errorf("%d %s", status, excerpt(body))
		}
		if err == nil {
			l.acknowledged(0, body)
		}
		s.done <- err
	}()
	for _, begun := range []chan struct{}{asked, half.read} {
		select {
		case <-begun:
		case err := <-s.done:
			l.Fatalf("a slow upload did not begin: %v", err)
		}
	}
	return s
}

func answerOf(res *http.Response, err error) (int, []byte, error) {
	if err != nil {
		return 0, nil, err
	}
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, body, errors.Join(err, res.Body.Close())
}

// restartHalf is a body whose second half comes when it may.
type restartHalf struct {
	io.Reader
	once   sync.Once
	read   chan struct{} // closed when the first half has gone
	rest   chan struct{}
	second io.Reader
}

func (h *restartHalf) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 || !errors.Is(err, io.EOF) {
		return n, err
	}
	h.once.Do(func() { close(h.read) })
	<-h.rest
	return h.second.Read(p)
}

// slowDownload begins to read a medium that is larger than what lies in sockets.
func (l *restartLoad) slowDownload() *restartSlow {
	l.Helper()
	s := &restartSlow{rest: make(chan struct{}), done: make(chan error, 1), load: l, what: "download"}
	medium := l.publishLarge()
	narrow := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 16<<10)
		})
		return errors.Join(err, failed)
	}}
	client := &http.Client{Transport: &http.Transport{DialContext: narrow.DialContext}}
	res, err := client.Get("http://" + l.api + medium.URL)
	if err != nil {
		l.Fatal(err)
	}
	hash := sha256.New()
	if _, err := io.CopyN(hash, res.Body, 4<<10); err != nil {
		l.Fatal(err)
	}
	go func() {
		<-s.rest
		_, err := io.Copy(hash, res.Body)
		err = errors.Join(err, res.Body.Close())
		if got := hex.EncodeToString(hash.Sum(nil)); err == nil && got != medium.SHA256 {
			err = fmt.Errorf("%s came instead of %s", got, medium.SHA256)
		}
		s.done <- err
	}()
	return s
}

// largePicture returns a picture of some megabytes.
func largePicture() []byte {
	const side = 2400
	noise := image.NewGray(image.Rect(0, 0, side, side))
	for i := range noise.Pix {
		noise.Pix[i] = byte(rand.Uint32())
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.NoCompression}).Encode(&out, noise); err != nil {
		panic(err) // into memory
	}
	return out.Bytes()
}

// publishLarge publishes a picture of some megabytes, and says where it is.
func (l *restartLoad) publishLarge() wire.Medium {
	l.Helper()
	form, typ := restartForm(largePicture())
	req, err := http.NewRequest(http.MethodPost, "http://"+l.api+"/v1/stories", bytes.NewReader(form))
	if err != nil {
		l.Fatal(err)
	}
	req.Header.Set("Content-Type", typ)
	req.Header.Set("Authorization", "Bearer "+l.tokens[0])
	status, body, err := answerOf(http.DefaultClient.Do(req))
	var story wire.Story
	if err == nil {
		err = json.Unmarshal(body, &story)
	}
	if err != nil || status != http.StatusCreated || len(story.Media) != 1 {
		l.Fatalf("publish a large medium: %d %v %s", status, err, excerpt(body))
	}
	l.acknowledged(0, body)
	return story.Media[0]
}
