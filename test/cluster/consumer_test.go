//go:build servers

package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/kafkastore"
)

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
