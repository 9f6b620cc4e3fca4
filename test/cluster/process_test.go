//go:build servers

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// process is a real mayfly, `serve` on the servers of the cluster. Its addresses stay the
// same over restarts.
type process struct {
	*testCluster
	name       string
	api, admin string // URLs
	sets       map[string]string
	cmd        *exec.Cmd
	ended      chan error
	log        *lines
}

// start starts a node and waits until it is ready.
func (w *testCluster) start(name string, sets map[string]string) *process {
	w.Helper()
	p := &process{testCluster: w, name: name, api: "http://" + storetest.Address(w), admin: "http://" + storetest.Address(w), sets: sets, log: &lines{}}
	w.mu.Lock()
	w.nodes = append(w.nodes, p)
	w.mu.Unlock()
	w.Cleanup(func() {
		p.end()
		if w.Failed() {
			w.Logf("the end of the log of %s:\n%s", name, p.log.tail(4000))
			p.keep()
		}
	})
	p.begin()
	p.awaitReady(time.Minute)
	return p
}

// keep leaves the log of a test that failed for people to look at, in the folder
// that MAYFLY_KEEP names.
func (p *process) keep() {
	if folder := os.Getenv("MAYFLY_KEEP"); folder != "" {
		name := filepath.Join(folder, fmt.Sprintf("%s-%s.log", p.Name(), p.name))
		if err := os.WriteFile(name, []byte(p.log.tail(1<<30)), 0o600); err != nil {
			p.Log(err)
		}
	}
}

// begin starts the process, for the first time or again, and does not wait.
func (p *process) begin() {
	p.Helper()
	path, err := binary()
	if err != nil {
		p.Fatal(err)
	}
	args := []string{
		"serve", "--config", p.file, "--data", filepath.Join(p.folder, "data-"+p.name), "--log-level", "info",
		"--listen", strings.TrimPrefix(p.api, "http://"), "--admin", strings.TrimPrefix(p.admin, "http://"), "--set", "node=" + p.name,
	}
	for _, from := range []map[string]string{p.testCluster.sets, p.sets} {
		for k, v := range from {
			args = append(args, "--set", k+"="+v)
		}
	}
	p.cmd = exec.Command(path, args...)
	p.cmd.Dir, p.cmd.Stderr, p.cmd.Stdout = p.folder, p.log, io.Discard
	p.cmd.Env = ownEnviron()
	if err := p.cmd.Start(); err != nil {
		p.Fatal(err)
	}
	ended, cmd := make(chan error, 1), p.cmd
	p.ended = ended
	go func() { ended <- cmd.Wait() }()
}

// ownEnviron is the environment without what is for the tests: to the program it
// would be settings.
func ownEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAYFLY_") })
}

// awaitReady waits until it says that it is ready for users, or to walk if it does
// nothing else, and says how long that took.
func (p *process) awaitReady(within time.Duration) time.Duration {
	p.Helper()
	role := "api"
	if p.sets["roles"] == "walk" {
		role = "walk"
	}
	return eventually(p, within, p.name+" is ready", func() bool {
		ready := p.ready(role)
		select {
		case err := <-p.ended: // another process answered
			p.ended <- err
			p.Fatalf("%s ended: %v\n%s", p.name, err, p.log.tail(4000))
		default:
		}
		return ready
	})
}

// ready says whether it is ready for a role.
func (p *process) ready(role string) bool {
	return p.answers(p.admin+"/readyz?role="+role, 3*time.Second)
}

// balances tells what a load balancer goes by, whether the public listener is ready, if
// it was ready before: at once by an answer or by none that can come. A node may take
// two seconds to judge its ledger, and a look that lasts longer than one tells nothing.
func (p *process) balances(before bool) bool {
	status, err := p.status(p.api+"/readyz", time.Second)
	if errors.Is(err, context.DeadlineExceeded) {
		return before
	}
	return err == nil && status == http.StatusOK
}

// answers says whether a URL answers with 200 in time.
func (p *process) answers(url string, within time.Duration) bool {
	status, err := p.status(url, within)
	return err == nil && status == http.StatusOK
}

// status is what a URL answers in time.
func (p *process) status(url string, within time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	res, err := p.http.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return res.StatusCode, errors.Join(err, res.Body.Close())
}

func (p *process) signal(s os.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatalf("%s: %v", p.name, err)
	}
}

// kill ends it with SIGKILL.
func (p *process) kill() {
	p.Helper()
	p.signal(syscall.SIGKILL)
	p.ended <- <-p.ended
}

// stop ends it as an operator does, and wants it to end well. It says how long that took.
func (p *process) stop() time.Duration {
	p.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	select {
	case err := <-p.ended:
		p.ended <- err
		if err != nil {
			p.Errorf("%s ended with %v", p.name, err)
		}
	case <-time.After(45 * time.Second):
		p.Errorf("%s does not end", p.name)
		p.kill()
	}
	return time.Since(began)
}

// end is for the end of a test: frozen or not, it goes.
func (p *process) end() {
	if p.cmd == nil {
		return
	}
	select {
	case err := <-p.ended:
		p.ended <- err
	default:
		_ = p.cmd.Process.Kill() // it may have ended meanwhile
		p.ended <- <-p.ended
	}
}

// stopAll stops the nodes that still run.
func (w *testCluster) stopAll() {
	w.Helper()
	for _, p := range w.nodes {
		select {
		case err := <-p.ended:
			p.ended <- err
		default:
			p.stop()
		}
	}
}

// lines is a log of which the end is shown.
type lines struct{ storetest.LogBuffer }

func (l *lines) tail(n int) string {
	text := l.String()
	return text[max(0, len(text)-n):]
}

// held are the shards that it walks, by its own word.
func (p *process) held() map[mayfly.Shard]bool {
	held := map[mayfly.Shard]bool{}
	for _, found := range regexp.MustCompile(`(?m)^mayfly_walk_lag_seconds\{shard="(\d+)",walk="sweep"\}`).FindAllStringSubmatch(p.metrics(), -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			p.Fatal(err)
		}
		held[mayfly.Shard(n)] = true
	}
	return held
}

// metrics is the page of its metrics; empty if it does not answer.
func (p *process) metrics() string {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.admin+"/metrics", nil)
	if err != nil {
		return ""
	}
	res, err := p.http.Do(req)
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return ""
	}
	return string(text)
}

// parked is how many items its walks have left to a reminder.
func (p *process) parked() int { return p.sum("mayfly_walk_parked_total") }

// acted is how many items its walks have acted on.
func (p *process) acted() int { return p.sum("mayfly_walk_items_total") }

// sum is a counter of its metrics, over all labels.
func (p *process) sum(counter string) (n int) {
	for _, found := range regexp.MustCompile(`(?m)^`+counter+`\{.*\} (\d+)$`).FindAllStringSubmatch(p.metrics(), -1) {
		count, err := strconv.Atoi(found[1])
		if err != nil {
			p.Fatal(err)
		}
		n += count
	}
	return n
}
