package mayfly_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// bannedWords lists words that this project used as a private dialect, with the
// ordinary word to write instead. They are looked for in names, comments,
// messages, configuration keys and documentation.
func bannedWords() map[string]string {
	return map[string]string{
		"house": "fixture, process, repository", "houses": "fixtures",
		"deed": "operation", "deeds": "operations",
		"door": "handler, listener, entrance", "doors": "handlers, listeners",
		"desk": "admin API", "desks": "admin API",
		"book": "record", "books": "records",
		"town": "cluster, fixture", "towns": "clusters",
		"told": "returned, reported, notified", "untold": "not reported",
		"whoever": "the caller, a user who", "whomever": "the caller",
		"somebody": "a user, a caller", "someone": "a user, a caller",
		"nobody": "no user, no caller", "anybody": "any user",
		"hurt": "damaged, corrupted", "mend": "fix, repair", "mends": "fixes", "mended": "fixed",
	}
}

// allowedPhrases are ordinary uses of a banned word.
func allowedPhrases() []string {
	return []string{"http.NoBody", "in-house"}
}

func TestPlainWords(t *testing.T) {
	banned := bannedWords()
	words := regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
	looked := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "mayfly-data"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if name == "words_test.go" || name == "LICENSE" || strings.HasSuffix(name, ".sum") {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if slices.Contains(text, 0) { // not text
			return nil
		}
		looked++
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			for _, phrase := range allowedPhrases() {
				line = strings.ReplaceAll(line, phrase, "")
			}
			for _, word := range words.FindAllString(line, -1) {
				if instead, found := banned[strings.ToLower(word)]; found {
					t.Errorf("%s:%d: %q: write %s", name, n, word, instead)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if looked == 0 {
		t.Error("no file was looked at")
	}
}
