package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// dataFolder is a data folder that no process uses.
type dataFolder struct {
	*testing.T
	data string
}

func newFolder(t *testing.T) dataFolder {
	return dataFolder{t, filepath.Join(t.TempDir(), "data")}
}

func (f dataFolder) config() config.Config {
	cfg := config.Default()
	cfg.Data, cfg.Disk.Floor = f.data, 0
	return cfg
}

// with opens the folder and starts a node without loops.
func (f dataFolder) with(do func(s *profile.Store, n *node.Node)) {
	f.Helper()
	cfg := f.config()
	s, err := profile.Embedded(cfg, node.Tables())
	if err != nil {
		f.Fatal(err)
	}
	o := node.FromConfig(cfg)
	o.Idle = true
	if o.Products.Key, err = node.LoadKey(cfg); err != nil {
		f.Fatal(err)
	}
	n, err := node.Start(f.Context(), s.Set, o)
	if err != nil {
		f.Fatal(err)
	}
	do(s, n)
	if err := errors.Join(n.Stop(context.Background()), s.Close()); err != nil {
		f.Fatal(err)
	}
}

func author() mayfly.UserID { return mayfly.UserOf("mayfly", "ana") }

// stories publishes stories that live for a second, and waits until they have expired.
func (f dataFolder) stories(count int) (items []mayfly.Item) {
	f.Helper()
	f.with(func(_ *profile.Store, n *node.Node) {
		second, err := mayfly.LifetimeOf(time.Second)
		if err != nil {
			f.Fatal(err)
		}
		for range count {
			in, now := n.Intake(), n.Clock().Read().Steady
			u, err := n.Uploads().Begin(author(), now)
			if err != nil {
				f.Fatal(err)
			}
			if _, err := u.Add(f.Context(), strings.NewReader("a photo")); err != nil {
				f.Fatal(err)
			}
			p, err := in.Publish(f.Context(), intake.Draft{
				Owner: author(), Product: mayfly.Story, Fate: mayfly.Archive, Audience: mayfly.Everyone, Lifetime: second, Upload: u,
			}, n.Clock().Read().Steady)
			if err != nil {
				f.Fatal(err)
			}
			items = append(items, p.Item)
		}
	})
	time.Sleep(1100 * time.Millisecond)
	return items
}

// run runs a verb on the folder and checks its exit code and a part of its output.
func (f dataFolder) run(code int, want string, args ...string) string {
	f.Helper()
	var out, errs bytes.Buffer
	got := Run(append(args, "--data", f.data), &out, &errs)
	text := out.String() + errs.String()
	if got != code || !strings.Contains(text, want) {
		f.Errorf("mayfly %s: exit code %d, want %d with %q:\n%s", strings.Join(args, " "), got, code, want, text)
	}
	return text
}

const sevenZeros = "LOST 0  RESURRECTED 0  EARLY 0  LATE 0  LEAK 0  DOUBLE 0  ORPHAN 0"

func TestARestoreOnAStoppedFolderServesTheStoryAndIsRecorded(t *testing.T) {
	f := newFolder(t)
	items := f.stories(2)
	a, b := items[0].ID.String(), items[1].ID.String()
	f.run(exitOK, sevenZeros, "verify")
	f.run(exitOK, a+" is held", "hold", a, "--by", "ben", "--reason", "case 1")
	f.run(exitConflict, "release it first", "restore", a, "--by", "ben", "--reason", "case 1")
	f.run(exitOK, a+" is released", "release", a, "--by", "ben", "--reason", "case 1")
	f.run(exitOK, b+" serves again until ", "restore", b, "--by", "ben", "--reason", "case 2", "--until", "2h")
	f.with(func(_ *profile.Store, n *node.Node) {
		if _, err := n.Gate().Open(t.Context(), items[1].ID, mayfly.ViewerOf(mayfly.UserOf("mayfly", "stranger")), n.Clock().Read().Now); err != nil {
			t.Errorf("a restored story is not served: %v", err)
		}
	})
	list := f.run(exitOK, "case 2", "audit", "list")
	for _, want := range []string{"hold", "release", "restore", "refused", "done"} {
		if !strings.Contains(list, want) {
			t.Errorf("the audit log has no %q:\n%s", want, list)
		}
	}
	f.run(exitOK, sevenZeros, "verify", "--quick")
	f.run(exitOK, "none in the last", "restore", "--runs", "--since", "1h")
}

func TestVerifyFindsWhatIsLost(t *testing.T) {
	f := newFolder(t)
	items := f.stories(2)
	f.with(func(s *profile.Store, _ *node.Node) {
		if err := s.Set.Hot.Delete(t.Context(), items[1].MediaKey(mayfly.Born, 0)); err != nil {
			t.Fatal(err)
		}
	})
	text := f.run(exitWrong, "LOST 1", "verify")
	if !strings.Contains(text, items[1].ID.String()) || strings.Contains(text, items[0].ID.String()) {
		t.Errorf("%s", text)
	}
	f.run(exitWrong, "LOST 1", "verify", "--quick")
}

// A violation that is no fault of the data but of the answers is planted in package node.
func TestVerifyFindsEveryViolationInAStoppedFolder(t *testing.T) {
	for _, v := range fixture.Violations() {
		if v.Answer {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			f := newFolder(t)
			f.with(func(s *profile.Store, n *node.Node) { v.Plant(t, &s.Set, n.Clock().Read().Steady) })
			f.run(exitWrong, v.Word.String()+" 1", "verify", "--quick")
		})
	}
}

// bury makes the archive step of items a dead letter.
func (f dataFolder) bury(set store.Set, items []mayfly.Item, now mayfly.Instant) {
	f.Helper()
	var b store.Batch
	for _, item := range items {
		remind.Write(&b, remind.Reminder{Due: now.Add(time.Minute), ID: item.ID, Step: remind.Archive})
	}
	if err := set.Writer.Commit(f.Context(), &b); err != nil {
		f.Fatal(err)
	}
	fails := func(_ context.Context, b walk.Batch) (all []walk.Failure, _ error) {
		for _, item := range b.Items {
			all = append(all, walk.Failure{Item: item, Err: errors.New("the bucket is away")})
		}
		return all, nil
	}
	for number := range mayfly.Shard(mayfly.Shards) {
		w, err := remind.New(set, walk.NewShard(set.Rows, number, "test", time.Second, now), remind.Acts{remind.Archive: fails}, remind.Options{Tries: 1})
		if err != nil {
			f.Fatal(err)
		}
		if _, err := w.Pass(f.Context(), now.Add(2*time.Minute)); err != nil {
			f.Fatal(err)
		}
	}
}

func TestOnlyOldOrphansAreErased(t *testing.T) {
	f := newFolder(t)
	f.with(func(_ *profile.Store, n *node.Node) {
		u, err := n.Uploads().Begin(author(), n.Clock().Read().Steady)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.Add(t.Context(), strings.NewReader("never published")); err != nil {
			t.Fatal(err)
		}
	})
	f.run(exitOK, "0 of them orphans", "orphans")
	f.run(exitOK, "0 erased", "orphans", "--erase", "--by", "ben", "--reason", "weekly")
}

func TestScrubListsDamagedColdCopies(t *testing.T) {
	f := newFolder(t)
	items := f.stories(3)
	f.run(exitOK, "0 items with 0 cold media", "scrub")
	f.with(func(s *profile.Store, n *node.Node) { f.archive(s, n, items) })
	f.run(exitOK, "3 items with 3 cold media, 21 bytes read, 0 do not match", "scrub")
	f.with(func(s *profile.Store, _ *node.Node) {
		row, err := s.Set.Ledger.Get(t.Context(), items[1].ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Set.Cold.Put(t.Context(), row[0].Item.MediaKey(row[0].Item.Keys.Cold, 0), strings.NewReader("a phot0")); err != nil {
			t.Fatal(err)
		}
	})
	text := f.run(exitWrong, "1 do not match", "scrub", "--rate", "8")
	if !strings.Contains(text, items[1].ID.String()) || strings.Contains(text, items[0].ID.String()) {
		t.Errorf("%s", text)
	}
	var out, errs bytes.Buffer
	if Run([]string{"scrub", "--help"}, &out, &errs) != exitOK || !strings.Contains(out.String(), "mayfly scrub --data ./mayfly-data") {
		t.Errorf("%s%s", out.String(), errs.String())
	}
}

// archive moves items to cold storage, as the walks do hours later.
func (f dataFolder) archive(s *profile.Store, n *node.Node, items []mayfly.Item) {
	f.Helper()
	a, err := archive.New(s.Set, archive.Options{Window: time.Nanosecond})
	if err != nil {
		f.Fatal(err)
	}
	w, err := sweep.New(s.Set, sweep.Options{})
	if err != nil {
		f.Fatal(err)
	}
	now := n.Clock().Read().Steady
	for _, act := range []walk.Act{w.Walk().Act, a.Act} {
		rows := make([]mayfly.Item, len(items))
		for i, item := range items {
			found, err := s.Set.Ledger.Get(f.Context(), item.ID)
			if err != nil {
				f.Fatal(err)
			}
			rows[i] = found[0].Item
		}
		if failures, err := act(f.Context(), walk.Batch{Items: rows, Now: now, Run: 1}); err != nil || len(failures) > 0 {
			f.Fatal(failures, err)
		}
	}
}

func TestVerifyDoesNotCreateADataFolder(t *testing.T) {
	f := newFolder(t)
	f.run(exitWrong, "name it with --data", "verify")
	if _, err := os.Stat(f.data); err == nil {
		t.Error("a folder was created")
	}
}

func TestFolderVerbsOnAClusterPrintWhatToUseInstead(t *testing.T) {
	t.Chdir(t.TempDir())
	file := "profile: cluster\ntokens: {key_file: k}\ncassandra: {hosts: [10.0.0.1]}\nredis: {addresses: ['10.0.0.1:6379']}\nkafka: {brokers: ['10.0.0.1:9092']}\n" +
		"s3: {endpoint: 'https://s3.example.org', hot: media/hot, cold: media/cold, deletions: media/deletions}\n"
	if err := os.WriteFile("mayfly.yaml", []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	runVerb(t, exitUsage, "mayfly scrub and mayfly orphans print", "verify")
	runVerb(t, exitUsage, "name its admin API with --admin", "orphans")
	runVerb(t, exitOK, "listen.drain_after: 1s (default: 5s)", "config", "check", "--set", "listen.drain_after=1s")
	if text := runVerb(t, exitOK, "profile: cluster", "config", "check"); strings.Contains(text, "drain_after") {
		t.Errorf("drain_after was not changed: %s", text)
	}
}
