//go:build servers

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/kafkastore"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// events are the topics as a consumer reads them: once by key.
type events struct {
	all     map[mayfly.EventKey]mayfly.Event
	records int // with those that came twice
}

// follow reads both streams as a group of its own, what concerns items born since
// an instant, until it has read enough. When the context ends it returns
// what there was.
func follow(ctx context.Context, log store.Log, since mayfly.Instant, enough func(*events) bool) (*events, error) {
	e := &events{all: map[mayfly.EventKey]mayfly.Event{}}
	group := "audit-" + newName()
	var readers []store.Reader
	for _, stream := range []mayfly.Stream{mayfly.Births, mayfly.Ends} {
		r, err := log.Reader(ctx, stream, group+"-"+stream.String())
		if err != nil {
			return e, err
		}
		defer func() { _ = r.Close() }() // nothing is kept of its place
		readers = append(readers, r)
	}
	for {
		for _, r := range readers {
			if err := e.catchUp(ctx, r, since); err != nil && ctx.Err() == nil {
				return e, err
			}
		}
		if enough(e) || ctx.Err() != nil {
			return e, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// catchUp reads until there is nothing more.
func (e *events) catchUp(ctx context.Context, r store.Reader, since mayfly.Instant) error {
	for {
		lag, err := r.Lag(ctx)
		if err != nil || lag == 0 {
			return err
		}
		records, err := r.Next(ctx, 500)
		if err != nil {
			return err
		}
		for _, rec := range records {
			if rec.Event.ID.Birth() >= since {
				e.records++
				e.all[rec.Event.Key()] = rec.Event
			}
		}
	}
}

// byItem are the events of each item by verb.
func (e *events) byItem() map[mayfly.ID]map[mayfly.Verb][]mayfly.Event {
	by := map[mayfly.ID]map[mayfly.Verb][]mayfly.Event{}
	for _, one := range e.all {
		if by[one.ID] == nil {
			by[one.ID] = map[mayfly.Verb][]mayfly.Event{}
		}
		by[one.ID][one.Verb] = append(by[one.ID][one.Verb], one)
	}
	return by
}

// expiries are how late hard expiry was, sorted.
func (e *events) expiries() []time.Duration {
	var all []time.Duration
	for _, one := range e.all {
		if one.Verb == mayfly.WasExpired {
			all = append(all, one.At.Sub(one.ID.Deadline()))
		}
	}
	slices.Sort(all)
	return all
}

func (e *events) lags() string {
	all := e.expiries()
	if len(all) == 0 {
		return "nothing expired"
	}
	return fmt.Sprintf("%s median, %s at p99, %s at most, of %d; %d records for %d events",
		all[len(all)/2], all[len(all)*99/100], all[len(all)-1], len(all), e.records, len(e.all))
}

// readEvents reads the log until it has every event that the record asks for, or for as
// long as that may take: reminders stand in for what could not be said (L15).
func (a *audit) readEvents() {
	a.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), a.longer)
	defer cancel()
	var err error
	if a.events, err = follow(ctx, a.store.Set.Log, a.began, func(e *events) bool { return len(a.missing(e)) == 0 }); err != nil {
		a.Fatal(err)
	}
}

// missing returns the events that the stories of the record should have, and have not:
// each was announced, and deleted or, if its time is over, expired and archived.
func (a *audit) missing(e *events) (missing []string) {
	by := e.byItem()
	for _, n := range a.record.all() {
		over := !n.deleting && n.deadline.Before(a.at)
		for verb, want := range map[mayfly.Verb]bool{
			mayfly.WasCreated: true, mayfly.WasDeleted: !n.deleted.IsZero(), mayfly.WasExpired: over, mayfly.WasArchived: over,
		} {
			if want && len(by[n.id][verb]) == 0 {
				missing = append(missing, fmt.Sprintf("%s of %s", verb, n.id))
			}
		}
	}
	return missing
}

// judgeEvents requires of the log what the verifier does not know: how soon after its
// deadline a story had to expire.
func (a *audit) judgeEvents() {
	for id, verbs := range a.events.byItem() {
		for _, x := range verbs[mayfly.WasExpired] {
			if lag := x.At.Sub(id.Deadline()); lag > a.lag {
				a.record.count.Add(verify.Late, "%s expired %s after its deadline", id, lag)
			}
		}
	}
}

// judgeReplay moves the consumers' group back by `mayfly replay`. While one of them
// reads it is refused. Then one gets every event since then again, and no effect is
// made twice (I13).
func (w *testCluster) judgeReplay(proof string, reads *consumer, e errand, log *events) {
	w.Helper()
	from, want := log.half()
	var refused *exec.ExitError
	if out, err := w.replay(from); !errors.As(err, &refused) || refused.ExitCode() != conflict {
		w.Errorf("the group is being read, and a replay of it ends with %v: %s", err, out)
	}
	reads.stop()
	effects, again := e.made(w)
	out, err := w.replay(from)
	if err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	found := regexp.MustCompile(`(?m)^ends: group ` + mortals + ` continues from ` + from.String() + `; ([\d,]+) events to read$`).FindStringSubmatch(out)
	if found == nil {
		w.Fatalf("a replay says %q", out)
	}
	waiting, err := strconv.Atoi(strings.ReplaceAll(found[1], ",", ""))
	if err != nil {
		w.Fatal(err)
	}
	w.consumer(e)
	var news, more int // effects of what it had not come to yet, and events that came again
	eventually(w, 30*time.Second, "every record that waited is delivered", func() bool {
		effectsNow, againNow := e.made(w)
		news, more = effectsNow-effects, againNow-again
		return news+more >= waiting
	})
	storetest.Proof(w, proof, "replayed: events since the middle, records that waited, delivered again, new effects", fmt.Sprintf("%d, %d, %d, %d", want, waiting, more, news))
	if want < 20 || waiting < want || more < want {
		w.Errorf("of %d events that had their effect %d were delivered again", want, more)
	}
}

// conflict is the exit code of the program when another process has what it needs.
const conflict = 3

// replay runs the operators' verb for the consumers' group.
func (w *testCluster) replay(from mayfly.Instant) (string, error) {
	path, err := binary()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "replay", "--config", w.file, "--set", "node=operator",
		"--from", from.String(), "--group", mortals, "--stream", mayfly.Ends.String())
	cmd.Env = ownEnviron()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// half is an instant in the middle of the events that ended stories, and how many
// of them are not before it.
func (e *events) half() (from mayfly.Instant, since int) {
	var all []mayfly.Instant
	for k, x := range e.all {
		if k.Verb != mayfly.WasCreated {
			all = append(all, x.At)
		}
	}
	slices.Sort(all)
	from = all[len(all)/2]
	for _, at := range all {
		if at >= from {
			since++
		}
	}
	return from, since
}

// made is how many effects there are, and how many events came again.
func (e errand) made(t testing.TB) (effects, again int) {
	t.Helper()
	files, err := os.ReadDir(e.Folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(e.Folder, "again"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files) - 1, len(text)
}

// stop ends a consumer as its operator does: it leaves its group.
func (c *consumer) stop() {
	c.Helper()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		c.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		c.Fatal(err)
	}
}

// mortalConsumer names the variable that makes this program a consumer that a
// test kills between an effect and its commit.
const mortalConsumer = "MAYFLY_MORTAL_CONSUMER"

// mortals is the group of such consumers.
const mortals = "mortals"

// errand is what it is to do.
type errand struct {
	Brokers []string
	Prefix  string
	Folder  string // of the recorded effects
	Hang    int    // stop between effect and commit when so many effects are there; 0: never
}

// consume makes the effects of the events that ended stories, page by page, until
// it is killed or stopped. It prints a line when it is between an effect and its commit.
func consume(text string) {
	var e errand
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil { // the broker may be away: begin again, as a supervisor would
		err := e.read(ctx)
		fmt.Fprintln(os.Stderr, "consumer:", err)
		time.Sleep(200 * time.Millisecond)
	}
}

func (e errand) read(ctx context.Context) error {
	log, err := kafkastore.Open(ctx, kafkastore.Options{
		Brokers: e.Brokers, Prefix: e.Prefix, ReplicationFactor: 1, Partitions: 4, SessionTimeout: 6 * time.Second, Timeout: 5 * time.Second,
		Now: func() mayfly.Instant { return mayfly.InstantOf(time.Now()) },
	})
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // what failed before is what matters
	r, err := log.Reader(ctx, mayfly.Ends, mortals)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }()
	done := 0
	for {
		records, err := r.Next(ctx, 20)
		if err != nil {
			return err
		}
		n, err := effect(e.Folder, records)
		if err != nil {
			return err
		}
		if done += n; e.Hang > 0 && done >= e.Hang {
			fmt.Println("between effect and commit:", n)
			select {} // until it is killed
		}
		if err := r.Commit(ctx); err != nil {
			return err
		}
	}
}

// effect makes the effect of each event, a file, once by its key; the file counts
// how often the event came.
func effect(folder string, records []store.Record) (done int, err error) {
	for _, rec := range records {
		k := rec.Event.Key()
		name := filepath.Join(folder, fmt.Sprintf("%s-%d-%d", k.ID, k.Generation, k.Verb))
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		switch {
		case errors.Is(err, fs.ErrExist):
			if file, err = os.OpenFile(filepath.Join(folder, "again"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
				return done, err
			}
			if _, err := file.WriteString("."); err != nil {
				return done, err
			}
		case err != nil:
			return done, err
		default:
			done++
		}
		if err := file.Close(); err != nil {
			return done, err
		}
	}
	return done, nil
}
