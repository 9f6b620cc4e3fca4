package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/test/pace"
)

// TestMain runs the stand-in for a peer if the environment says so, and the product if
// the arguments do.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		if err := serve(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if run := map[string]func() error{"pocketbase": standIn, "rustypaste": standInRustypaste, "badger": standInBadger, "postgres": standInPostgres}[os.Getenv("MAYFLY_BENCH_STAND_IN")]; run != nil {
		if err := run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// standIn speaks like bench/peers/pocketbase, which tests do not build, and stores
// nothing.
func standIn() error {
	flags := flag.NewFlagSet("peer", flag.ContinueOnError)
	flags.String("data", "", "")
	users := flags.Int("users", 0, "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p := httpPeer{URL: "http://" + l.Addr().String()}
	for n := range *users {
		p.Users = append(p.Users, peerUser{ID: fmt.Sprint("user", n), Token: fmt.Sprint("token", n)})
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"url": p.URL, "users": p.Users}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	mux := http.NewServeMux()
	record := func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1 << 20); r.Method == http.MethodPost && (err != nil || r.FormValue("author") == "" || len(r.MultipartForm.File["media"]) != 1) {
			http.Error(w, "no story", http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, `{"id":"abc","media":"photo.jpg"}`)
	}
	mux.HandleFunc("POST /api/collections/stories/records", record)
	mux.HandleFunc("GET /api/collections/stories/records/abc", record)
	mux.HandleFunc("GET /api/files/stories/abc/photo.jpg", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a photo") })
	return http.Serve(l, mux)
}

// standInRustypaste speaks like rustypaste, which tests do not build, and stores
// nothing.
func standInRustypaste() error {
	settings, err := os.ReadFile(os.Getenv("CONFIG"))
	if err != nil {
		return err
	}
	_, address, _ := strings.Cut(string(settings), "address = \"")
	address, _, _ = strings.Cut(address, "\"")
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{$}", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseMultipartForm(1 << 20); err != nil || len(r.MultipartForm.File["file"]) != 1 {
			http.Error(w, "no file", http.StatusBadRequest)
			return
		}
		fmt.Fprintln(w, "http://"+address+"/a.txt")
	})
	mux.HandleFunc("GET /{file}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "a paste") })
	return http.ListenAndServe(address, mux)
}

// standInBadger speaks like bench/peers/badger, which tests do not build.
func standInBadger() error {
	flags := flag.NewFlagSet("peer", flag.ContinueOnError)
	data := flags.String("data", "", "")
	flags.Int("users", 0, "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	s, err := openKVEngine(context.Background(), *data, time.Minute)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"url": s.address, "users": []peerUser{{ID: kvNamespace, Token: s.key}}}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, s.close(context.Background()))
}

// standInPostgres speaks like bench/peers/postgres, which tests do not build. Every
// reader follows every author.
func standInPostgres() error {
	flags := flag.NewFlagSet("peer", flag.ContinueOnError)
	data := flags.String("data", "", "")
	flags.Int("users", 0, "")
	if err := flags.Parse(os.Args[1:]); err != nil {
		return err
	}
	file, err := os.ReadFile(filepath.Join(*data, homePosts))
	if err != nil {
		return err
	}
	type post struct {
		ID string `json:"id"`
	}
	var posts []post
	for line := range strings.Lines(string(file)) {
		id, _, _ := strings.Cut(line, "\t")
		posts = append(posts, post{id})
	}
	slices.SortFunc(posts, func(a, b post) int { return strings.Compare(b.ID, a.ID) })
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"url": "http://" + l.Addr().String()}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, _ := strconv.Atoi(r.FormValue("limit"))
		_ = json.NewEncoder(w).Encode(map[string]any{"posts": posts[:limit]})
	}))
}

// serve is mayfly serve, as far as the trial of keys uses it.
func serve(args []string) error {
	settings := map[string]string{"disk.floor": "0"}
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	data := flags.String("data", "", "")
	listen := flags.String("listen", "", "")
	admin := flags.String("admin", "", "")
	flags.Func("set", "", func(one string) error {
		key, value, _ := strings.Cut(one, "=")
		settings[key] = value
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return err
	}
	settings["data"], settings["listen.api"], settings["listen.admin"] = *data, *listen, *admin
	cfg, err := config.Load(config.Sources{Flags: settings})
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return server.Run(ctx, server.Options{Config: cfg, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)), Out: os.Stdout})
}

// peersOf returns a folder with programs like those of make peers.
func peersOf(t *testing.T, script string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"pocketbase", "badger", "postgres", "bin/rustypaste"} {
		if err := os.WriteFile(filepath.Join(folder, program), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func standInPeers(t *testing.T) string {
	t.Helper()
	return peersOf(t, "MAYFLY_BENCH_STAND_IN=$(basename \"$0\") exec '"+os.Args[0]+`' "$@"`)
}

// smallPasteTrial is a trial whose figures mean nothing.
func smallPasteTrial() pasteTrial {
	return pasteTrial{
		httpTrial: httpTrial{warm: 20 * time.Millisecond, lasts: 200 * time.Millisecond},
		conns:     4, edgeConns: 2, rounds: 2, stored: []int{20, 60, 80}, big: 1 << 16,
	}
}

func TestARustypasteThatDoesNotStartIsAMissingRow(t *testing.T) {
	pace.Slow(t, "runs the trial without it")
	for name, test := range map[string]struct{ peers, note string }{
		"rustypaste was not built": {t.TempDir(), "make peers builds it"},
		"rustypaste ends at once":  {peersOf(t, "echo the disk is full >&2; exit 3"), "the disk is full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, notes bytes.Buffer
			b := &bench{seed: 7, quiet: time.Millisecond, report: newBenchReport(&out, true), progress: progress.New(&notes, true), peers: test.peers}
			if err := smallPasteTrial().run(t.Context(), b, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			found := readFigures(t, out.String())
			if found["paste.raw_ratio"] != "" || found["paste.raw_bare_ratio"] == "" || !strings.Contains(notes.String(), test.note) {
				t.Errorf("%s\nand the notes\n%s", out.String(), notes.String())
			}
		})
	}
}

// smallHomeTrial is a trial whose figures mean nothing.
func smallHomeTrial() homeTrial {
	const ms = time.Millisecond
	return homeTrial{authors: 5, each: 6, readers: 2, page: 5, warm: 50 * ms, lasts: 900 * ms, writes: httpTrial{writers: 2, warm: 50 * ms, lasts: 900 * ms, authors: 5}}
}

func TestAPostgreSQLThatDoesNotStartIsAMissingRow(t *testing.T) {
	pace.Slow(t, "runs the trial without it")
	var out, notes bytes.Buffer
	b := &bench{seed: 7, quiet: time.Millisecond, report: newBenchReport(&out, true), progress: progress.New(&notes, true), peers: peersOf(t, "echo apt-get install postgresql-15 >&2; exit 1")}
	if err := smallHomeTrial().run(t.Context(), b, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	found := readFigures(t, out.String())
	if found["home.pull_ratio_postgres"] != "" || found["home.pull_per_s"] == "" || !strings.Contains(notes.String(), "apt-get install postgresql-15") {
		t.Errorf("%s\nand the notes\n%s", out.String(), notes.String())
	}
}

func TestABadgerThatDoesNotStartIsAMissingRow(t *testing.T) {
	pace.Slow(t, "runs the trial without it")
	var out, notes bytes.Buffer
	b := &bench{seed: 7, quiet: time.Millisecond, report: newBenchReport(&out, true), progress: progress.New(&notes, true), peers: t.TempDir()}
	if err := smallKVTrial().run(t.Context(), b, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	found := readFigures(t, out.String())
	if found["kv.set_ratio_badger"] != "" || found["kv.disk_over_live_badger"] != "" || found["kv.set_per_s"] == "" || !strings.Contains(notes.String(), "make peers builds it") {
		t.Errorf("%s\nand the notes\n%s", out.String(), notes.String())
	}
}

// smallKVTrial is a trial whose figures mean nothing.
func smallKVTrial() kvTrial {
	return kvTrial{httpTrial: httpTrial{warm: 10 * time.Millisecond, lasts: 100 * time.Millisecond}, conns: 4, keys: 600, cached: 600, stored: 3_000, every: time.Second, look: 20 * time.Millisecond, ahead: 2 * time.Minute}
}

func TestAPocketBaseThatDoesNotStartIsAMissingRow(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct{ peers, note string }{
		"PocketBase was not built":  {t.TempDir(), "make peers builds it"},
		"PocketBase ends at once":   {peersOf(t, "echo the disk is full >&2; exit 3"), "the disk is full"},
		"PocketBase says something": {peersOf(t, "echo hello; exec cat >&2"), "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, notes bytes.Buffer
			b := &bench{seed: 7, quiet: 10 * ms, report: newBenchReport(&out, true), progress: progress.New(&notes, true), peers: test.peers}
			if err := (httpTrial{warm: ms, lasts: 10 * ms, peerLive: 1}).comparePocketBase(t.Context(), b, nil, t.TempDir()); err != nil {
				t.Fatal(err)
			}
			if out.Len() > 0 || !strings.Contains(notes.String(), test.note) || !strings.Contains(notes.String(), "left out") {
				t.Errorf("%s\nand the notes\n%s", out.String(), notes.String())
			}
		})
	}
}
