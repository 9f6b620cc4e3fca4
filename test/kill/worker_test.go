package kill

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
)

// asWorker names the environment variable that makes the test binary a worker: the
// process that the kill tests start and kill.
const asWorker = "MAYFLY_TEST_WORKER"

func TestMain(m *testing.M) {
	if data := os.Getenv(asPaster); data != "" {
		seed, err := strconv.ParseUint(os.Args[1], 10, 64)
		fmt.Fprintln(os.Stderr, errors.Join(err, pasteAndDie(data, seed)))
		os.Exit(1)
	}
	if os.Getenv(asWorker) == "" {
		os.Exit(m.Run())
	}
	var w worker
	flags := flag.NewFlagSet("worker", flag.ExitOnError)
	flags.StringVar(&w.data, "data", "", "the data folder (required)")
	flags.Uint64Var(&w.seed, "seed", 1, "of the operations")
	flags.IntVar(&w.hands, "hands", 16, "how many operations run at once")
	_ = flags.Parse(os.Args[1:]) // exits on an error
	if err := w.run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// worker publishes, reads, deletes, restores, holds and releases at random, with
// lifetimes of seconds. It writes a line of JSON before each operation and one
// after it. It reads what it knows from its input up to an empty line, and stops
// in order when its input ends. It refuses a folder that is not its own: with its
// windows all items are erased within a minute.
type worker struct {
	data  string
	seed  uint64
	hands int

	node  *node.Node
	known *workerItems
	next  atomic.Int64 // number of the last operation

	mu  sync.Mutex // of out: one line, one write
	out io.Writer
}

// The windows of a worker: a whole life in seconds.
const (
	workerRetire    = 20 * time.Second
	workerTombstone = 5 * time.Second
	workerSlack     = 2 * time.Second // of the tidy walk
	workerRestore   = time.Second     // how long a restore may take
)

// workerConfig is the configuration of a worker in data.
func workerConfig(data string) config.Config {
	c := config.Default()
	c.Data = data
	c.Births = config.Births{Timeout: 400 * time.Millisecond, KeepKeys: 10 * time.Minute, RemindAfter: 600 * time.Millisecond}
	c.Walk.Cadence, c.Walk.Settle = 50*time.Millisecond, time.Second
	c.Walk.Lateness, c.Walk.Lease = 500*time.Millisecond, 100*time.Millisecond // the next life walks at once
	c.Ends.Reconcile, c.Ends.ReconcileLate = 4*time.Second, 10*time.Second
	c.Ends.ArchiveAfter, c.Ends.ArchiveLateness = time.Second, 500*time.Millisecond
	c.Ends.RetireAfter, c.Ends.Tombstone = workerRetire, workerTombstone
	c.Retry.Longest = 5 * time.Second
	c.Disk.Floor, c.Disk.ReclaimEvery, c.Disk.ReclaimMediaEvery = 0, 2*time.Second, 3*time.Second
	return c
}

// workerOptions are the windows that a configuration does not have.
func workerOptions(c config.Config) node.Options {
	o := node.FromConfig(c)
	o.Restore.Timeout, o.Tombstones.Slack = workerRestore, workerSlack
	o.Walk.Unpaced = true // so that most kills meet a walk in the middle of something
	o.Reconcile.Grace, o.Reconcile.Stuck = 3*time.Second, 3*time.Second
	return o
}

func (w *worker) run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	if err := takeWorkerFolder(w.data); err != nil {
		return err
	}
	cfg := workerConfig(w.data)
	s, err := profile.Embedded(cfg, node.Tables())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	o := workerOptions(cfg)
	o.Reclaim = s.Reclaim
	o.Problem = func(loop string, err error) { fmt.Fprintf(os.Stderr, "%s: %v\n", loop, err) }
	if w.node, err = node.Start(ctx, s.Set, o); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.node.Stop(context.WithoutCancel(ctx))) }()
	w.out, w.known = out, &workerItems{}
	input := bufio.NewScanner(in)
	if err := w.readKnown(input); err != nil {
		return err
	}
	return w.work(ctx, input)
}

// work lets the hands work until the input ends.
func (w *worker) work(ctx context.Context, input *bufio.Scanner) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for input.Scan() { // nothing more is said but that it ends
		}
		stop()
	}()
	hands, ctx := errgroup.WithContext(ctx)
	for n := range w.hands {
		hands.Go(func() error { return newHand(w, n).work(ctx) })
	}
	return hands.Wait()
}

// readKnown reads what the lives before this one have left, up to an empty line.
func (w *worker) readKnown(input *bufio.Scanner) error {
	for input.Scan() && len(input.Bytes()) > 0 {
		var known workerKnown
		if err := json.Unmarshal(input.Bytes(), &known); err != nil {
			return fmt.Errorf("input: %w", err)
		}
		if known.Again != nil {
			w.known.retry(*known.Again)
		} else {
			w.known.add(workerItem{id: known.ID, owner: known.Owner, held: known.Held})
		}
	}
	return input.Err()
}

// tell writes one line by one call, so that a kill leaves whole lines.
func (w *worker) tell(line workerLine) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	_, err = w.out.Write(append(text, '\n'))
	return err
}

// takeWorkerFolder makes sure that the folder is a worker's: by its windows
// everything of other accounts would soon be erased.
func takeWorkerFolder(data string) error {
	if data == "" {
		return errors.New("--data is missing")
	}
	mark := filepath.Clean(data) + ".worker"
	if _, err := os.Stat(mark); err == nil {
		return nil
	}
	if _, err := os.Stat(data); !errors.Is(err, fs.ErrNotExist) {
		return mayfly.Errorf(mayfly.Conflict, "%s is there, and is not a worker's folder", data).WithHint("name a folder that does not exist")
	}
	return os.WriteFile(mark, nil, 0o600)
}
