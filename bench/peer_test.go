package bench

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/app/progress"
)

// TestMain runs the stand-in for a peer if the environment says so.
func TestMain(m *testing.M) {
	if os.Getenv("MAYFLY_BENCH_STAND_IN") != "" {
		if err := standIn(); err != nil {
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

// peersOf returns a folder with a program called pocketbase.
func peersOf(t *testing.T, script string) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "pocketbase"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return folder
}

func standInPeers(t *testing.T) string {
	t.Helper()
	return peersOf(t, "MAYFLY_BENCH_STAND_IN=1 exec '"+os.Args[0]+`' "$@"`)
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
