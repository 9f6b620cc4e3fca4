package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestStoryVerbsPublishOpenReshareAndDelete(t *testing.T) {
	folder := t.TempDir()
	r := startServer(t, filepath.Join(folder, "data"))
	t.Setenv("MAYFLY_SERVER", r.api)
	t.Setenv("MAYFLY_ADMIN", r.admin)
	photo := filepath.Join(folder, "photo.jpg")
	runVerb(t, exitOK, "a picture of", "story", "picture", photo)
	runVerb(t, exitOK, "a picture of", "story", "picture", photo) // the same again

	text := r.run(exitOK, "medium 1: image/jpeg", "story", "publish", photo, photo, "--user", "ana", "--audience", "everyone", "--for", "6h", "--caption", "hello")
	id := strings.SplitN(text, "\n", 2)[0]
	if !regexp.MustCompile(`^[0-9a-f-]{36}$`).MatchString(id) || !strings.Contains(text, `"hello"`) || !strings.Contains(text, "for everyone") {
		t.Fatalf("%s", text)
	}
	r.run(exitOK, id, "story", "ring", "ana")
	r.run(exitOK, `"caption": "hello"`, "story", "ring", "~ana", "--json", "--user", "ben")
	r.run(exitOK, "no live story", "story", "ring", "ben")
	saved := filepath.Join(folder, "saved")
	r.run(exitOK, "saved ", "story", "open", id, "--save", saved)
	want, _ := os.ReadFile(photo)
	for _, n := range []string{"0", "1"} {
		if got, err := os.ReadFile(filepath.Join(saved, id+"-"+n+".jpg")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("medium %s: %v", n, err)
		}
	}
	r.run(exitOK, "There are no archived stories", "story", "archive", "--user", "ana", "--day", "2026-01-31")
	r.run(exitOK, "is visible", "explain", id, "--viewer", "ben")
	r.run(exitOK, `"verdict": "serve"`, "explain", id, "--json")

	again := r.run(exitOK, `"again"`, "story", "reshare", id, "--user", "ana", "--audience", "close_friends", "--caption", "again")
	other := strings.SplitN(again, "\n", 2)[0]
	r.run(exitWrong, "Not found", "story", "open", other, "--user", "ben")
	r.run(exitOK, "deleted", "story", "delete", id, "--user", "ana")
	r.run(exitWrong, "Not found", "story", "open", id)
	r.run(exitOK, "not there", "explain", id)

	r.run(exitWrong, "--user NAME", "story", "publish", photo)
	r.run(exitWrong, "image/jpeg", "story", "publish", filepath.Join(r.data, "FORMAT"), "--user", "ana")
	r.run(exitUsage, "is not JSON", "story", "publish", photo, "--user", "ana", "--overlays", photo)
	r.run(exitUsage, "choose everyone", "story", "publish", photo, "--user", "ana", "--audience", "all")
	r.run(exitUsage, "the token names its user", "story", "ring", "ana", "--user", "ana", "--token", "x")
	r.run(exitWrong, "", "story", "ring", "ana", "--token", "nonsense")
	r.run(exitUsage, "pass one or the other", "story", "archive", "--day", "2026-01-31", "--from", "2026-01-01")
	r.run(exitUsage, "write a day", "story", "archive", "--from", "soon")
	if err := os.WriteFile(photo, []byte("another file"), 0o600); err != nil {
		t.Fatal(err)
	}
	runVerb(t, exitConflict, "a different file", "story", "picture", photo)

	r.end() // what follows looks into the folder itself
	r.run(exitOK, "not there", "explain", id, "--viewer", "ben")
	r.run(exitOK, "", "explain", other, "--viewer", "moderator")
	r.run(exitUnavailable, "is the server running at", "story", "ring", "ana")
	if strings.Contains(r.log.String(), "hello") {
		t.Error("a caption is in the log")
	}
}

func TestExplainAcceptsIDsThatWereNeverUsed(t *testing.T) {
	r := startServer(t, filepath.Join(t.TempDir(), "data"))
	const never = "019a8b2f-0c00-8818-9a5d-1f0e9c2b7a43"
	r.run(exitOK, "410", "explain", never, "--admin", r.admin, "--viewer", "anonymous")
	r.run(exitOK, "404", "explain", never, "--admin", r.admin, "--viewer", "ben", "--at", "2025-11-16T00:00:00Z")
	r.run(exitUsage, "write an instant", "explain", never, "--at", "yesterday")
	r.run(exitUsage, "not an id", "explain", "nonsense")
	r.run(exitConflict, "name its admin API", "explain", never, "--admin", "http://127.0.0.1:1")
}
