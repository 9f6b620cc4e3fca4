package e2e

import (
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
	"strings"
	"syscall"
	"testing"
	"time"

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
	worst := s.start()
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
		worst = max(worst, s.start())
	}
	load.goOn(restartEach)
	finish()
	read := load.readAll()
	s.terminate()
	s.awaitEnd()
	raced := load.judge()

	name := "restart under load"
	storetest.Proof(t, name, "stops and starts", restarts)
	storetest.Proof(t, name, "stories acknowledged, all readable afterwards", fmt.Sprintf("%d, %d read", len(load.acked), read))
	storetest.Proof(t, name, "reads answered meanwhile", load.reads)
	storetest.Proof(t, name, "slow uploads and downloads under way at a stop, all finished", 2*restarts)
	storetest.Proof(t, name, "requests without an answer", fmt.Sprintf("%d not taken, %d lost with an idle connection", len(load.unanswered)-raced, raced))
	storetest.Proof(t, name, "ready after, at most", worst.Round(time.Millisecond))
	if worst >= restartReady {
		t.Errorf("ready only after %s", worst)
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
		if time.Since(began) > 10*time.Second {
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
