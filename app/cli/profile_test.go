package cli

import (
	"path/filepath"
	"testing"
)

func TestProfileVerbPrintsAndChangesProfiles(t *testing.T) {
	folder := t.TempDir()
	r := startServer(t, filepath.Join(folder, "data"))
	t.Setenv("MAYFLY_SERVER", r.api)
	photo := filepath.Join(folder, "photo.jpg")
	runVerb(t, exitOK, "a picture of", "story", "picture", photo)

	r.run(exitOK, "followers   0", "profile", "--user", "ana")
	r.run(exitOK, "@ana_1", "profile", "--handle", "ana_1", "--name", "Ana", "--private", "--user", "ana")
	r.run(exitOK, "private     yes", "profile", "@ana_1", "--user", "ben")
	r.run(exitOK, "/avatar/", "profile", "--avatar", photo, "--bio", "the sea", "--private=false", "--user", "ana")
	r.run(exitOK, `"bio": "the sea"`, "profile", "ana", "--user", "ben", "--json")
	r.run(exitOK, "avatar      https://example.com/ana.jpg", "profile", "--avatar", "https://example.com/ana.jpg", "--user", "ana")
	r.run(exitOK, `"private": false`, "profile", "--avatar", "", "--user", "ana", "--json")

	r.run(exitUsage, "not yours to change", "profile", "ana", "--name", "Ben", "--user", "ben")
	r.run(exitUsage, "3 to 30", "profile", "--handle", "Ben", "--user", "ben")
	r.run(exitWrong, "name an existing file", "profile", "--avatar", filepath.Join(folder, "none.jpg"), "--user", "ana")
	r.run(exitWrong, "send image", "profile", "--avatar", filepath.Join(r.data, "FORMAT"), "--user", "ana")
	r.run(exitWrong, "check the name or handle", "profile", "@no_user", "--user", "ben")
	r.run(exitWrong, "--user NAME", "profile")
}
