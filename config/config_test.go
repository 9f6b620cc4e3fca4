package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/config"
)

func valid() config.Config {
	c := config.Default()
	c.Data = "data"
	return c
}

func TestDefaultsAreValidAndFitTheirMemory(t *testing.T) {
	if err := valid().Validate(); err != nil {
		t.Fatal(err)
	}
	if limit := config.Default().Memory.Limit; limit > 512*config.MiB*9/10 {
		t.Fatalf("a limit of %d MiB leaves no room below 512 MiB resident", limit/config.MiB)
	}
	if got := config.Default().Stories.Lifetimes[0].String(); got != "24h" {
		t.Fatalf("the default lifetime is %s", got)
	}
}

func TestDefaultsAreNotShared(t *testing.T) {
	c := config.Default()
	c.Stories.Lifetimes[0] = mayfly.Never
	if config.Default().Stories.Lifetimes[0] == mayfly.Never {
		t.Fatal("one caller's change is another's default")
	}
}

func TestWhatCannotWorkIsRefusedWithAHint(t *testing.T) {
	for name, spoil := range map[string]func(*config.Config){
		"data is empty":               func(c *config.Config) { c.Data = "" },
		"node is":                     func(c *config.Config) { c.Node = "" },
		"stories.lifetimes is empty":  func(c *config.Config) { c.Stories.Lifetimes = nil },
		"never is no lifetime":        func(c *config.Config) { c.Stories.Lifetimes[1] = mayfly.Never },
		"is not shorter than":         func(c *config.Config) { c.Births.Timeout = 15 * time.Second },
		"walk.settle is":              func(c *config.Config) { c.Walk.Settle = 0 },
		"walk.page is":                func(c *config.Config) { c.Walk.Page = 0 },
		"walk.batch is":               func(c *config.Config) { c.Walk.Batch = -1 },
		"clock.limit is":              func(c *config.Config) { c.Clock.Limit = -time.Minute },
		"is shorter than clock.limit": func(c *config.Config) { c.Clock.Outage = 2 * time.Minute },
		"clock.save_period is":        func(c *config.Config) { c.Clock.SavePeriod = 0 },
		"log.retention is":            func(c *config.Config) { c.Log.Retention = 0 },
		"disk.floor is":               func(c *config.Config) { c.Disk.Floor = -1 },
		"the parts of memory take":    func(c *config.Config) { c.Memory.Cache = config.GiB },
		"over a quarter":              func(c *config.Config) { c.Media.Inline = 4 * config.MiB },
		"disk.share is":               func(c *config.Config) { c.Disk.Share = 1.5 },
		"ends.verify is":              func(c *config.Config) { c.Ends.Verify = "trust" },
		"ends.archive_after is":       func(c *config.Config) { c.Ends.ArchiveAfter = 0 },
		"ends.archive_workers is":     func(c *config.Config) { c.Ends.ArchiveWorkers = 0 },
		"ends.tombstone is":           func(c *config.Config) { c.Ends.Tombstone = 0 },
		"ends.orphan_age is":          func(c *config.Config) { c.Ends.OrphanAge = 23 * time.Hour },
		"is not longer than ends.rec": func(c *config.Config) { c.Ends.ReconcileLate = time.Minute },
		"ends.retire_after 1h0m0s is": func(c *config.Config) { c.Ends.RetireAfter = time.Hour },
		"retry.tries is":              func(c *config.Config) { c.Retry.Tries = 0 },
		"retry.longest 1s is shorter": func(c *config.Config) { c.Retry.Longest = time.Second },
		"media.max_count is":          func(c *config.Config) { c.Media.MaxCount = 256 },
	} {
		c := valid()
		spoil(&c)
		err := c.Validate()
		if !errors.Is(err, mayfly.Invalid) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "(") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAllThatIsWrongIsSaidAtOnce(t *testing.T) {
	c := valid()
	c.Data, c.Walk.Page, c.Births.Timeout = "", 0, time.Minute
	if err := c.Validate(); strings.Count(err.Error(), "config: ") != 3 {
		t.Fatal(err)
	}
}

func TestTheDeletionLedgerLiesBesideTheDataFolder(t *testing.T) {
	c := valid()
	for data, want := range map[string]string{"data": "data-erased", "./a/b/": "a/b-erased", "/x": "/x-erased"} {
		if c.Data = data; c.DeletionsFolder() != want {
			t.Errorf("%s: %s", data, c.DeletionsFolder())
		}
	}
	if c.Deletions = "elsewhere"; c.DeletionsFolder() != "elsewhere" {
		t.Error(c.DeletionsFolder())
	}
}
