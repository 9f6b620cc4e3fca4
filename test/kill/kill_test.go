package kill

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// The least that a run has to show for its zeros to mean something.
const (
	leastAcknowledged = 1_000 // a disk that syncs slowly gets more kills until then
	leastRead         = 100   // items whose bytes are held against their birth at the end
	atMost            = 5 * time.Minute
)

// A process that runs the engine as the product does is killed with SIGKILL again and again while it publishes,
// reads, deletes, restores, holds and releases; each life goes on where the one
// before was broken off. What it acknowledged is there, what it did not may have
// happened or not (I2, I3, I7, I13, I21).
func TestWhatWasAcknowledgedSurvivesKills(t *testing.T) {
	pace.Slow(t, "kills processes for a minute")
	kills := 20
	if os.Getenv("MAYFLY_LONG") != "" {
		kills = 200
	}
	k := newKiller(t)
	began := time.Now()
	for (k.kills < kills || k.expected.acknowledged < leastAcknowledged && time.Since(began) < atMost) && k.idle <= max(k.kills, kills)/2 {
		if k.rand.IntN(4) == 0 {
			k.killAtStart(t)
		}
		k.live(t)
	}
	lived := time.Since(began)
	k.inspect(t)
	a := k.audit(t)

	name := "kill -9"
	storetest.Proof(t, name, "kills with operations in flight", fmt.Sprintf("%d in %s; besides %d while starting, %d between operations", k.kills, lived.Round(time.Second), k.atStart, k.idle))
	storetest.Proof(t, name, "operations in flight at the kills", k.expected.flight())
	storetest.Proof(t, name, "acknowledgements", fmt.Sprintf("%d (%d refused, %d failed)", k.expected.acknowledged, k.expected.refused, k.expected.failed))
	storetest.Proof(t, name, "items read right behind kills", k.inspected)
	storetest.Proof(t, name, "at the end", a.String())
	storetest.Proof(t, name, "verdict", &k.expected.count)
	for _, why := range k.expected.why {
		t.Logf("failed: %s", why)
	}
	for _, fault := range k.expected.count.Faults() {
		t.Error(fault)
	}
	if k.kills < kills {
		t.Errorf("%d kills met operations in flight, and %d did not", k.kills, k.idle)
	}
	if k.expected.acknowledged < leastAcknowledged {
		t.Errorf("%d acknowledgements are too few", k.expected.acknowledged)
	}
	if a.read < leastRead || a.held == 0 || a.erased < leastRead {
		t.Errorf("too little was left to look at: %s", a)
	}
	if t.Failed() {
		k.keep(t)
		return
	}
	a.seesWhatIsPlanted(t)
}

// killer starts workers on one folder and kills them.
type killer struct {
	binary, data string
	seed         uint64
	rand         *rand.Rand
	expected     *expected
	kills        int // with operations in flight
	idle         int // without
	atStart      int
	inspected    int           // items read right behind kills
	startUp      time.Duration // how long the last start took
	lives        uint64
}

func newKiller(t *testing.T) *killer {
	t.Helper()
	seed := rand.Uint64()
	if text := os.Getenv("MAYFLY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("MAYFLY_SEED: %v", err)
		}
	}
	t.Logf("MAYFLY_SEED=%d", seed)
	folder := t.TempDir()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &killer{
		binary: binary, data: filepath.Join(folder, "data"), seed: seed, rand: rand.New(rand.NewPCG(seed, 0)),
		expected: newExpected(), startUp: 300 * time.Millisecond,
	}
}

// killedLife is one worker.
type killedLife struct {
	cmd     *exec.Cmd
	errs    bytes.Buffer
	working chan struct{} // closed at its first answer
	silent  chan error    // its output has ended
	aimed   atomic.Bool   // tell of the next intent
	begins  chan struct{} // an operation begins
}

// maxKnown is the number of young items, and of old ones, that a worker starts with.
const maxKnown = 250

func (k *killer) start(t *testing.T) *killedLife {
	t.Helper()
	known, err := k.expected.known(maxKnown)
	if err != nil {
		t.Fatal(err)
	}
	k.lives++
	l := &killedLife{working: make(chan struct{}), silent: make(chan error, 1), begins: make(chan struct{}, 1)}
	l.cmd = exec.Command(k.binary, "-data", k.data, "-seed", strconv.FormatUint(k.seed+k.lives, 10))
	l.cmd.Env = append(os.Environ(), asWorker+"=1")
	l.cmd.Stderr = &l.errs
	in, err := l.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // its input stays open: it is not to stop by itself
		_, _ = io.WriteString(in, strings.Join(append(known, "", ""), "\n"))
	}()
	go func() { l.silent <- k.listen(out, l) }()
	return l
}

// listen passes every line to the expected state until the worker is dead.
func (k *killer) listen(out io.Reader, l *killedLife) error {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for first := true; lines.Scan(); {
		if err := k.expected.line(lines.Bytes()); err != nil {
			return err
		}
		answer := bytes.HasPrefix(lines.Bytes(), []byte(`{"answer"`))
		if first && answer {
			first = false
			close(l.working)
		}
		if !answer && l.aimed.CompareAndSwap(true, false) {
			l.begins <- struct{}{}
		}
	}
	return lines.Err()
}

// kill ends the worker, which must not have ended by itself.
func (k *killer) kill(t *testing.T, l *killedLife) (inFlight int) {
	t.Helper()
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill: %v\n%s", err, &l.errs)
	}
	if err := <-l.silent; err != nil {
		t.Fatalf("its output: %v", err)
	}
	if _ = l.cmd.Wait(); l.cmd.ProcessState.Exited() {
		t.Fatalf("MAYFLY_SEED=%d: a worker ended by itself: %s\n%s", k.seed, l.cmd.ProcessState, &l.errs)
	}
	return k.expected.killed()
}

// live lets a worker work for a while and kills it in the middle.
func (k *killer) live(t *testing.T) {
	t.Helper()
	l, began := k.start(t), time.Now()
	select {
	case <-l.working:
	case err := <-l.silent:
		_ = l.cmd.Wait()
		t.Fatalf("MAYFLY_SEED=%d: a worker ended before it began: %v, %s\n%s", k.seed, err, l.cmd.ProcessState, &l.errs)
	case <-time.After(2 * time.Minute):
		t.Fatalf("MAYFLY_SEED=%d: a worker does not begin: %d\n%s", k.seed, k.kill(t, l), &l.errs)
	}
	k.startUp = time.Since(began)
	part := k.rand.Float64() // squared: the first moments, when the walks catch up, meet more kills
	time.Sleep(time.Duration(part * part * float64(1800*time.Millisecond)))
	if k.rand.IntN(3) > 0 {
		k.aim(l)
	}
	if k.kill(t, l) == 0 {
		k.idle++
	} else {
		k.kills++
	}
	if k.rand.IntN(2) == 0 { // not always: the next worker is to find the folder as the kill left it
		k.inspect(t)
	}
}

// aim waits for the beginning of an operation, and then for as long as some part
// of it takes: the disk is so fast that few are in flight at most moments.
func (k *killer) aim(l *killedLife) {
	l.aimed.Store(true)
	select {
	case <-l.begins:
		time.Sleep(time.Duration(k.rand.Int64N(int64(3 * time.Millisecond))))
	case <-time.After(time.Second):
	}
}

// killAtStart kills a worker while it opens its folder and takes up what the one
// before left.
func (k *killer) killAtStart(t *testing.T) {
	t.Helper()
	l := k.start(t)
	time.Sleep(time.Duration(k.rand.Int64N(int64(k.startUp))))
	k.kill(t, l)
	k.atStart++
}

// keep leaves the folder of a run that failed for people to look at.
func (k *killer) keep(t *testing.T) {
	t.Helper()
	if folder := os.Getenv("MAYFLY_KEEP"); folder != "" {
		if err := os.CopyFS(filepath.Join(folder, strconv.FormatUint(k.seed, 10)), os.DirFS(filepath.Dir(k.data))); err != nil {
			t.Log(err)
		}
	}
	t.Logf("MAYFLY_SEED=%d (what happens depends on the moment of each kill, too); MAYFLY_KEEP=folder keeps the data", k.seed)
}
