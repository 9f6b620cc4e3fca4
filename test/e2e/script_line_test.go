package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// script is a golden story: lines in the order in which they happen.
type script struct {
	name  string
	lines []line
}

// line is one line of it: when, who, what, and the answer that must come.
type line struct {
	where  string // file:number
	text   string
	at     when
	who    actor
	action action
	want   want
}

// when is an instant of the script: of its day, or counted from a story's birth.
type when struct {
	since string // a story's name; "it" is the one that the line is about, or the last
	after time.Duration
}

func (w when) relative() bool { return w.since != "" }

// it is how a script calls the last story.
const it = "it"

// actor is who does it.
type actor struct {
	name string // ana, ben, follower, anonymous, service …
	role string // what stands behind it in brackets: what he is to the author from now on
	acts string // of a service: for whom
}

// readScript reads a golden story; an error names file and line.
func readScript(path string) (script, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return script{}, err
	}
	return parseScript(filepath.Base(path), string(text))
}

func parseScript(file, text string) (script, error) {
	s := script{name: strings.TrimSuffix(file, ".txt")}
	number := 0
	for raw := range strings.Lines(text) {
		number++
		sentence := strings.TrimSpace(raw)
		if sentence == "" || strings.HasPrefix(sentence, "#") {
			continue
		}
		l, err := parseLine(sentence)
		if err != nil {
			return script{}, fmt.Errorf("%s:%d: %w", file, number, err)
		}
		l.where = fmt.Sprintf("%s:%d", file, number)
		s.lines = append(s.lines, l)
	}
	switch {
	case len(s.lines) == 0:
		return script{}, fmt.Errorf("%s: nothing happens in it", file)
	case s.lines[0].at.relative():
		return script{}, fmt.Errorf("%s: the first line says at what time of day it happens, such as at 10:00:00", s.lines[0].where)
	}
	return s, nil
}

// parseLine reads `at 10:00:01  ben (follower) opens it  -> 200 hot`.
func parseLine(text string) (line, error) {
	sentence, answer, found := strings.Cut(text, "->")
	if !found {
		return line{}, fmt.Errorf("no answer is said: end the line with -> and a status")
	}
	l := line{text: strings.Join(strings.Fields(text), " ")}
	words, err := tokens(sentence)
	if err != nil {
		return line{}, err
	}
	if l.want, err = parseWant(answer); err != nil {
		return line{}, err
	}
	if len(words) < 4 || words[0].text != "at" {
		return line{}, fmt.Errorf("a line reads: at TIME WHO DOES SOMETHING -> STATUS")
	}
	words = words[1:]
	if l.at, words, err = parseWhen(words); err != nil {
		return line{}, err
	}
	if l.who, words, err = parseActor(words); err != nil {
		return line{}, err
	}
	if l.action, err = parseAction(words); err != nil {
		return line{}, err
	}
	if isCommand := l.action.form == sendsCommand; isCommand != (l.want.status == 0) {
		return line{}, fmt.Errorf("the answer to a command is a text in quotes, and every other answer is a status")
	}
	return l, nil
}

// parseWhen reads HH:MM:SS, +HH:MM:SS or "sea" +HH:MM:SS.
func parseWhen(words []token) (when, []token, error) {
	w := when{since: it}
	if words[0].quoted {
		w.since, words = words[0].text, words[1:]
	}
	if len(words) == 0 {
		return when{}, nil, fmt.Errorf("no time is said")
	}
	text, relative := strings.CutPrefix(words[0].text, "+")
	if !relative {
		if w.since != it {
			return when{}, nil, fmt.Errorf("behind %q a time since its birth must follow, such as +24:00:00", w.since)
		}
		w.since = ""
	}
	var err error
	w.after, err = parseSpan(text)
	return w, words[1:], err
}

// actors are all who may act, and the words for what one may be to an author.
func actors() []string {
	return []string{"ana", "ben", "follower", "friend", "stranger", "anonymous", "moderator", "service", "admin"}
}
func relations() []string { return []string{"follower", "friend", "blocked", "stranger"} }

func parseActor(words []token) (actor, []token, error) {
	var a actor
	if len(words) == 0 {
		return a, nil, fmt.Errorf("no actor")
	}
	a.name, words = words[0].text, words[1:]
	if err := known("actor", a.name, actors()); err != nil {
		return a, nil, err
	}
	if len(words) > 0 && strings.HasPrefix(words[0].text, "(") {
		a.role, words = strings.Trim(words[0].text, "()"), words[1:]
		if err := known("role", a.role, relations()); err != nil {
			return a, nil, err
		}
	}
	if len(words) > 1 && a.name == "service" && words[0].text == "for" {
		a.acts, words = words[1].text, words[2:]
		if err := known("actor", a.acts, actors()); err != nil {
			return a, nil, err
		}
	}
	return a, words, nil
}

// known refuses a word that is not in a list, and says which one may be meant.
func known(what, word string, list []string) error {
	if slices.Contains(list, word) {
		return nil
	}
	if near := nearest(word, list); near != "" {
		return fmt.Errorf("no %s is called %q; is %q meant?", what, word, near)
	}
	return fmt.Errorf("no %s is called %q; there are: %s", what, word, strings.Join(list, ", "))
}

func number(word string) (int, error) {
	n, err := strconv.Atoi(word)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is no number", word)
	}
	return n, nil
}

// token is a word of a script, or what stands between quotes in it.
type token struct {
	text   string
	quoted bool
}

func (t token) String() string {
	if t.quoted {
		return strconv.Quote(t.text)
	}
	return t.text
}

// tokens splits a sentence at blanks and commas; what is quoted stays whole.
func tokens(sentence string) ([]token, error) {
	var all []token
	for rest := sentence; ; {
		rest = strings.TrimLeft(rest, " \t,")
		if rest == "" {
			return all, nil
		}
		if text, ok := strings.CutPrefix(rest, `"`); ok {
			end := strings.IndexByte(text, '"')
			if end < 0 {
				return nil, fmt.Errorf("a quote is opened and never closed: %s", rest)
			}
			all, rest = append(all, token{text[:end], true}), text[end+1:]
			continue
		}
		end := strings.IndexAny(rest, " \t,\"")
		if end < 0 {
			end = len(rest)
		}
		all, rest = append(all, token{text: rest[:end]}), rest[end:]
	}
}

// parseSpan reads HH:MM:SS[.mmm]; the hours may be more than a day's.
func parseSpan(text string) (time.Duration, error) {
	bad := fmt.Errorf("%q is no time: write HH:MM:SS or HH:MM:SS.mmm", text)
	whole, fraction, exact := strings.Cut(text, ".")
	parts := strings.Split(whole, ":")
	if len(parts) != 3 || exact && len(fraction) != 3 {
		return 0, bad
	}
	if exact {
		parts = append(parts, fraction)
	}
	var sum time.Duration
	for i, unit := range []time.Duration{time.Hour, time.Minute, time.Second, time.Millisecond}[:len(parts)] {
		n, err := strconv.ParseUint(parts[i], 10, 16)
		if err != nil || i > 0 && len(parts[i]) < 2 || (i == 1 || i == 2) && n > 59 {
			return 0, bad
		}
		sum += time.Duration(n) * unit
	}
	return sum, nil
}

// nearest is the word of a list that is most like the one that was written; ""
// when none is.
func nearest(written string, known []string) string {
	best, found := max(1, len(written)/3)+1, ""
	for _, word := range known {
		if d := distance(written, word); d < best {
			best, found = d, word
		}
	}
	return found
}

// distance is how many letters must be put in, taken out or changed.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		left, diagonal := i+1, row[0]
		row[0] = left
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// want is the answer that must come: a status, and what must be in it; or what a server
// of the Redis protocol answers.
type want struct {
	status  int
	checks  []check
	written string
	redis   string // as redis-cli shows it; the status is 0
}

// check is one thing that must be so in an answer.
type check struct {
	word string
	args []string
}

// checkWords says how many words follow each word of an answer; -1 is as many as
// there are.
func checkWords() map[string]int {
	return map[string]int{
		"hot": 0, "cold": 0, // its tier
		"state":   1, // its state, for who may know
		"caption": 1,
		"code":    1, // of a problem
		"says":    1, // anywhere in the body
		"lists":   -1,
		"nothing": 0,           // an empty list
		"count":   1,           // of viewers
		"live":    1,           // of the preflight
		"may":     0, "not": 0, // publish
		"verdict": 1,              // of an explanation
		"private": 0, "public": 0, // how it may be kept on the way
		"seen": -1, "unseen": -1, // which stories of a ring
		"same":     0, // the story that the key stands for already
		"until":    1, // serves_until, since the story's birth
		"ends":     1, // expires_at, since its birth
		"media":    1, // how many it has
		"type":     1, // of the bytes
		"pictures": 0, // every medium has its smaller pictures
		"whole":    0, // the bytes are those of the medium
		"value":    1, // of a key
	}
}

func parseWant(text string) (want, error) {
	words, err := tokens(text)
	if err != nil {
		return want{}, err
	}
	if len(words) == 0 {
		return want{}, fmt.Errorf("no status is said behind ->")
	}
	w := want{written: strings.TrimSpace(text)}
	if words[0].quoted {
		if w.redis = words[0].text; len(words) > 1 {
			return want{}, fmt.Errorf("what does %s mean behind the answer to a command?", words[1])
		}
		return w, nil
	}
	if w.status, err = number(words[0].text); err != nil || w.status < 200 || w.status > 599 {
		return want{}, fmt.Errorf("%q is no status", words[0].text)
	}
	takes := checkWords()
	var names []string
	for name := range takes {
		names = append(names, name)
	}
	slices.Sort(names)
	for words = words[1:]; len(words) > 0; {
		c := check{word: words[0].text}
		if err := known("check", c.word, names); err != nil {
			return want{}, err
		}
		words = words[1:]
		n := takes[c.word]
		for len(words) > 0 && n != 0 {
			_, isWord := takes[words[0].text]
			if n < 0 && isWord && !words[0].quoted {
				break
			}
			c.args, words = append(c.args, words[0].text), words[1:]
			n--
		}
		if n > 0 || takes[c.word] < 0 && len(c.args) == 0 {
			return want{}, fmt.Errorf("behind %q something is missing", c.word)
		}
		w.checks = append(w.checks, c)
	}
	return w, nil
}
