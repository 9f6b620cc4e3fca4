package main

import (
	"context"
	"embed"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed recipes
var recipes embed.FS

// recipe says how one kind of server is had, placed, started and asked.
type recipe interface {
	version() string
	door() string                               // name of the port that clients use
	tools() []tool                              // programs of the machine that it runs with
	software(c cache) (s software, needed bool) // what it downloads or builds

	// place chooses addresses and free ports; numbers and folders come later.
	place(o order, p *ports) ([]node, error)
	// prepare writes the configuration of a node and says what to run.
	prepare(ctx context.Context, s server, n node, lib string) (command, error)
	// reach is nil when the node answers a real question.
	reach(ctx context.Context, s server, n node) error
	// settle is asked, again and again, once every node answers, until the nodes
	// are one server.
	settle(ctx context.Context, s server) error

	env(s server) []variable
}

// variable is one line of the environment; the name goes behind the prefix.
type variable struct{ name, value string }

func recipeOf(name string) (recipe, bool) {
	switch name {
	case "cassandra":
		return cassandra{}, true
	case "kafka":
		return kafka{}, true
	case "redis":
		return redis{masters: 1}, true
	case "redis-cluster":
		return redis{masters: 3}, true
	case "s3":
		return s3{}, true
	}
	return nil, false
}

// text is a file of the recipes folder. They are compiled in: one that is
// missing is a fault of the build.
func text(name string) []byte {
	b, err := recipes.ReadFile("recipes/" + name)
	if err != nil {
		panic(err)
	}
	return b
}

// fill writes a template of the recipes folder into a file.
func fill(name, into string, values any) error {
	t, err := template.New(name).Option("missingkey=error").Parse(string(text(name)))
	if err != nil {
		return err
	}
	var out strings.Builder
	if err := t.Execute(&out, values); err != nil {
		return err
	}
	return os.WriteFile(into, []byte(out.String()), 0o600)
}

// lines are the options of a file, one a line, without comments.
func lines(name string) []string {
	var options []string
	for line := range strings.Lines(string(text(name))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			options = append(options, line)
		}
	}
	return options
}

// folders makes what a node keeps its things in.
func folders(n node, names ...string) error {
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(n.Folder, name), 0o700); err != nil {
			return err
		}
	}
	return nil
}
