package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// tool is a program that the machine must have. It is checked by running it.
type tool struct {
	program string
	debian  string // the package that brings it
	check   func(ctx context.Context) error
}

func maven() tool {
	return tool{program: "mvn", debian: "maven", check: func(ctx context.Context) error { return runs(ctx, "mvn", "--version") }}
}

func goTool() tool {
	return tool{program: "go", debian: "golang-go", check: func(ctx context.Context) error { return runs(ctx, "go", "version") }}
}

func java17() tool {
	return tool{program: "java (17)", debian: "openjdk-17-jre-headless", check: func(ctx context.Context) error {
		_, err := findJava(ctx)
		return err
	}}
}

func runs(ctx context.Context, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil && len(out) > 0 {
		return fmt.Errorf("%w: %s", err, lastLines(string(out), 3))
	}
	return err
}

// atLeast reads the first number of what a program says of its version.
func atLeast(ctx context.Context, least int, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return err
	}
	found, ok := major(string(out))
	if !ok || found < least {
		return fmt.Errorf("version %d or newer is needed, it says %s", least, lastLines(string(out), 1))
	}
	return nil
}

// major finds the first number that is followed by a point: 17 in
// openjdk version "17.0.15", 7 in Redis server v=7.0.15.
func major(version string) (int, bool) {
	m := regexp.MustCompile(`([0-9]+)\.`).FindStringSubmatch(version)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// findJava looks for Java 17, which both servers run on: where JAVA_HOME says, in
// the path, and where Debian puts it beside others.
func findJava(ctx context.Context) (string, error) {
	var candidates []string
	if home := os.Getenv("JAVA_HOME"); home != "" {
		candidates = append(candidates, filepath.Join(home, "bin", "java"))
	}
	if found, err := exec.LookPath("java"); err == nil {
		candidates = append(candidates, found)
	}
	beside, err := filepath.Glob("/usr/lib/jvm/java-17-*/bin/java")
	if err != nil {
		return "", err
	}
	for _, java := range append(candidates, beside...) {
		out, err := exec.CommandContext(ctx, java, "-version").CombinedOutput()
		if found, ok := major(string(out)); err == nil && ok && found == 17 {
			return java, nil
		}
	}
	return "", fmt.Errorf("no Java 17 in JAVA_HOME, the path or /usr/lib/jvm (looked at %d)", len(candidates)+len(beside))
}
