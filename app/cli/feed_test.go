package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
)

func written(t *testing.T, name string, lines ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Follow edges and posts of another product move in once, whole and in their own time;
// broken lines are skipped, counted and reported with their numbers.
func TestAFeedMovesIn(t *testing.T) {
	f := newFolder(t)
	f.with(func(*profile.Store, *node.Node) {})
	edges := written(t, "edges.csv", "reader,author", "~ana,~ben", "~carl,~ben", "~ana", "~ana,~ana", `"~ben","~ana",2024`, "ana,~ben")
	lines := []string{
		`{"source":"p1","author":"~ben","text":"the first","born_at":"2024-05-01T12:00:00Z"}`,
		`{"source":"p2","author":"~ana","text":"a reply","born_at":"2024-05-01T12:01:00Z","reply_to":"p1"}`,
		`{"source":"p3","author":"~ana","born_at":"2024-05-01T12:02:00Z","repost_of":"p1"}`,
		`{"source":"p4","author":"~ana","text":"of nothing","born_at":"2024-05-01T12:02:00Z","quote":"p9"}`,
		`{"source":"p5","author":"~ana","text":"over","lifetime":"1h","born_at":"2024-05-01T12:02:00Z"}`,
		`{"source":"p6","author":"~ana","text":"` + strings.Repeat("x", 281) + `","born_at":"2024-05-01T12:02:00Z"}`,
		`{"source":"p7",`,
		``,
		`{"source":"p8","author":"~ana","text":"a quote","born_at":"2024-06-01T12:00:00Z","quote":"p2"}`,
	}
	posts := written(t, "posts.jsonl", lines...)
	importing := func(code int, more ...string) string {
		t.Helper()
		return f.run(code, "", append([]string{"feed", "import", "--by", "ana", "--reason", "moving in"}, more...)...)
	}
	out := importing(exitWrong, "--edges", edges, "--posts", posts)
	for _, want := range []string{
		"edges.csv: 3 moved in, 0 were here before, 3 skipped", "line 4 is skipped", "line 5 is skipped", "line 7 is skipped",
		"posts.jsonl: 4 moved in, 0 were here before, 4 skipped", "posts.jsonl, line 4 is skipped", "posts.jsonl, line 5 is skipped",
		"posts.jsonl, line 6 is skipped", "posts.jsonl, line 7 is skipped",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// Again, and from the middle: what a stop left behind goes on.
	if out := importing(exitWrong, "--posts", posts); !strings.Contains(out, "0 moved in, 4 were here before") {
		t.Error(out)
	}
	if err := os.WriteFile(posts+".imported", []byte("7"), 0o600); err != nil {
		t.Fatal(err)
	}
	out = importing(exitOK, "--posts", posts)
	if !strings.Contains(out, "goes on behind line 7") || !strings.Contains(out, "0 moved in, 3 were here before, 0 skipped") { // p8, and p1 and p2 for their ids
		t.Error(out)
	}
	other := written(t, "other.jsonl", `{"source":"p1","author":"~ben","text":"another","born_at":"2024-05-01T12:00:00Z"}`)
	if out := importing(exitWrong, "--posts", other); !strings.Contains(out, "line 1 is skipped: ") {
		t.Error(out)
	}

	ana, ben := mayfly.HomeUserOf(f.config().Tokens.Issuer, "ana"), mayfly.HomeUserOf(f.config().Tokens.Issuer, "ben")
	f.with(func(_ *profile.Store, n *node.Node) {
		now := n.Clock().Read().Steady
		page, err := n.Posts().ByAuthor(t.Context(), ana, mayfly.ViewerOf(ben), "", 10, now)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range page.Posts {
			got = append(got, fmt.Sprint(p.Item.ID.Birth(), " ", p.Kind))
		}
		want := "2024-06-01T12:00:00.000Z quote, 2024-05-01T12:02:00.000Z repost, 2024-05-01T12:01:00.000Z reply"
		if strings.Join(got, ", ") != want {
			t.Errorf("ana's posts are %q", got)
		}
		for at := range 3 { // counts, as the upkeep of a node does
			later := now.Add(time.Duration(at+1) * time.Hour)
			if _, err := n.Accounts().Recount(t.Context(), later); err != nil {
				t.Fatal(err)
			}
			if err := n.Posts().FollowMarks(t.Context(), later); err != nil {
				t.Fatal(err)
			}
		}
	})
	if out := f.run(exitOK, " 0 differences", "feed", "verify"); !strings.Contains(out, "3 users and ") {
		t.Error(out)
	}
}

// What is left of a user is printed, and is an error.
func TestVerifyErasedFindsWhatIsLeft(t *testing.T) {
	f := newFolder(t)
	f.with(func(*profile.Store, *node.Node) {})
	f.run(exitOK, "0 references to ~ana", "verify", "--erased", "~ana")
	f.run(exitOK, "1 moved in", "feed", "import", "--edges", written(t, "edges.csv", "~ana,~ben"), "--by", "ana", "--reason", "moving in")
	f.run(exitWrong, "following: a row", "verify", "--erased", "~ana")
}
