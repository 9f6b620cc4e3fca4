//go:build servers

package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// The broker is killed with -9 and comes back, under load: meanwhile a birth is
// acknowledged behind a durable reminder or refused before, never lost, and a node
// starts that has never met the broker. A consumer is killed between its effect and
// its commit, and its group is moved back: effects are there once (I13).
func TestABrokerAndAConsumerKilledLoseNothing(t *testing.T) {
	t.Parallel()
	const proof = "broker and consumer killed"
	r := seeded(t)
	w := reusedCluster(t, servers(t).beside(t, "kafka"))
	a, b := w.start("a", nil), w.start("b", nil)
	e := errand{Brokers: strings.Split(w.servers.env["KAFKA"], ","), Prefix: w.name, Folder: t.TempDir(), Hang: 30}
	first := w.consumer(e)
	l := w.begin(loadOptions{
		seed: r.Uint64(), writers: 4, readers: 2, lifetimes: []string{"4s", "6s"}, pause: unhurried, patience: time.Minute, nodes: []*process{a, b},
	})
	l.goOn(100, 100, 2*time.Minute)
	before := first.awaitHang(time.Minute)
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	e.Hang = 0
	second := w.consumer(e)
	l.goOn(50, 50, time.Minute)

	w.servers.kill(t, "kafka", 1)
	killed := time.Now()
	acks := func() int { n, _ := w.record.figures(); return n }
	w.record.mu.Lock()
	refused := w.record.refused["503"]
	w.record.mu.Unlock()
	acked := acks()
	w.askAll(40, a, b)
	w.askAll(10, w.start("c", nil)) // it starts without
	time.Sleep(time.Until(killed.Add(pick(6*time.Second, 30*time.Second))))
	acked = acks() - acked
	w.record.mu.Lock()
	refused = w.record.refused["503"] - refused
	w.record.mu.Unlock()
	w.servers.start(t, "kafka", 1)
	away := time.Since(killed)
	l.goOn(100, 100, 2*time.Minute)
	l.finish()
	answers, births := clone(w.record.answers), clone(w.record.refused)
	end := w.audit()
	end.close(proof)
	onlyAnswers(t, "reads", answers, "2xx", "404", "410")
	onlyAnswers(t, "births", births, "503", "410") // 410: with the same key, after its deadline
	storetest.Proof(t, proof, "the broker was away for", away.Round(time.Millisecond))
	storetest.Proof(t, proof, "births acknowledged and refused with 503 without it", fmt.Sprintf("%d, %d", acked, refused))
	if acked < 20 || acked+refused < 40 { // behind reminders, or refused
		t.Errorf("%d births acknowledged and %d refused tell nothing", acked, refused)
	}
	w.judgeEffects(proof, e.Folder, before, end.events)
	w.judgeReplay(proof, second, e, end.events)
}

// judgeEffects wants the effect of every event that ended a story, once.
func (w *testCluster) judgeEffects(proof, folder string, before int, e *events) {
	w.Helper()
	missing := map[string]bool{}
	eventually(w, 30*time.Second, "every event has had its effect", func() bool {
		clear(missing)
		for k := range e.all {
			if k.Verb == mayfly.WasCreated {
				continue
			}
			name := fmt.Sprintf("%s-%d-%d", k.ID, k.Generation, k.Verb)
			if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
				missing[name] = true
			}
		}
		return len(missing) == 0
	})
	again, err := os.ReadFile(filepath.Join(folder, "again"))
	if err != nil {
		w.Errorf("nothing was delivered again, though a consumer died before its commit: %v", err)
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		w.Fatal(err)
	}
	storetest.Proof(w, proof, "effects, once by key; made right before the death; delivered again", fmt.Sprintf("%d, %d, %d", len(files)-1, before, len(again)))
	if before == 0 || len(again) < before {
		w.Errorf("%d effects were not committed, and %d events came again", before, len(again))
	}
}

// consumer is a process that reads the log and can be killed.
type consumer struct {
	*testCluster
	cmd *exec.Cmd
	out *bufio.Reader
}

func (w *testCluster) consumer(e errand) *consumer {
	w.Helper()
	text, err := json.Marshal(e)
	if err != nil {
		w.Fatal(err)
	}
	c := &consumer{testCluster: w, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), mortalConsumer+"="+string(text))
	c.cmd.Stderr = w.Output()
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		w.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		_ = c.cmd.Process.Kill() // it may be dead
		_ = c.cmd.Wait()
	})
	return c
}

// awaitHang waits until it stands between effect and commit, and says how many
// effects are not committed.
func (c *consumer) awaitHang(within time.Duration) (effects int) {
	c.Helper()
	said := make(chan error, 1)
	go func() {
		line, err := c.out.ReadString('\n')
		if err == nil {
			_, err = fmt.Sscanf(line, "between effect and commit: %d", &effects)
		}
		said <- err
	}()
	select {
	case err := <-said:
		if err != nil {
			c.Fatal(err)
		}
	case <-time.After(within):
		c.Fatal("the consumer does not come between effect and commit")
	}
	return effects
}
