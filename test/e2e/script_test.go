package e2e

import (
	"fmt"
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
		`at 10:00:00 ana publishes the story -> 201`:                 `is "publishes a story" or "publishes a paste" or "publishes a post" or "publishes the upload" meant?`,
		`at 10:00:00 ana dances all night long -> 200`:               "what can be done",
		`at 10:00:00 ana publishes a story for 24h loudly -> 201`:    `what does loudly mean here`,
		`at 10:00:00 ana publishes a story to everbody -> 201`:       `no audience is called "everbody"`,
		`at 10:00:00 ana publishes a story "sea -> 201`:              "never closed",
		`at 10:00:00 ana opens it -> 200 warm`:                       `no check is called "warm"`,
		`at 10:00:00 ana opens it -> 200 caption`:                    "something is missing",
		`at 10:00:00 ana looks at the ring of ana -> 200 lists`:      "something is missing",
		`at 10:00:00 ana publishes a paste reads twice -> 201`:       `"twice" is no number`,
		`at 10:00:00 ana deletes it by force -> 204`:                 `what is meant by "by force"?`,
		`at 10:00:00 ana reserves room for two media -> 201`:         `"two" is no number`,
		`at 10:00:00 moderator restores it until tomorrow -> 200`:    "HH:MM:SS",
		`at 10:00:00 moderator holds it for 3h because "why" -> 204`: "what does for mean here",
		`at 10:00:00 ana sets "k" to "v" if possible -> 204`:         `there are: absent, present, unchanged`,
		`at 10:00:00 ana sets k to "v" -> 204`:                       `is "sets KEY to TEXT" meant?`,
		`at 10:00:00 ana sends the command "GET k" -> 200`:           "a text in quotes",
		`at 10:00:00 ana gets "k" -> "v"`:                            "every other answer is a status",
		`at 10:00:00 ana sends the command "GET k" -> "v" hot`:       "what does hot mean",
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
	believed(t, "at 10:00:00 ana publishes a story \"sea\" to everyone -> 201\nat 10:00:01 ben opens it -> 200\n", lies)
}

// Nor is anything else about a key so that each of these expects.
func TestAKeyOfWhichAScriptSaysWhatIsNotSoIsReported(t *testing.T) {
	believed(t, "at 10:00:00 ana creates a namespace -> 201\nat 10:00:01 ana sets \"k\" to \"v\" for 6h -> 204\n", []string{
		`ana gets "k" -> 404`,
		`ana gets "k" -> 200 value "w"`,
		`ana gets "k" -> 200 ends 06:00:00 ends 05:59:59.999`,
		`ana gets "other" -> 200`,
		`ben gets "k" -> 200`,
		`anonymous gets "k" using its key -> 401`,
		`ana lists keys -> 200 nothing`,
		`ana lists keys -> 200 lists "k" "other"`,
		`ana increments "n" by 2 -> 200 value "1"`,
		`ana sets "k" to "w" for 6h if absent -> 204`,
		`ana sets "k" to "w" for 6h if unchanged -> 412`,
		`ana deletes the key "k" -> 404`,
		`ben drops the namespace -> 204`,
		`ana sends the command "GET k" -> "w"`,
		`ana sends the command "GET k" -> "(nil)"`,
		`ana sends the command "EXISTS k" -> "(integer) 0"`,
		`ben sends the command "GET k" -> "v"`,
	})
}

// believed plays two lines, which come true, and after them each of the lies, and reports
// those that nothing was said against.
func believed(t *testing.T, text string, lies []string) {
	t.Helper()
	for _, lie := range lies {
		text += "at 10:00:01 " + lie + "\n"
	}
	s, err := parseScript("lies.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		b := openBubble(t, mayfly.InstantOf(time.Now()))
		defer b.close()
		for n := range lies {
			heard := &notes{}
			one := script{name: s.name, lines: []line{s.lines[0], s.lines[1], s.lines[2+n]}}
			one.name += strings.Repeat("x", n) // people of its own
			one.lines[0].at.after, one.lines[1].at.after, one.lines[2].at.after = time.Duration(n)*time.Minute, time.Duration(n)*time.Minute, time.Duration(n)*time.Minute
			if newPlayer(heard, b, one).play(); len(heard.errors) == 0 {
				t.Errorf("believed: %s", lies[n])
			}
			one.name += "-true"
			one.lines = one.lines[:2]
			newPlayer(t, b, one).play()
		}
	})
}

// action is what an actor does: one of the forms below, with the words that stood in
// its places, and its options.
type action struct {
	form   string
	story  string   // STORY: a name, or it; KEY: its name
	text   string   // TEXT
	people []string // WHO, in order
	n      int      // N
	with   options
}

// options may be added to an action, in any order.
type options struct {
	name     string // of the story that comes of it
	lifetime string
	audience string
	caption  string
	key      string // of idempotency
	media    int
	until    when
	asOf     when
	reason   string
	longest  int    // the side of a smaller picture
	gotBy    string // whose URL is used
	day      int    // of the script, from 1
	changed  bool   // the same request with another body
	password string // of a paste
	reads    int    // how often a paste can be read; 1 is sent as burn
	private  bool
	byToken  bool // by the token that its creation has answered with, and no other right

	events        bool   // of a namespace
	lastWriteWins bool   // of a namespace
	withKey       bool   // with the key of the namespace in place of a token
	keeping       bool   // the expiry that the key has
	condition     string // absent, present or unchanged: since this actor has read or written it
}

// form is a sentence with places in capitals, and the additions that it takes.
type form struct {
	says string
	may  []string
}

// neverWas is the story of which no row was ever written.
const neverWas = "a story that never was"

// sendsCommand is the form of a command of the Redis protocol.
const sendsCommand = "sends the command TEXT"

// forms are all sentences of the language. Capitals are places: STORY is it, a
// quoted name or "a story that never was", KEY and TEXT are quoted, WHO an actor, N a
// number. Each script has one namespace of keys at a time.
func forms() []form {
	return []form{
		{"publishes a story", []string{"NAME", "for", "to", "with"}},
		{"publishes a paste", []string{"NAME", "for", "with", "password", "reads", "private"}},
		{"publishes a post", []string{"NAME", "for", "with"}},
		{"publishes the upload", []string{"NAME", "for", "to", "with"}},
		{"reserves room for N media", nil},
		{"puts medium N", nil},
		{"asks for the upload", nil},
		{"asks what may be published", nil},
		{"opens STORY", []string{"password"}},
		{"reads STORY", []string{"password"}},
		{"reads the page of STORY", []string{"password"}},
		{"claims STORY", []string{"password"}},
		{"loads the picture of STORY", []string{"of", "as", "medium"}},
		{"loads a part of the picture of STORY", []string{"as"}},
		{"views STORY", nil},
		{"asks who saw STORY", nil},
		{"looks at the ring of WHO", nil},
		{"looks at the archive", []string{"of"}},
		{"reshares STORY", []string{"as", "for", "to", "with"}},
		{"deletes STORY", []string{"by"}},
		{"lists pastes", nil},
		{"replies to STORY", []string{"as", "for"}},
		{"quotes STORY", []string{"as", "for"}},
		{"reposts STORY", []string{"as"}},
		{"takes back the repost of STORY", nil},
		{"lists the posts of WHO", nil},
		{"looks at the home", nil},
		{"looks at the tray", nil},
		{"asks to follow WHO", nil},
		{"no longer follows WHO", nil},
		{"accepts WHO", nil},
		{"mutes WHO", nil},
		{"unmutes WHO", nil},
		{"goes private", nil},
		{"goes public", nil},
		{"adds WHO to close friends", nil},
		{"removes WHO from close friends", nil},
		{"lists close friends", nil},
		{"blocks WHO", nil},
		{"unblocks WHO", nil},
		{"lists blocks", nil},
		{"makes WHO a follower of WHO", nil},
		{"ends that WHO follows WHO", nil},
		{"holds STORY", []string{"because"}},
		{"releases STORY", []string{"because"}},
		{"restores STORY", []string{"until", "because"}},
		{"explains STORY", []string{"as"}},
		{"explains STORY to WHO", []string{"as"}},
		{"erases the account of WHO", []string{"because"}},
		{"creates a namespace", []string{"with", "last-write-wins"}},
		{"drops the namespace", nil},
		{"sets KEY to TEXT", []string{"for", "keeping", "if", "using"}},
		{"gets KEY", []string{"using"}},
		{"touches KEY", []string{"for", "if", "using"}},
		{"increments KEY by N", []string{"for", "using"}},
		{"deletes the key KEY", []string{"if", "using"}},
		{"lists keys", []string{"using"}},
		{"follows expired keys", []string{"using"}},
		{sendsCommand, []string{"using"}},
	}
}

func parseAction(words []token) (action, error) {
	var best action
	var rest []token
	var of form
	for _, f := range forms() {
		d, left, err := fill(f.says, words)
		if err != nil {
			return action{}, err
		}
		if d.form != "" && (best.form == "" || len(left) < len(rest)) {
			best, rest, of = d, left, f
		}
	}
	if best.form == "" {
		return action{}, unknownAction(words)
	}
	if err := best.with.add(rest, of); err != nil {
		return action{}, fmt.Errorf("%q: %w", best.form, err)
	}
	return best, nil
}

// fill matches a sentence with a form; the zero action if it does not fit.
func fill(says string, words []token) (action, []token, error) {
	d := action{form: says}
	for place := range strings.FieldsSeq(says) {
		if len(words) == 0 {
			return action{}, nil, nil
		}
		word := words[0]
		words = words[1:]
		switch place {
		case "STORY":
			switch never := strings.Fields(neverWas); {
			case word.quoted, word.text == it:
				d.story = word.text
			case word.text == never[0] && len(words) >= len(never)-1:
				d.story, words = neverWas, words[len(never)-1:]
			default:
				return action{}, nil, nil
			}
		case "KEY", "TEXT":
			if !word.quoted {
				return action{}, nil, nil
			}
			if place == "KEY" {
				d.story = word.text
			} else {
				d.text = word.text
			}
		case "WHO":
			if err := known("actor", word.text, actors()); err != nil {
				return action{}, nil, err
			}
			d.people = append(d.people, word.text)
		case "N":
			n, err := number(word.text)
			if err != nil {
				return action{}, nil, err
			}
			d.n = n
		default:
			if word.text != place {
				return action{}, nil, nil
			}
		}
	}
	return d, words, nil
}

// unknownAction lists the forms whose first word is the one that was written, or
// most like it; all forms when none is.
func unknownAction(words []token) error {
	var sentence, says, verbs []string
	for _, w := range words {
		sentence = append(sentence, w.String())
	}
	for _, f := range forms() {
		verb, _, _ := strings.Cut(f.says, " ")
		says, verbs = append(says, f.says), append(verbs, verb)
	}
	if len(words) == 0 {
		return fmt.Errorf("nothing is done; what can be done:\n\t%s", strings.Join(says, "\n\t"))
	}
	if near := nearest(words[0].text, verbs); near != "" {
		says = slices.DeleteFunc(says, func(s string) bool { return !strings.HasPrefix(s, near+" ") })
		return fmt.Errorf("unknown action %q; is %s meant?", strings.Join(sentence, " "), `"`+strings.Join(says, `" or "`)+`"`)
	}
	return fmt.Errorf("unknown action %q; what can be done:\n\t%s", strings.Join(sentence, " "), strings.Join(says, "\n\t"))
}

// add reads the options of an action.
func (o *options) add(words []token, of form) error {
	if len(words) > 0 && words[0].quoted && slices.Contains(of.may, "NAME") {
		o.name, words = words[0].text, words[1:]
	}
	for len(words) > 0 {
		word := words[0].text
		if words[0].quoted || !slices.Contains(of.may, word) {
			return fmt.Errorf("what does %s mean here? It takes: %s", words[0], strings.Join(of.may, ", "))
		}
		used, err := o.one(word, words[1:])
		if err != nil {
			return err
		}
		words = words[1+used:]
	}
	return nil
}

// one reads what follows a word, and says how many words that was.
func (o *options) one(word string, rest []token) (used int, err error) {
	said := func(i int) string {
		if i < len(rest) {
			return rest[i].text
		}
		return ""
	}
	switch next := said(0); {
	case word == "for":
		o.lifetime = next
		return 1, nil
	case word == "to" && next == "close" && said(1) == "friends":
		o.audience = "close_friends"
		return 2, nil
	case word == "to":
		o.audience = next
		return 1, known("audience", next, []string{"everyone", "followers"})
	case word == "with" && next == "caption":
		o.caption = said(1)
		return 2, nil
	case word == "with" && next == "key":
		o.key = said(1)
		return 2, nil
	case word == "with" && next == "another" && said(1) == "caption":
		o.changed = true
		return 2, nil
	case word == "with" && said(1) == "media":
		o.media, err = number(next)
		return 2, err
	case word == "with" && next == "events":
		o.events = true
		return 1, nil
	case word == "last-write-wins":
		o.lastWriteWins = true
		return 0, nil
	case word == "using" && next == "its" && said(1) == "key":
		o.withKey = true
		return 2, nil
	case word == "keeping" && next == "its" && said(1) == "expiry":
		o.keeping = true
		return 2, nil
	case word == "if":
		o.condition = next
		return 1, known("condition", next, []string{"absent", "present", "unchanged"})
	case word == "password":
		o.password = next
		return 1, nil
	case word == "reads":
		o.reads, err = number(next)
		return 1, err
	case word == "private":
		o.private = true
		return 0, nil
	case word == "by" && next == "token":
		o.byToken = true
		return 1, nil
	case word == "because":
		o.reason = next
		return 1, nil
	case word == "until":
		o.until, _, err = parseWhen(rest)
		return 1, err
	case word == "medium":
		o.media, err = number(next)
		return 1, err
	case word == "of" && next == "size":
		o.longest, err = number(said(1))
		return 2, err
	case word == "of" && next == "day":
		o.day, err = number(said(1))
		return 2, err
	case word == "as" && next == "of":
		o.asOf, _, err = parseWhen(rest[1:])
		return 2, err
	case word == "as" && said(1) == "got" && said(2) == it:
		o.gotBy = next
		return 3, known("actor", next, actors())
	case word == "as" && len(rest) > 0 && rest[0].quoted:
		o.name = next
		return 1, nil
	}
	return 0, fmt.Errorf("what is meant by %q?", word+" "+said(0))
}
