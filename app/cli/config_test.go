package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestConfigDescribeAndCheck(t *testing.T) {
	t.Chdir(t.TempDir())
	text := runVerb(t, exitOK, "# interval is how often", "config", "describe")
	if err := os.WriteFile("all.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	runVerb(t, exitOK, "0 of ", "config", "check", "all.yaml")
	runVerb(t, exitOK, "0 of ", "config", "check")
	t.Setenv("MAYFLY_WALK_INTERVAL", "2s")
	runVerb(t, exitOK, "walk.interval: 2s (default: 1s)", "config", "check")
	runVerb(t, exitOK, "walk.interval: 3s (default: 1s)", "config", "check", "--set", "walk.interval=3s")
	runVerb(t, exitUsage, "did you mean walk.page?", "config", "check", "--set", "walk.pag=3")
	runVerb(t, exitUsage, "--set key=value", "config", "check", "--set", "walk.page")
	if err := os.WriteFile("mayfly.yaml", []byte("walk:\n  intervall: 2s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runVerb(t, exitUsage, "mayfly.yaml:2: walk.intervall: unknown key", "config", "check")
	runVerb(t, exitUsage, "mayfly.yaml:2", "serve", "--data", "data")
	if _, err := os.Stat("data"); err == nil {
		t.Error("a folder was created")
	}
}

func TestATokenNeedsTheKeyOfAServer(t *testing.T) {
	t.Chdir(t.TempDir())
	runVerb(t, exitWrong, "mayfly serve makes the key", "token", "--user", "ana")
	runVerb(t, exitUsage, "--user is missing", "token")
	runVerb(t, exitUsage, "choose user, service", "token", "--scope", "king")
	runVerb(t, exitUsage, "--log-level", "serve", "--log-level", "loud")
	if found, _ := filepath.Glob("*"); len(found) > 0 {
		t.Errorf("files left: %v", found)
	}
}

func TestEveryVerbHasHelpWithExamples(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		shown := c.Example != "" || c.HasParent() && c.Parent().HasParent() && c.Parent().Example != "" // with its siblings
		if c.Short == "" || !shown && c.Name() != "version" && !c.Hidden {
			t.Errorf("%s: no example, or no line in the help above it", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		runVerb(t, exitOK, "mayfly", "completion", shell)
	}
	if text := runVerb(t, exitOK, "", "__complete", "story", "publish", "--audience", ""); !strings.Contains(text, "close_friends") {
		t.Error(text)
	}
}
