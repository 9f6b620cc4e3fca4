package mayfly_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every requirement number in a comment or a document is explained in
// docs/requirements.md, and every document that one names is there.
func TestRequirementNumbersResolve(t *testing.T) {
	const index = "docs/requirements.md"
	text, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]+[0-9]+|trap [0-9]+) \|`).FindAllStringSubmatch(string(text), -1) {
		if known[row[1]] {
			t.Errorf("%s explains %s twice", index, row[1])
		}
		known[row[1]] = true
	}
	number := regexp.MustCompile(`\b(?:L|ST|F|P|K|E|C|O|I)[1-9][0-9]?\b|\btrap [0-9]+\b`)
	document := regexp.MustCompile(`\bdocs/[a-z0-9/-]+\.md\b`)
	found := 0
	check := func(name, text string) {
		for _, file := range document.FindAllString(text, -1) {
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %s is not there", name, file)
			}
		}
		for _, n := range number.FindAllString(text, -1) {
			found++
			if !known[n] {
				t.Errorf("%s: %s is not in %s", name, n, index)
			}
		}
	}
	err = filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "mayfly-data", "testdata"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(name) {
		case ".go":
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, group := range file.Comments {
				check(name, group.Text())
			}
		case ".md":
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if filepath.ToSlash(name) != index {
				check(name, withoutCode(string(text)))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(known) < 100 || found < 100 {
		t.Errorf("%d numbers are explained and %d are used: the test looks at too little", len(known), found)
	}
}

// withoutCode returns a Markdown text without its code blocks.
func withoutCode(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "```") {
		if i%2 == 0 {
			b.WriteString(part)
		}
	}
	return b.String()
}
