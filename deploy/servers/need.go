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

// missing is a required tool that does not work, and the reason.
type missing struct {
	tool
	why error
}

// missingTools returns the tools of a server that are missing. The tools for the
// download are needed only until the software is in the cache.
func (r *runner) missingTools(ctx context.Context, name string) []missing {
	rec, _ := recipeOf(name)
	tools := rec.tools()
	if s, needed := rec.software(r.cache); needed && !r.cache.has(s) {
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

// need prints one line per server and returns an error if one of them cannot run.
func (r *runner) need(ctx context.Context) error {
	if r.install {
		if err := r.ensureTools(ctx); err != nil {
			r.say("%v", err) // the other servers may still run
		}
	}
	failed := false
	for _, name := range r.servers {
		lacking := r.missingTools(ctx, name)
		if len(lacking) == 0 {
			fmt.Fprintf(r.out, "%s ok\n", name)
			continue
		}
		failed = true
		var words []string
		for _, m := range lacking {
			words = append(words, fmt.Sprintf("%s (Debian package %s)", m.program, m.debian))
		}
		fmt.Fprintf(r.out, "%s misses %s\n", name, strings.Join(words, ", "))
	}
	if failed {
		return errors.New("some servers cannot run here; install what is missing, or add --install (on Debian, as root)")
	}
	return nil
}

// ensureTools checks that every tool is there, and with --install installs what is
// missing.
func (r *runner) ensureTools(ctx context.Context) error {
	var all []missing
	var names []string
	for _, name := range r.servers {
		for _, m := range r.missingTools(ctx, name) {
			if !slices.ContainsFunc(all, func(o missing) bool { return o.debian == m.debian }) {
				all = append(all, m)
			}
			r.say("%s needs %s: %v", name, m.program, m.why)
		}
	}
	for _, m := range all {
		names = append(names, m.debian)
	}
	if len(all) == 0 {
		return nil
	}
	if !r.install {
		return fmt.Errorf("missing on this machine: %s (Debian packages); install them, or add --install (on Debian, as root)", strings.Join(names, ", "))
	}
	if err := r.apt(ctx, names); err != nil {
		return err
	}
	for _, m := range all {
		if err := m.check(ctx); err != nil {
			return fmt.Errorf("%s was installed, but %s does not work: %w", m.debian, m.program, err)
		}
	}
	return nil
}

// policy is the file that keeps Debian packages from starting their services, so that
// tests do not find a server on its default port.
const policy = "/usr/sbin/policy-rc.d"

func (r *runner) apt(ctx context.Context, packages []string) error {
	if _, err := os.Stat("/etc/debian_version"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("--install needs Debian and root; install by hand: %s", strings.Join(packages, ", "))
	}
	r.say("installing with apt-get: %s (up to a minute or two)", strings.Join(packages, ", "))
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
	defer r.cache.watch(ctx, func() string { return "apt-get is running" })()
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, packages...)} {
		cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "Acquire::Retries=3"}, args...)...)
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, lastLines(string(out), 10))
		}
	}
	r.say("installed in %s", seconds(began))
	return nil
}

// fetch downloads all software into the cache and starts nothing.
func (r *runner) fetch(ctx context.Context) error {
	if err := r.ensureTools(ctx); err != nil {
		return err
	}
	for _, name := range r.servers {
		if _, err := r.ensureSoftware(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// ensureSoftware returns the folder of a server's software, "" if it is installed on
// the system.
func (r *runner) ensureSoftware(ctx context.Context, name string) (string, error) {
	rec, _ := recipeOf(name)
	s, needed := rec.software(r.cache)
	if !needed {
		return "", nil
	}
	return r.cache.ensure(ctx, s)
}

// tool is a program that must be installed. It is checked by running it.
type tool struct {
	program string
	debian  string // the package that contains it
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

// atLeast checks the major version that a program prints.
func atLeast(ctx context.Context, least int, program string, args ...string) error {
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return err
	}
	found, ok := major(string(out))
	if !ok || found < least {
		return fmt.Errorf("version %d or newer is required, found %s", least, lastLines(string(out), 1))
	}
	return nil
}

// major returns the first number that is followed by a dot: 17 in
// openjdk version "17.0.15", 7 in Redis server v=7.0.15.
func major(version string) (int, bool) {
	m := regexp.MustCompile(`([0-9]+)\.`).FindStringSubmatch(version)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}

// findJava returns the path of Java 17, which Cassandra and Kafka need. It looks in
// JAVA_HOME, in the path and in Debian's folder of Java versions.
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
	return "", fmt.Errorf("no Java 17 in JAVA_HOME, the path or /usr/lib/jvm (checked %d)", len(candidates)+len(beside))
}
