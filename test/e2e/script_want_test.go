package e2e

import (
	"fmt"
	"slices"
	"strings"
)

// want is the answer that must come: a status, and what must be in it.
type want struct {
	status  int
	checks  []check
	written string
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
