package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// missing is a tool that a server lacks, and why it does not do.
type missing struct {
	tool
	why error
}

// lacks says which tools of a server are not there. What gets its software is
// needed only until that is in the cache.
func (h *house) lacks(ctx context.Context, name string) []missing {
	r, _ := recipeOf(name)
	tools := r.tools()
	if s, needed := r.software(h.cache); needed && !h.cache.has(s) {
		tools = append(tools, s.tools...)
	}
	var list []missing
	for _, t := range tools {
		if err := t.check(ctx); err != nil {
			list = append(list, missing{t, err})
		}
	}
	return list
}

// need prints a line for each server, and fails if one cannot run.
func (h *house) need(ctx context.Context) error {
	if h.install {
		if err := h.provide(ctx); err != nil {
			h.say("%v", err) // some of them may run all the same
		}
	}
	failed := false
	for _, name := range h.servers {
		lacking := h.lacks(ctx, name)
		if len(lacking) == 0 {
			fmt.Fprintf(h.out, "%s ok\n", name)
			continue
		}
		failed = true
		var words []string
		for _, m := range lacking {
			words = append(words, fmt.Sprintf("%s (Debian package %s)", m.program, m.debian))
		}
		fmt.Fprintf(h.out, "%s misses %s\n", name, strings.Join(words, ", "))
	}
	if failed {
		return errors.New("not every server can run here: install what is missing, or on Debian as root add --install")
	}
	return nil
}

// provide makes sure that every tool is there, installing what is missing if the
// order says so.
func (h *house) provide(ctx context.Context) error {
	var all []missing
	var names []string
	for _, name := range h.servers {
		for _, m := range h.lacks(ctx, name) {
			if !slices.ContainsFunc(all, func(o missing) bool { return o.debian == m.debian }) {
				all = append(all, m)
			}
			h.say("%s needs %s: %v", name, m.program, m.why)
		}
	}
	for _, m := range all {
		names = append(names, m.debian)
	}
	if len(all) == 0 {
		return nil
	}
	if !h.install {
		return fmt.Errorf("missing on this machine: %s (names of Debian packages); install them, or on Debian as root add --install", strings.Join(names, ", "))
	}
	if err := h.apt(ctx, names); err != nil {
		return err
	}
	for _, m := range all {
		if err := m.check(ctx); err != nil {
			return fmt.Errorf("%s was installed, but %s does not do: %w", m.debian, m.program, err)
		}
	}
	return nil
}

// policy keeps a package from starting its service at once: ours are started by
// us, and a test must not meet a server on a usual port.
const policy = "/usr/sbin/policy-rc.d"

func (h *house) apt(ctx context.Context, packages []string) error {
	if _, err := os.Stat("/etc/debian_version"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("--install works on Debian, as root; here, install by hand: %s", strings.Join(packages, ", "))
	}
	h.say("installing with apt-get: %s (up to a minute or two)", strings.Join(packages, ", "))
	f, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	switch {
	case err == nil:
		defer os.Remove(policy)
		if _, err := f.WriteString("#!/bin/sh\nexit 101\n"); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
	case !errors.Is(err, os.ErrExist):
		return err
	}
	began := time.Now()
	defer h.cache.watch(ctx, func() string { return "apt-get works" })()
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, packages...)} {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "Acquire::Retries=3"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, lastLines(string(out), 10))
		}
	}
	h.say("installed in %s", seconds(began))
	return nil
}

// fetch gets everything into the cache and starts nothing.
func (h *house) fetch(ctx context.Context) error {
	if err := h.provide(ctx); err != nil {
		return err
	}
	for _, name := range h.servers {
		if _, err := h.have(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// have returns the folder of a server's software; "" if it comes with the system.
func (h *house) have(ctx context.Context, name string) (string, error) {
	r, _ := recipeOf(name)
	s, needed := r.software(h.cache)
	if !needed {
		return "", nil
	}
	return h.cache.ensure(ctx, s)
}

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
