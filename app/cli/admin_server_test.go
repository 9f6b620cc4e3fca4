package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/app/server"
)

// adminStep is an admin verb with its exit code and a part of its output, which are
// the same on a stopped folder and through a server.
type adminStep struct {
	code int
	want string
	args string
}

// adminScript calls the admin verbs. A and B are expired stories, N is an id that was
// never used.
func adminScript() []adminStep {
	return []adminStep{
		{exitUsage, "a reason is required", "hold A --by ben"},
		{exitUsage, "not an id", "hold nonsense --by ben --reason x"},
		{exitWrong, "there is no item", "hold N --by ben --reason x"},
		{exitOK, "A is held", "hold A --by ben --reason case-1"},
		{exitConflict, "release it first", "restore A --by ben --reason case-1"},
		{exitOK, "A is released", "release A --by ben --reason case-1"},
		{exitOK, "B serves again until ", "restore B --by ben --reason case-2 --until 2h"},
		{exitConflict, "still serves", "restore B --by ben --reason case-2 --until 2h"},
		{exitUsage, "--until", "restore A --by ben --reason case-2 --until soon"},
		{exitUsage, "too soon", "restore A --by ben --reason case-2 --until 1s"},
		{exitUsage, "name one item", "restore --by ben --reason case-2"},
		{exitUsage, "16 hexadecimal digits", "restore --run xyz --by ben --reason x"},
		{exitWrong, "there is no", "restore --run 0123456789abcdef --by ben"},
		{exitOK, "archive", "dlq list"},
		{exitOK, "the bucket is away", "dlq list --step archive"},
		{exitOK, "There are no dead letters", "dlq list --step erase"},
		{exitUsage, `unknown step "nap"`, "dlq list --step nap"},
		{exitOK, "the bucket is away", "dlq show A"},
		{exitUsage, "pass --all", "dlq retry --by ben --reason x"},
		{exitUsage, "a reason is required", "dlq retry A --by ben"},
		{exitOK, "1 of 1 will be retried", "dlq retry A --by ben --reason it-is-back"},
		{exitWrong, "no such dead letter", "dlq retry A --by ben --reason it-is-back"},
		{exitOK, "B: archive is dropped", "dlq drop B --by ben --reason it-will-not"},
		{exitWrong, "no such dead letter", "dlq retry --all --by ben --reason x"},
		{exitOK, "There are no dead letters", "dlq list"},
		{exitUsage, "a reason is required", "token deny some-id --by ben"},
		{exitUsage, "no token of the issuer", "token deny some-id --issuer shop --by ben --reason stolen"},
		{exitOK, "the token is denied", "token deny some-id --by ben --reason stolen"},
		{exitOK, "0 of them orphans", "orphans"},
		{exitUsage, "a reason is required", "orphans --erase --by ben"},
		{exitOK, "0 erased", "orphans --erase --by ben --reason weekly"},
		{exitOK, "drop_dead_letter", "audit list"},
		{exitOK, "drop_dead_letter", "audit list --limit 5"},
		{exitOK, "chains checked", "audit verify"},
		{exitUsage, "1 or more", "scrub --rate 0"},
	}
}

// play runs the script on the folder and returns what each verb printed, without ids
// and times.
func (f dataFolder) play(items []mayfly.Item, never mayfly.ID) (said []string) {
	f.Helper()
	a, b := items[0].ID.String(), items[1].ID.String()
	fill := strings.NewReplacer("A", a, "B", b, "N", never.String())
	instants := regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`)
	strip := strings.NewReplacer(a, "A", b, "B", never.String(), "N")
	blanks := regexp.MustCompile(` +`)
	for _, step := range adminScript() {
		var args []string
		for _, arg := range strings.Fields(step.args) {
			if len(arg) == 1 {
				arg = fill.Replace(arg)
			}
			args = append(args, arg)
		}
		var out, errs bytes.Buffer
		got := Run(append(args, "--data", f.data), &out, &errs)
		if all := strip.Replace(out.String() + errs.String()); got != step.code || !strings.Contains(all, step.want) {
			f.Errorf("mayfly %s: exit code %d, want %d with %q:\n%s", step.args, got, step.code, step.want, all)
		}
		lines := strings.Split(blanks.ReplaceAllString(instants.ReplaceAllString(strip.Replace(out.String()), "AT"), " "), "\n")
		said = append(said, strings.Join(lines, "\n"))
	}
	return said
}

// unusedID returns an id that was never given to an item.
func unusedID(item mayfly.Item) mayfly.ID {
	id := item.ID
	id[9] ^= 0xff
	return id
}

func TestAdminVerbsPrintTheSameOnAStoppedFolderAndThroughTheServer(t *testing.T) {
	prepared := func() (dataFolder, []mayfly.Item) {
		f := newFolder(t)
		items := f.stories(2)
		f.with(func(s *profile.Store, n *node.Node) { f.bury(s.Set, items, n.Clock().Read().Steady) })
		return f, items
	}
	stopped, items := prepared()
	want := stopped.play(items, unusedID(items[0]))
	served, items := prepared()
	startServer(t, served.data)
	got := served.play(items, unusedID(items[0]))
	for i, step := range adminScript() {
		switch {
		case strings.HasPrefix(step.args, "dlq list") && strings.Count(want[i], "\n") > 2: // ordered by id, which is random
			continue
		case step.args == "audit verify": // each verb on the folder starts its own chain
			continue
		}
		if got[i] != want[i] {
			t.Errorf("mayfly %s prints through the server\n%s\nand on the folder\n%s", step.args, got[i], want[i])
		}
	}
	if list := served.run(exitOK, "", "audit", "list"); !regexp.MustCompile(`(?m) ben +mayfly +hold `).MatchString(list) {
		t.Errorf("the caller is not in\n%s", list)
	}
}

func TestATokenFromStandardInputIsDenied(t *testing.T) {
	f := newFolder(t)
	items := f.stories(1)
	f.run(exitOK, "", "audit", "list") // makes the key
	token := strings.TrimSpace(f.run(exitOK, "", "token", "--scope", "admin"))
	hold := []string{"hold", items[0].ID.String(), "--token", token, "--reason", "case 1"}
	f.run(exitOK, "is held", hold...)
	deny := func(code int, want, text string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "in")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer func(stdin *os.File) { os.Stdin = stdin; _ = in.Close() }(os.Stdin)
		os.Stdin = in
		if said := f.run(code, want, "token", "deny", "--by", "ben", "--reason", "stolen"); strings.Contains(said, token) {
			t.Errorf("the token is in\n%s", said)
		}
	}
	deny(exitUsage, "no token on standard input", "\n")
	deny(exitUsage, "not accepted anyway", token[:len(token)-4]+"AAAA")
	deny(exitOK, "the token is denied", token+"\n")
	f.run(exitWrong, "the token was revoked", hold...)
	f.run(exitOK, "deny_token", "audit", "list")
}

func TestSavedAuditHeadsAreVerifiedOnTheFolderAndThroughTheServer(t *testing.T) {
	f := newFolder(t)
	items := f.stories(1)
	f.run(exitOK, "is held", "hold", items[0].ID.String(), "--by", "ben", "--reason", "case 1")
	heads := filepath.Join(t.TempDir(), "heads")
	if err := os.WriteFile(heads, []byte(f.run(exitOK, "node", "audit", "verify", "--heads")), 0o600); err != nil {
		t.Fatal(err)
	}
	f.run(exitOK, "heads compared", "audit", "verify", "--against", heads)
	startServer(t, f.data)
	f.run(exitOK, "heads compared", "audit", "verify", "--against", heads)
	f.run(exitOK, "is released", "release", items[0].ID.String(), "--by", "ben", "--reason", "case 1")
	f.run(exitOK, "heads compared", "audit", "verify", "--against", heads)
	text, err := os.ReadFile(heads)
	if err != nil {
		t.Fatal(err)
	}
	other := regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAll(text, bytes.Repeat([]byte("ab"), 32))
	if err := os.WriteFile(heads, other, 0o600); err != nil {
		t.Fatal(err)
	}
	f.run(exitWrong, "the audit log is not intact", "audit", "verify", "--against", heads)
}

// until runs a verb until its output contains want.
func (f dataFolder) until(want string, args ...string) string {
	f.Helper()
	var out, errs bytes.Buffer
	for enough := time.Now().Add(20 * time.Second); time.Now().Before(enough); {
		out.Reset()
		errs.Reset()
		Run(append(args, "--data", f.data), &out, &errs)
		if strings.Contains(out.String(), want) {
			return out.String()
		}
	}
	f.Fatalf("mayfly %s never printed %q, but\n%s%s", strings.Join(args, " "), want, out.String(), errs.String())
	return ""
}

func TestARunIsUndoneThroughTheServer(t *testing.T) {
	f := newFolder(t)
	items := f.stories(2)
	r := startServer(t, f.data, "--set", "births.timeout=400ms", "--set", "walk.settle=500ms")
	f.until("sweep", "restore", "--runs")
	run := regexp.MustCompile(`(?m)^([0-9a-f]{16})\s+sweep\s`).FindStringSubmatch(f.until("sweep", "restore", "--runs", "--since", "1h"))[1]
	f.until("2 items can be restored, 0 of them before their deadline", "restore", "--run", run)
	f.run(exitOK, "Nothing was changed", "restore", "--run", run)
	f.run(exitWrong, "2 items", "restore", "--run", run, "--by", "ben", "--reason", "it was early", "--yes", "--max", "1")
	f.run(exitOK, "2 restored, 0 refused, 0 failed", "restore", "--run", run, "--by", "ben", "--reason", "it was early", "--yes")
	f.run(exitOK, "undo_run", "audit", "list")
	r.end()
	f.with(func(_ *profile.Store, n *node.Node) {
		for _, item := range items {
			if _, err := n.Gate().Open(t.Context(), item.ID, mayfly.Viewer{}, n.Clock().Read().Now); err != nil {
				t.Errorf("a restored story is not served: %v", err)
			}
		}
	})
	f.run(exitOK, run, "restore", "--runs")
	f.run(exitOK, "0 items can be restored", "restore", "--run", run)
}

func TestScrubPrintsWhatTheServerHasFound(t *testing.T) {
	f := newFolder(t)
	items := f.stories(1)
	f.with(func(s *profile.Store, n *node.Node) {
		f.archive(s, n, items)
		row, err := s.Set.Ledger.Get(t.Context(), items[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Set.Cold.Put(t.Context(), row[0].Item.MediaKey(row[0].Item.Keys.Cold, 0), strings.NewReader("a phot0")); err != nil {
			t.Fatal(err)
		}
	})
	startServer(t, f.data, "--set", "ends.archive_after=1ms")
	text := f.until("1 do not match", "scrub")
	if !strings.Contains(text, items[0].ID.String()) {
		t.Error(text)
	}
	f.run(exitWrong, "1 items with 1 cold media", "scrub")
	f.run(exitUsage, "set ends.scrub_bytes", "scrub", "--rate", "8")
}

func TestAdminVerbsRequireTheRightScope(t *testing.T) {
	f := newFolder(t)
	item := f.stories(1)[0].ID.String()
	r := startServer(t, f.data)
	token := func(args ...string) string {
		return strings.TrimSpace(r.run(exitOK, "", append([]string{"token"}, args...)...))
	}
	ana, moderator := token("--user", "ana"), token("--scope", "moderator", "--user", "ben")
	f.run(exitWrong, "the scope admin", "hold", item, "--reason", "x", "--token", ana)
	f.run(exitWrong, "malformed", "hold", item, "--reason", "x", "--token", "nonsense")
	f.run(exitUsage, "the token names its user", "hold", item, "--reason", "x", "--token", ana, "--by", "ben")
	f.run(exitUsage, "a reason is required", "hold", item, "--token", moderator)
	f.run(exitOK, "is held", "hold", item, "--reason", "x", "--token", moderator)
	for _, verb := range [][]string{{"audit", "list"}, {"audit", "verify"}, {"dlq", "list"}, {"orphans"}, {"scrub"}} {
		f.run(exitWrong, "the scope admin", append(verb, "--token", moderator)...)
	}
	f.run(exitOK, "RUN", "restore", "--runs", "--token", moderator)
	t.Setenv("MAYFLY_TOKEN", ana)
	f.run(exitWrong, "the scope admin", "release", item, "--reason", "x")
	f.run(exitOK, "is released", "release", item, "--reason", "x", "--by", "ben")

	t.Setenv("MAYFLY_TOKEN", "")
	elsewhere := dataFolder{t, filepath.Join(t.TempDir(), "none")}
	elsewhere.run(exitWrong, "there is no key", "hold", item, "--reason", "x", "--by", "ben", "--admin", r.admin)
	elsewhere.run(exitOK, "is held", "hold", item, "--reason", "x", "--token", moderator, "--admin", r.admin)
	elsewhere.run(exitUsage, "invalid server URL", "hold", item, "--reason", "x", "--token", moderator, "--admin", "nonsense")
	f.run(exitOK, "is released", "release", item, "--reason", "x", "--by", "ben", "--admin", r.admin)
	t.Setenv("MAYFLY_ADMIN", r.admin)
	runVerb(t, exitOK, "is held", "hold", item, "--reason", "x", "--token", moderator)
}

func TestAFolderInUseWithoutAnAdminListenerIsAnError(t *testing.T) {
	f := newFolder(t)
	item := f.stories(1)[0].ID.String()
	address := filepath.Join(f.data, "ADMIN")
	f.with(func(*profile.Store, *node.Node) {
		f.run(exitConflict, "no admin listener", "hold", item, "--reason", "x", "--by", "ben")
		f.run(exitConflict, "verify needs a data folder that is not in use: "+f.data+"/LOCK is held by process", "verify")
	})
	if err := os.WriteFile(address, []byte("http://127.0.0.1:1\n"), 0o600); err != nil { // as after a crash
		t.Fatal(err)
	}
	if _, err := node.LoadKey(f.config()); err != nil {
		t.Fatal(err)
	}
	f.with(func(*profile.Store, *node.Node) {
		f.run(exitUnavailable, "no server answers at http://127.0.0.1:1", "hold", item, "--reason", "x", "--by", "ben")
	})
	f.run(exitOK, "is held", "hold", item, "--reason", "x", "--by", "ben")
	if _, err := os.Stat(address); err == nil {
		t.Error("the address of a stopped server was kept")
	}
}

func TestAServerWritesItsAdminAddressToItsFolder(t *testing.T) {
	f := newFolder(t)
	r := startServer(t, f.data)
	address := filepath.Join(f.data, "ADMIN")
	info, err := os.Stat(address)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if url, err := server.AdminURL(f.data); err != nil || url != r.admin {
		t.Errorf("%q %v, not %s", url, err, r.admin)
	}
	r.end()
	if _, err := os.Stat(address); err == nil {
		t.Error("the file still exists after the stop")
	}
	if left, err := filepath.Glob(address + "*"); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}
