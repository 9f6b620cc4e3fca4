package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

func TestFollowVerbsFollowAskAcceptAndStop(t *testing.T) {
	folder := t.TempDir()
	r := startServer(t, filepath.Join(folder, "data"))
	t.Setenv("MAYFLY_SERVER", r.api)
	photo := filepath.Join(folder, "photo.jpg")
	runVerb(t, exitOK, "a picture of", "story", "picture", photo)
	id := strings.SplitN(r.run(exitOK, "", "story", "publish", photo, "--user", "ana", "--audience", "everyone"), "\n", 2)[0]

	r.run(exitOK, "You follow no user.", "follow", "list", "--user", "ben")
	r.run(exitOK, "No user whom you follow", "tray", "--user", "ben")
	r.run(exitOK, "You follow ~ana.", "follow", "ana", "--user", "ben")
	r.run(exitOK, `"following": 0`, "follow", "list", "--user", "ben", "--json")
	r.run(exitOK, "unseen  newest "+id, "tray", "--user", "ben")
	r.run(exitOK, `"newest": "`+id, "tray", "--user", "ben", "--json")
	r.run(exitOK, "You do not follow ~ana.", "follow", "stop", "~ana", "--user", "ben")
	r.run(exitOK, "No user whom you follow", "tray", "--user", "ben")

	token := strings.TrimSpace(r.run(exitOK, "", "token", "--user", "ana"))
	api, err := client.New(r.api, client.Options{Token: token})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	handle, name, private := "ana_1", "Ana", true
	if _, err := api.ChangeProfile(t.Context(), wire.ProfileChange{Handle: &handle, Name: &name, Private: &private}); err != nil {
		t.Fatal(err)
	}
	r.run(exitOK, "The account is private", "follow", "@ana_1", "--user", "ben")
	r.run(exitOK, `"state": "requested"`, "follow", "@ana_1", "--user", "eve", "--json")
	r.run(exitOK, "-", "follow", "requests", "--user", "ana")
	r.run(exitOK, "~ben follows you.", "follow", "accept", "ben", "--user", "ana")
	r.run(exitOK, "declined", "follow", "decline", "eve", "--user", "ana")
	r.run(exitOK, "No user asks to follow you.", "follow", "requests", "--user", "ana")
	r.run(exitOK, `@ana_1  "Ana"`, "follow", "list", "--user", "ben")
	r.run(exitOK, id, "tray", "--user", "ben")
	r.run(exitOK, "No user whom you follow", "tray", "--user", "eve")

	r.run(exitUsage, "cannot follow", "follow", "ben", "--user", "ben")
	r.run(exitWrong, "check the name or handle", "follow", "@no_user", "--user", "ben")
	r.run(exitWrong, "mayfly follow requests", "follow", "accept", "eve", "--user", "ana")
	r.run(exitWrong, "--user NAME", "follow", "ana")
	r.run(exitWrong, "--user NAME", "tray")
	r.run(exitWrong, "accepts 1 arg", "follow", "--user", "ben")
	r.run(exitWrong, "unknown command", "tray", "ana")
	r.end()
	r.run(exitUnavailable, "is the server running at", "tray", "--user", "ben")
}
