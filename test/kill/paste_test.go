package kill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/collect"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/product/paste"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

// asPaster names the environment variable that makes the test binary a process that
// creates pastes in the folder that it names and kills itself. Its argument is a seed.
const asPaster = "MAYFLY_TEST_PASTER"

// openPastes opens a folder with a node on it that runs no loops.
func openPastes(ctx context.Context, data string) (s *profile.Store, n *node.Node, err error) {
	cfg := config.Default()
	cfg.Data, cfg.Disk.Floor, cfg.Pastes.Anonymous = data, 0, true
	if s, err = profile.Embedded(cfg, node.Tables()); err != nil {
		return nil, nil, err
	}
	o := node.FromConfig(cfg)
	o.Idle = true
	if n, err = node.Start(ctx, s.Set, o); err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, n, nil
}

// pasteAndDie creates up to two pastes and tells of each in a line, then kills this
// process while it creates one more: with an even seed when its content is stored and
// its record is not, else at some moment from then on.
func pasteAndDie(data string, seed uint64) error {
	ctx, rng := context.Background(), rand.New(rand.NewPCG(seed, 0))
	_, n, err := openPastes(ctx, data)
	if err != nil {
		return err
	}
	die := func() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	for left := rng.IntN(3); ; left-- {
		content := make([]byte, 1+rng.IntN(8<<10))
		if rng.IntN(4) == 0 {
			content = make([]byte, 1+rng.IntN(200<<10)) // a file of its own
		}
		for i := range content {
			content[i] = byte(rng.Uint32())
		}
		d := paste.Draft{Content: bytes.NewReader(content), Lifetime: "30d"}
		if left <= 0 {
			d.Rest = func(*paste.Draft) error {
				if seed%2 == 0 {
					die()
				}
				time.AfterFunc(time.Duration(rng.IntN(3000))*time.Microsecond, die)
				return nil
			}
		}
		p, err := n.Pastes().Create(ctx, d, func() mayfly.Instant { return n.Clock().Read().Steady })
		if err != nil {
			return err
		}
		fmt.Printf("%s %x\n", p.Item.ID, sha256.Sum256(content))
		if left <= 0 {
			select {}
		}
	}
}

// A process is killed a hundred times while it creates a paste, half of them when the
// content is stored and the record is not: no record is without its content, and the
// content that no record names is erased after the age floor and not before (L12, I15).
func TestAKilledCreationLeavesNoRecordWithoutContent(t *testing.T) {
	pace.Slow(t, "kills a hundred processes")
	const kills = 100
	k := newKiller(t)
	said := map[mayfly.ID]string{}
	began := time.Now()
	for i := range uint64(kills) {
		cmd := exec.Command(k.binary, strconv.FormatUint(k.seed&^1+i, 10))
		cmd.Env = append(os.Environ(), asPaster+"="+k.data)
		var problems bytes.Buffer
		cmd.Stderr = &problems
		out, _ := cmd.Output()
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGKILL {
			t.Fatalf("it was not killed: %s\n%s", cmd.ProcessState, &problems)
		}
		for line := range strings.Lines(string(out)) {
			id, hash, _ := strings.Cut(strings.TrimSpace(line), " ")
			parsed, err := mayfly.ParseID(id)
			if err != nil {
				t.Fatal(err)
			}
			said[parsed] = hash
		}
	}
	lived := time.Since(began)

	ctx := t.Context()
	s, n, err := openPastes(ctx, k.data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(n.Stop(context.WithoutCancel(ctx)), s.Close()); err != nil {
			t.Error(err)
		}
	})
	now := n.Clock().Read().Steady
	look := func() (records []mayfly.Item, faults []string) {
		report, err := verify.Run(ctx, s.Set, verify.Options{Now: now, Bytes: true, Each: func(_ context.Context, _ *verify.Report, item mayfly.Item, _ store.FoundBody) error {
			records = append(records, item)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return records, report.Faults()
	}
	objects := func() int {
		listed, err := s.Set.Hot.List(ctx, "", "", 10_000)
		if err != nil {
			t.Fatal(err)
		}
		return len(listed)
	}
	readable := func() {
		for id, hash := range said {
			in, err := n.Pastes().Read(ctx, id, mayfly.Viewer{}, "", now)
			if err != nil {
				t.Errorf("LOST: %s was acknowledged: %v", id, err)
				continue
			}
			sum := sha256.New()
			_, err = io.Copy(sum, in)
			if err := errors.Join(err, in.Close()); err != nil || fmt.Sprintf("%x", sum.Sum(nil)) != hash {
				t.Errorf("LOST: %s has other bytes, or %v", id, err)
			}
		}
	}
	records, faults := look()
	orphans := objects() - len(records)
	if len(faults) > 0 {
		t.Errorf("%d records, and %q", len(records), faults)
	}
	readable()
	if orphans < kills/2 || len(records) < kills/2 || len(said) > len(records) {
		t.Errorf("%d records, %d acknowledged, %d orphans after %d kills: that shows little", len(records), len(said), orphans, kills)
	}

	collector, err := collect.New(s.Set, n.Erase(), collect.Options{Audit: n.Audit()})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range []struct {
		after time.Duration
		want  int
	}{{24*time.Hour - time.Since(began) - time.Minute, 0}, {25 * time.Hour, orphans}} {
		report, err := collector.Orphans(ctx, collect.Run{Erase: true, Now: now.Add(run.after), By: audit.Actor{Subject: "test"}, Reason: "a test"})
		if err != nil || report.Deleted != run.want || !report.Whole {
			t.Errorf("%s after the kills: %+v, %v; want %d deleted", run.after, report, err, run.want)
		}
	}
	if left := objects(); left != len(records) {
		t.Errorf("%d objects are left of %d records", left, len(records))
	}
	readable()
	storetest.Proof(t, "kill -9 between content and record of a paste", "kills, records, acknowledged, orphans erased", fmt.Sprintf("%d in %s, %d, %d, %d", kills, lived.Round(time.Second), len(records), len(said), orphans))

	if err := s.Set.Hot.Delete(ctx, records[0].MediaKey(mayfly.Born, 0)); err != nil {
		t.Fatal(err)
	}
	if _, faults := look(); len(faults) != 1 {
		t.Errorf("a record without content is not noticed: %q", faults)
	}
}
