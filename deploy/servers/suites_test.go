package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A test with the build tag servers that no suite of scripts/test-cluster includes would
// never run, and nothing would report it.
func TestEveryTestOnRealServersIsInASuite(t *testing.T) {
	const root = "../.."
	script, err := os.ReadFile(filepath.Join(root, "scripts/test-cluster"))
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]*regexp.Regexp{} // with the pattern of the tests that are run
	for _, line := range regexp.MustCompile(`(?m)^(?:\[.*\|\| |\S+=\S+ )?suite .*$`).FindAllString(string(script), -1) {
		run := regexp.MustCompile("")
		if found := regexp.MustCompile(`-run '?([^' ]+)`).FindStringSubmatch(line); found != nil {
			if run = regexp.MustCompile(found[1]); found[1] == `"$run"` { // tests that take turns, which it finds by their names
				run = regexp.MustCompile(`^Test[A-Za-z0-9]*$`)
			}
		}
		for _, found := range regexp.MustCompile(` \./(\S+)`).FindAllStringSubmatch(line, -1) {
			folders[found[1]] = run
		}
	}
	for _, found := range regexp.MustCompile(`(?m)^driver (\w+) `).FindAllStringSubmatch(string(script), -1) {
		folders["store/"+found[1]] = regexp.MustCompile("")
	}
	tests := 0
	for _, file := range behindTheTag(t, root) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)`).FindAllStringSubmatch(string(text), -1) {
			tests++
			if run := folders[filepath.ToSlash(filepath.Dir(file))]; run == nil || !run.MatchString(found[1]) {
				t.Errorf("%s: %s is in no suite", file, found[1])
			}
		}
	}
	if tests < 50 {
		t.Errorf("only %d tests were looked at", tests)
	}
}

// behindTheTag returns the test files with the build tag servers.
func behindTheTag(t *testing.T, root string) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err == nil && slices.Contains(strings.Split(string(text), "\n"), "//go:build servers") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
