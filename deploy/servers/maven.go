package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// jars is a server from Maven Central: what to ask for, and what must come.
type jars struct {
	name, version, cost string
	pom, list           []byte
}

// software asks Maven to resolve the pom and compares every jar with the list.
func (j jars) software(c cache) software {
	return software{
		name: j.name + "-" + j.version + "-" + key(j.list),
		cost: j.cost, tools: []tool{maven()},
		get: func(ctx context.Context, into string) error { return j.get(ctx, c, into) },
		verify: func(folder string) error {
			list, err := parseSums(j.list)
			if err != nil {
				return err
			}
			return list.verify(folder)
		},
	}
}

// get works in a folder of its own, so that nothing else in the user's Maven
// repository is used or changed; settings with a mirror still count.
func (j jars) get(ctx context.Context, c cache, into string) error {
	work, err := workshop(into)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	pom := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(pom, j.pom, 0o644); err != nil {
		return err
	}
	defer c.watch(ctx, func() string {
		return fmt.Sprintf("%s: %d MB so far, Maven's own parts among them", j.name, sizeOf(work)>>20)
	})()
	return c.persist(ctx, j.name, func() error { return j.copyInto(ctx, pom, into) })
}

func (j jars) copyInto(ctx context.Context, pom, into string) error {
	cmd := exec.CommandContext(ctx, "mvn", "-B", "-ntp", "-f", pom, "-Dmaven.repo.local="+filepath.Join(filepath.Dir(pom), "repository"),
		"org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies", "-DincludeScope=runtime",
		"-DexcludeClassifiers=osx-x86_64,osx-aarch_64,windows-x86_64,linux-aarch_64,linux-riscv64", "-DoutputDirectory="+into)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn: %w\n%s", err, lastLines(string(out), 15))
	}
	return nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
