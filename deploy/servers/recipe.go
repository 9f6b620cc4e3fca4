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

// recipe knows how to download, configure, start and check one kind of server.
type recipe interface {
	version() string
	clientPort() string                         // name of the port that clients use
	tools() []tool                              // installed programs that it needs to run
	software(c cache) (s software, needed bool) // what it downloads or builds

	// allocate chooses addresses and free ports; numbers and folders are set later.
	allocate(o options, p *ports) ([]node, error)
	// prepare writes the configuration of a node and returns the command to run.
	prepare(ctx context.Context, s server, n node, lib string) (command, error)
	// ping returns nil when the node answers a client request.
	ping(ctx context.Context, s server, n node) error
	// settle forms the cluster. It is called repeatedly once every node answers, until
	// it returns nil.
	settle(ctx context.Context, s server) error

	env(s server) []variable
}

// variable is an environment variable; its name follows the prefix.
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

// text returns an embedded file of the recipes folder. It panics if there is none.
func text(name string) []byte {
	b, err := recipes.ReadFile("recipes/" + name)
	if err != nil {
		panic(err)
	}
	return b
}

// fill executes a template of the recipes folder into a file.
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

// lines returns the lines of a file, without comments.
func lines(name string) []string {
	var options []string
	for line := range strings.Lines(string(text(name))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			options = append(options, line)
		}
	}
	return options
}

// folders creates folders below the folder of a node.
func folders(n node, names ...string) error {
	for _, name := range names {
		if err := os.MkdirAll(filepath.Join(n.Folder, name), 0o700); err != nil {
			return err
		}
	}
	return nil
}
