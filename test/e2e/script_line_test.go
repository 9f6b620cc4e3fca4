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
