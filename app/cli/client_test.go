package cli

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/demo"
)

// as returns a client of the server for a user or a scope.
func (r *running) as(base, user, scope string) *client.Client {
	r.Helper()
	args := []string{"token", "--scope", scope}
	if user != "" {
		args = append(args, "--user", user)
	}
	c, err := client.New(base, client.Options{Token: strings.TrimSpace(r.run(exitOK, "", args...)), Retries: -1})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(c.Close)
	return c
}

func TestEveryCallOfTheClientWorksWithTheServer(t *testing.T) {
	r := startServer(t, filepath.Join(t.TempDir(), "data"))
	ctx := t.Context()
	ana, ben, service := r.as(r.api, "ana", "user"), r.as(r.api, "ben", "user"), r.as(r.api, "", "service")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	picture, err := demo.Picture()
	must(err)
	benID := mayfly.UserOf("mayfly", "ben")

	must(ana.AddCloseFriend(ctx, "~ben"))
	must(service.AddFollower(ctx, "~ana", benID.String()))
	var friends []mayfly.UserID
	for friend, err := range ana.CloseFriends(ctx) {
		must(err)
		friends = append(friends, friend)
	}
	if !slices.Equal(friends, []mayfly.UserID{benID}) {
		t.Errorf("close friends: %v", friends)
	}

	may, err := ana.Preflight(ctx)
	must(err)
	if !may.MayPublish || may.MaxMedia != mayfly.MaxMedia {
		t.Errorf("%+v", may)
	}
	upload, err := ana.Reserve(ctx, 1)
	must(err)
	put, err := ana.Put(ctx, upload.ID, 0, client.Bytes("a.jpg", picture), nil)
	must(err)
	if upload, err = ana.Upload(ctx, upload.ID); err != nil || !upload.Put[0].Done {
		t.Errorf("%+v %v", upload, err)
	}
	story, err := ana.Publish(ctx, client.Publication{Story: wire.NewStory{Audience: "close_friends", Upload: &upload.ID}, Key: "once"})
	must(err)
	if again, err := ana.Publish(ctx, client.Publication{Story: wire.NewStory{Audience: "close_friends", Upload: &upload.ID}, Key: "once"}); err != nil || again.ID != story.ID {
		t.Errorf("the same key: %v %v", again.ID, err)
	}

	seen, err := ben.Story(ctx, story.ID)
	must(err)
	var got bytes.Buffer
	must(ben.Download(ctx, seen.Media[0], &got, nil))
	if int64(got.Len()) != put.Size {
		t.Errorf("%d bytes, not %d", got.Len(), put.Size)
	}
	must(ben.View(ctx, story.ID))
	must(ben.View(ctx, story.ID))
	count := 0
	for viewer, err := range ana.Viewers(ctx, story.ID, &count) {
		must(err)
		if viewer.User != benID {
			t.Errorf("%v has seen it", viewer)
		}
	}
	if count != 1 {
		t.Errorf("%d viewers", count)
	}
	must(ana.Block(ctx, "~ben"))
	if _, err := ben.Story(ctx, story.ID); !errors.Is(err, mayfly.NotFound) {
		t.Errorf("blocked: %v", err)
	}
	for user, err := range ana.Blocks(ctx) {
		if must(err); user != benID {
			t.Errorf("%v is blocked", user)
		}
	}
	must(ana.Unblock(ctx, "~ben"))
	must(ana.RemoveCloseFriend(ctx, "~ben"))
	must(service.RemoveFollower(ctx, "~ana", "~ben"))
	for story, err := range ana.Archive(ctx, client.Period{From: 1, To: story.BornAt}) {
		t.Errorf("nothing has expired, but got %v %v", story.ID, err)
	}
	r.operate(story.ID)

	tokens, err := service.TokenFor(ctx, "~ana")
	must(err)
	next, err := ana.RefreshTokens(ctx, tokens.RefreshToken)
	must(err)
	if again, err := ana.RefreshTokens(ctx, tokens.RefreshToken); err != nil || again.RefreshToken != next.RefreshToken {
		t.Errorf("a retry in time has another next one: %v", err)
	}
	last, err := ana.RefreshTokens(ctx, next.RefreshToken)
	must(err)
	for _, old := range []string{tokens.RefreshToken, last.RefreshToken} { // the first ends the family of the second
		if _, err := ana.RefreshTokens(ctx, old); !errors.Is(err, mayfly.Unauthenticated) {
			t.Errorf("a refresh token was used twice: %v", err)
		}
	}
}

// operate calls the admin operations on a story of ana.
func (r *running) operate(id mayfly.ID) {
	r.Helper()
	ctx := r.Context()
	admin, moderator, ana := r.as(r.admin, "", "admin"), r.as(r.admin, "", "moderator"), r.as(r.api, "ana", "user")
	must := func(err error) {
		r.Helper()
		if err != nil {
			r.Fatal(err)
		}
	}
	walks, err := admin.Walks(ctx)
	must(err)
	if len(walks.Walks) == 0 {
		r.Error("there is no walk")
	}
	must(moderator.Hold(ctx, id, "a case"))
	if _, err := ana.Story(ctx, id); !errors.Is(err, mayfly.NotFound) {
		r.Errorf("held: %v", err)
	}
	if e, err := admin.Explain(ctx, id, "~ana", 0); err != nil || len(e.Sentences) == 0 {
		r.Errorf("%+v %v", e, err)
	}
	must(moderator.Release(ctx, id, "it is closed"))
	for letter, err := range admin.DeadLetters(ctx) {
		r.Errorf("%+v %v", letter, err)
	}
	if err := admin.RetryDeadLetter(ctx, id, "archive", "why not"); !errors.Is(err, mayfly.NotFound) {
		r.Errorf("a dead letter that is not there: %v", err)
	}
	if err := admin.DropDeadLetter(ctx, id, "archive", "why not"); !errors.Is(err, mayfly.NotFound) {
		r.Errorf("a dead letter that is not there: %v", err)
	}
	if _, err := moderator.Restore(ctx, wire.RestoreRequest{ID: &id, Reason: "a case"}); !errors.Is(err, mayfly.Conflict) {
		r.Errorf("restore of what serves: %v", err)
	}
	if _, err := moderator.EraseAccount(ctx, "~ben", "he asked"); !errors.Is(err, mayfly.Denied) {
		r.Errorf("a moderator erases an account: %v", err)
	}
	if receipt, err := admin.EraseAccount(ctx, "~someuser", "asked for"); err != nil || receipt.User.IsZero() {
		r.Errorf("%+v %v", receipt, err)
	}
}
