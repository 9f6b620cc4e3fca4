package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// jars is a server from Maven Central: the pom to resolve and the expected checksums.
type jars struct {
	name, version, cost string
	pom, list           []byte
}

// software resolves the pom with Maven and compares every jar with the list.
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

// get uses a separate Maven repository, so that the user's own is neither used nor
// changed; the user's Maven settings, such as a mirror, still apply.
func (j jars) get(ctx context.Context, c cache, into string) error {
	work, err := emptyWorkFolder(into)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	pom := filepath.Join(work, "pom.xml")
	if err := os.WriteFile(pom, j.pom, 0o644); err != nil {
		return err
	}
	defer c.watch(ctx, func() string {
		return fmt.Sprintf("%s: %d MB so far, including Maven's own files", j.name, sizeOf(work)>>20)
	})()
	return c.retry(ctx, j.name, func() error { return j.copyInto(ctx, pom, into) })
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

// program is a server that is built from the Go module proxy. Its go.sum has the
// expected checksums.
type program struct {
	name, version, cost string
	pkg                 string
	mod, sum            []byte
}

// sumName is the file with the SHA-256 of the built program, to detect damage later.
const sumName = "SHA256SUMS"

func (p program) software(c cache) software {
	return software{
		name:   p.name + "-" + p.version + "-" + key(p.mod, p.sum, []byte(runtime.GOOS), []byte(runtime.GOARCH)),
		cost:   p.cost,
		tools:  []tool{goTool()},
		get:    func(ctx context.Context, into string) error { return p.get(ctx, c, into) },
		verify: verifyBuilt,
	}
}

func verifyBuilt(folder string) error {
	text, err := os.ReadFile(filepath.Join(folder, sumName))
	if err != nil {
		return err
	}
	list, err := parseSums(text)
	if err != nil {
		return err
	}
	for name, want := range list {
		got, err := sumOf(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s has SHA-256 %s, expected %s", filepath.Join(folder, name), got, want)
		}
	}
	return nil
}

func (p program) get(ctx context.Context, c cache, into string) error {
	work, err := emptyWorkFolder(into)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for name, text := range map[string][]byte{"go.mod": p.mod, "go.sum": p.sum} {
		if err := os.WriteFile(filepath.Join(work, name), text, 0o644); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(into, 0o755); err != nil {
		return err
	}
	defer c.watch(ctx, func() string { return p.name + ": the Go tool downloads and compiles" })()
	built := filepath.Join(into, p.name)
	if err := c.retry(ctx, p.name, func() error { return p.build(ctx, work, built) }); err != nil {
		return err
	}
	sum, err := sumOf(built)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(into, sumName), fmt.Appendf(nil, "%s  %s\n", sum, p.name), 0o644)
}

func (p program) build(ctx context.Context, work, built string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-o", built, p.pkg)
	cmd.Dir = work
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, lastLines(string(out), 15))
	}
	return nil
}
