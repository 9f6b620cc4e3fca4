//go:build servers

package kafkastore

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// readerTask names the variable that makes this test binary a reader that is killed.
const readerTask = "MAYFLY_KILLED_READER"

// task tells the killed reader what to read.
type task struct {
	Prefix string // of the topics
	Group  string
	Folder string // of the recorded effects
}

func TestMain(m *testing.M) {
	if text := os.Getenv(readerTask); text != "" {
		readAndHang(text)
	}
	os.Exit(m.Run())
}

// readAndHang reads a page, records its effects, prints their number, and waits to be
// killed without a commit.
func readAndHang(text string) {
	var e task
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		panic(err)
	}
	ctx := context.Background()
	o, err := optionsFor(broker, os.Getenv)
	if err != nil {
		panic(err)
	}
	o.Prefix = e.Prefix
	s, err := Open(ctx, o)
	if err != nil {
		panic(err)
	}
	r, err := s.Reader(ctx, mayfly.Ends, e.Group)
	if err != nil {
		panic(err)
	}
	records, err := r.Next(ctx, 40)
	if err != nil {
		panic(err)
	}
	done, _, err := record(e.Folder, records)
	if err != nil {
		panic(err)
	}
	fmt.Println(done)
	select {}
}

// record stores the effect of each event, a file, once per key.
func record(folder string, records []store.Record) (done, again int, err error) {
	for _, rec := range records {
		k := rec.Event.Key()
		file, err := os.OpenFile(filepath.Join(folder, fmt.Sprintf("%s-%d-%d-%d", k.ID, k.Generation, k.Product, k.Verb)), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		switch {
		case errors.Is(err, fs.ErrExist):
			again++
			continue
		case err != nil:
			return done, again, err
		}
		done++
		if err := file.Close(); err != nil {
			return done, again, err
		}
	}
	return done, again, nil
}

func TestAReaderKilledBetweenEffectAndCommitLeavesEveryEffectOnce(t *testing.T) {
	t.Parallel()
	o := brokerOptions(t)
	s := open(t, o)
	const items, each = 30, 10
	for range items {
		if err := s.Append(t.Context(), life(t, each)...); err != nil {
			t.Fatal(err)
		}
	}
	e := task{Prefix: o.Prefix, Group: "killed", Folder: t.TempDir()}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), readerTask+"="+string(text))
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var effected int
	line, err := bufio.NewReader(out).ReadString('\n')
	if err == nil {
		_, err = fmt.Sscan(line, &effected)
	}
	if err := errors.Join(err, cmd.Process.Kill()); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed

	r := join(t, s, e.Group) // waits until the session of the killed reader times out
	done, again := effected, 0
	for done < items*each {
		records, err := r.Next(t.Context(), 25)
		if err != nil {
			t.Fatal(err)
		}
		d, a, err := record(e.Folder, records)
		if err == nil {
			err = r.Commit(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		done, again = done+d, again+a
	}
	files, err := os.ReadDir(e.Folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d effects before the kill, %d delivered again, %d effects at the end", effected, again, len(files))
	if effected == 0 || again != effected || len(files) != items*each {
		t.Errorf("want %d delivered again and %d effects", effected, items*each)
	}
}
