package e2e

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
)

func TestAScriptThatCannotBeReadSaysWhereAndWhatIsMeant(t *testing.T) {
	for text, says := range map[string]string{
		``:                                     "nothing happens",
		`at 10:00:00 ana publishes a story`:    "no answer is said",
		`at 10:00:00 ana publishes a story ->`: "no status",
		`at 10:00:00 ana publishes a story -> fine`:                  `"fine"`,
		`at 10:00:00 ana publishes a story -> 99`:                    `"99" is no status`,
		`at 10:00 ana publishes a story -> 201`:                      "HH:MM:SS",
		`at 10:61:00 ana publishes a story -> 201`:                   "HH:MM:SS",
		`at 10:00:00.5 ana publishes a story -> 201`:                 "HH:MM:SS.mmm",
		`at +10:00:00 ana publishes a story -> 201`:                  "the first line says at what time of day",
		`at "sea" 10:00:00 ana opens "sea" -> 200`:                   "a time since its birth",
		`ana publishes a story -> 201`:                               "a line reads",
		`at 10:00:00 anna publishes a story -> 201`:                  `is "ana" meant?`,
		`at 10:00:00 ben (folower) opens it -> 200`:                  `is "follower" meant?`,
		`at 10:00:00 service for bn opens it -> 200`:                 `is "ben" meant?`,
		`at 10:00:00 ana opns it -> 200`:                             `is "opens STORY" meant?`,
		`at 10:00:00 ana publishes the story -> 201`:                 `is "publishes a story" or "publishes the upload" meant?`,
		`at 10:00:00 ana dances all night long -> 200`:               "what can be done",
		`at 10:00:00 ana publishes a story for 24h loudly -> 201`:    `what does loudly mean here`,
		`at 10:00:00 ana publishes a story to everbody -> 201`:       `no audience is called "everbody"`,
		`at 10:00:00 ana publishes a story "sea -> 201`:              "never closed",
		`at 10:00:00 ana opens it -> 200 warm`:                       `no check is called "warm"`,
		`at 10:00:00 ana opens it -> 200 caption`:                    "something is missing",
		`at 10:00:00 ana looks at the ring of ana -> 200 lists`:      "something is missing",
		`at 10:00:00 ana reserves room for two media -> 201`:         `"two" is no number`,
		`at 10:00:00 moderator restores it until tomorrow -> 200`:    "HH:MM:SS",
		`at 10:00:00 moderator holds it for 3h because "why" -> 204`: "what does for mean here",
	} {
		_, err := parseScript("a.txt", "# a line before it\n"+text)
		if err == nil || !strings.Contains(err.Error(), says) || text != "" && !strings.HasPrefix(err.Error(), "a.txt:2: ") {
			t.Errorf("%s\n\t%v, must say %s", text, err, says)
		}
	}
}

func TestALineIsReadAsItIsSaid(t *testing.T) {
	l, err := parseLine(`at "sea" +23:59:59.999  service for ben loads the picture of "sea" medium 1 as ana got it  -> 200 private lists "a" b seen "a"`)
	if err != nil {
		t.Fatal(err)
	}
	if l.at != (when{"sea", 24*time.Hour - time.Millisecond}) || l.who != (actor{name: "service", acts: "ben"}) {
		t.Errorf("%+v", l)
	}
	if d := l.action; d.form != "loads the picture of STORY" || d.story != "sea" || d.with.media != 1 || d.with.gotBy != "ana" {
		t.Errorf("%+v", d)
	}
	if l.want.status != 200 || len(l.want.checks) != 3 || !slices.Equal(l.want.checks[1].args, []string{"a", "b"}) {
		t.Errorf("%+v", l.want)
	}
}

// A sentence that no golden story uses is not tested.
func TestGoldenStoriesUseTheWholeLanguage(t *testing.T) {
	said, checked := map[string]bool{}, map[string]bool{}
	for _, s := range scripts(t) {
		for _, l := range s.lines {
			said[l.action.form] = true
			for _, c := range l.want.checks {
				checked[c.word] = true
			}
		}
	}
	for _, f := range forms() {
		if !said[f.says] {
			t.Errorf("no golden story says %q", f.says)
		}
	}
	for word := range checkWords() {
		if !checked[word] {
			t.Errorf("no golden story checks %q", word)
		}
	}
}

// notes keeps what a player reports.
type notes struct{ errors []string }

func (n *notes) Errorf(format string, _ ...any) { n.errors = append(n.errors, format) }
func (n *notes) Logf(string, ...any)            {}

// Each line below but the first expects something that is not so.
func TestAStoryThatDoesNotComeTrueIsReported(t *testing.T) {
	lies := []string{
		`ben opens it -> 410`,
		`anonymous opens it -> 404`,
		`ana opens it -> 200 cold`,
		`ana opens it -> 200 state cold`,
		`ben opens it -> 200 caption "hill"`,
		`ben opens it -> 200 ends 06:00:00`,
		`ben opens it -> 200 media 2`,
		`ben opens it -> 200 until 30:00:00`,
		`ben looks at the ring of ana -> 200 nothing`,
		`ben looks at the ring of ana -> 200 lists "sea" "hill"`,
		`ben looks at the ring of ana -> 200 seen "sea"`,
		`ben loads the picture of it -> 200 private`,
		`ben loads the picture of it -> 200 type image/jpeg`,
		`ben loads a part of the picture of it -> 206 whole`,
		`ana asks who saw it -> 200 count 1`,
		`ana asks what may be published -> 200 not`,
		`ana asks what may be published -> 200 live 0`,
		`ben deletes it -> 204`,
		`ben deletes it -> 404 code gone`,
		`admin explains it to ben -> 200 verdict gone`,
		`admin explains it to ben -> 200 says "hill"`,
	}
	text := "at 10:00:00 ana publishes a story \"sea\" to everyone -> 201\nat 10:00:01 ben opens it -> 200\n"
	for _, lie := range lies {
		text += "at 10:00:01 " + lie + "\n"
	}
	s, err := parseScript("lies.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := &bubble{testNode: openNode(t, nodeConfig()), day: mayfly.InstantOf(time.Now())}
		defer b.close()
		for n := range lies {
			heard := &notes{}
			one := script{name: s.name, lines: []line{s.lines[0], s.lines[1], s.lines[2+n]}}
			one.name += strings.Repeat("x", n) // people of its own
			one.lines[0].at.after, one.lines[1].at.after, one.lines[2].at.after = time.Duration(n)*time.Minute, time.Duration(n)*time.Minute, time.Duration(n)*time.Minute
			if newPlayer(heard, b, one).play(); len(heard.errors) == 0 {
				t.Errorf("believed: %s", lies[n])
			}
		}
	})
}
