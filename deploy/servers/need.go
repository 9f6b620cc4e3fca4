package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
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
