package config_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
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

func TestInvalidSettingsAreRefusedWithAHint(t *testing.T) {
	for name, spoil := range map[string]func(*config.Config){
		"pastes.hourly_bytes 10485759B is less": func(c *config.Config) { c.Pastes.HourlyBytes = c.Pastes.MaxSize - 1 },
		"data is empty":                         func(c *config.Config) { c.Data = "" },
		"node is":                               func(c *config.Config) { c.Node = "" },
		"stories.lifetimes is empty":            func(c *config.Config) { c.Stories.Lifetimes = nil },
		"invalid lifetime never":                func(c *config.Config) { c.Stories.Lifetimes[1] = mayfly.Never },
		"is not shorter than":                   func(c *config.Config) { c.Births.Timeout = 15 * time.Second },
		"walk.settle is":                        func(c *config.Config) { c.Walk.Settle = 0 },
		"walk.page is":                          func(c *config.Config) { c.Walk.Page = 0 },
		"walk.batch is":                         func(c *config.Config) { c.Walk.Batch = -1 },
		"clock.limit is":                        func(c *config.Config) { c.Clock.Limit = -time.Minute },
		"is shorter than clock.limit":           func(c *config.Config) { c.Clock.Outage = 2 * time.Minute },
		"clock.save_period is":                  func(c *config.Config) { c.Clock.SavePeriod = 0 },
		"log.retention is":                      func(c *config.Config) { c.Log.Retention = 0 },
		"disk.floor is":                         func(c *config.Config) { c.Disk.Floor = -1 },
		"the caches and buffers take":           func(c *config.Config) { c.Memory.Cache = config.GiB },
		"disk.share is":                         func(c *config.Config) { c.Disk.Share = 1.5 },
		"ends.verify is":                        func(c *config.Config) { c.Ends.Verify = "trust" },
		"ends.archive_after is":                 func(c *config.Config) { c.Ends.ArchiveAfter = 0 },
		"ends.archive_workers is":               func(c *config.Config) { c.Ends.ArchiveWorkers = 0 },
		"ends.tombstone is":                     func(c *config.Config) { c.Ends.Tombstone = 0 },
		"ends.orphan_age is":                    func(c *config.Config) { c.Ends.OrphanAge = 23 * time.Hour },
		"is not longer than ends.rec":           func(c *config.Config) { c.Ends.ReconcileLate = time.Minute },
		"ends.retire_after 1h0m0s is":           func(c *config.Config) { c.Ends.RetireAfter = time.Hour },
		"ends.orphans_every is":                 func(c *config.Config) { c.Ends.OrphansEvery = 0 },
		"ends.scrub_every is":                   func(c *config.Config) { c.Ends.ScrubEvery = 0 },
		"ends.scrub_bytes is":                   func(c *config.Config) { c.Ends.ScrubBytes = -1 },
		"edge.varnish has":                      func(c *config.Config) { c.Edge.Varnish, c.Edge.Secret = []string{"10.0.0.5:6081"}, "s" },
		"edge.secret is empty":                  func(c *config.Config) { c.Edge.Varnish = []string{"http://10.0.0.5:6081"} },
		"edge.timeout is":                       func(c *config.Config) { c.Edge.Timeout = 0 },
		"retry.max_attempts is":                 func(c *config.Config) { c.Retry.Tries = 0 },
		"retry.max_backoff 1s is shorter":       func(c *config.Config) { c.Retry.Longest = time.Second },
		"media.max_count is":                    func(c *config.Config) { c.Media.MaxCount = 11 },
		"media.max_body is":                     func(c *config.Config) { c.Media.MaxBody = 0 },
		"over media.max 64MiB":                  func(c *config.Config) { c.Stories.MaxVideo = config.GiB },
		"stories.live is":                       func(c *config.Config) { c.Stories.Live = 0 },
		"stories.max_pixels is":                 func(c *config.Config) { c.Stories.MaxPixels = 0 },
		"stories.thumbnail_pixels is":           func(c *config.Config) { c.Stories.ThumbnailPixels = 0 },
		"stories.thumbnails is":                 func(c *config.Config) { c.Stories.Thumbnails = 0 },
		"stories.urls is":                       func(c *config.Config) { c.Stories.URLs = 0 },
		"stories.archive_urls is":               func(c *config.Config) { c.Stories.ArchiveURLs = 48 * time.Hour },
		`listen.api is ""`:                      func(c *config.Config) { c.Listen.API = "" },
		`listen.api is "7420"`:                  func(c *config.Config) { c.Listen.API = "7420" },
		`listen.admin is ":99999"`:              func(c *config.Config) { c.Listen.Admin = ":99999" },
		"listen.admin and listen.kv are":        func(c *config.Config) { c.Listen.Admin = c.Listen.API },
		`listen.kv are "127.0.0.1:7421"`:        func(c *config.Config) { c.Listen.KV = c.Listen.Admin },
		`listen.kv is "6380"`:                   func(c *config.Config) { c.Listen.KV = "6380" },
		`kv.namespaces has "A"`:                 func(c *config.Config) { c.KV.Namespaces = []string{"A"} },
		"kv.namespaces has a twice":             func(c *config.Config) { c.KV.Namespaces = []string{"a", "a"} },
		"kv.max_namespaces is":                  func(c *config.Config) { c.KV.MaxNamespaces = 0 },
		"kv.owner_quota is":                     func(c *config.Config) { c.KV.OwnerQuota = -1 },
		"kv.quota is":                           func(c *config.Config) { c.KV.Quota = -1 },
		"kv.max_key is":                         func(c *config.Config) { c.KV.MaxKey = 5000 },
		"kv.max_value is":                       func(c *config.Config) { c.KV.MaxValue = 0 },
		"kv.default_ttl is":                     func(c *config.Config) { c.KV.DefaultTTL = -1 },
		"is longer than kv.longest_ttl":         func(c *config.Config) { c.KV.DefaultTTL, c.KV.LongestTTL = time.Hour, time.Minute },
		"kv.rate is":                            func(c *config.Config) { c.KV.Rate.Count = -1 },
		"listen.public is":                      func(c *config.Config) { c.Listen.Public = "stories.example.org" },
		"listen.cert_file and listen.key_file":  func(c *config.Config) { c.Listen.Cert = "cert.pem" },
		"listen.acme_domains are both set": func(c *config.Config) {
			c.Listen.Cert, c.Listen.Key, c.Listen.ACME = "a", "b", []string{"a.example.org"}
		},
		"listen.acme_domains has":             func(c *config.Config) { c.Listen.ACME = []string{"localhost"} },
		"listen.acme_directory is":            func(c *config.Config) { c.Listen.Authority = "http://x" },
		"listen.origins has":                  func(c *config.Config) { c.Listen.Origins = []string{"*", "https://a.example/path"} },
		"listen.proxies has":                  func(c *config.Config) { c.Listen.Proxies = []string{"10.0.0.1", "10.0.0.0/33"} },
		"listen.header_timeout":               func(c *config.Config) { c.Listen.HeaderWithin = 0 },
		"listen.body_timeout":                 func(c *config.Config) { c.Listen.BodyWithin = 0 },
		"listen.idle_timeout":                 func(c *config.Config) { c.Listen.IdleWithin = 0 },
		"listen.drain_after":                  func(c *config.Config) { c.Listen.DrainAfter = -1 },
		"listen.drain_timeout":                func(c *config.Config) { c.Listen.DrainWithin = -1 },
		"listen.max_connections is":           func(c *config.Config) { c.Listen.Connections = 0 },
		"listen.max_connections_per_address":  func(c *config.Config) { c.Listen.PerAddress = 0 },
		"tokens.issuer is":                    func(c *config.Config) { c.Tokens.Issuer = "" },
		"tokens.audience is":                  func(c *config.Config) { c.Tokens.Audience = "" },
		"tokens.access is":                    func(c *config.Config) { c.Tokens.Access = 0 },
		"is shorter than tokens":              func(c *config.Config) { c.Tokens.Access, c.Tokens.Refresh = time.Hour, time.Minute },
		"jwks_file or tokens.jwks_url is set": func(c *config.Config) { c.Tokens.JWKSFile = "keys.json" },
		"0 sources of keys":                   func(c *config.Config) { c.Tokens.Trusted = "product" },
		"2 sources of keys": func(c *config.Config) {
			c.Tokens.Trusted, c.Tokens.JWKSFile, c.Tokens.JWKSURL = "product", "f", "https://x.example"
		},
		"tokens.trusted and tokens.issuer are the same": func(c *config.Config) { c.Tokens.Trusted, c.Tokens.JWKSFile = "mayfly", "f" },
		"tokens.jwks_url is":                            func(c *config.Config) { c.Tokens.Trusted, c.Tokens.JWKSURL = "product", "http://10.0.0.1/keys" },
		"rates.writes is":                               func(c *config.Config) { c.Rates.Writes.Count = -1 },
		"rates.address_reads is":                        func(c *config.Config) { c.Rates.AddressReads.Per = 0 },
		"rates.address_writes is":                       func(c *config.Config) { c.Rates.AddressWrites.Per = 0 },
		"traces.endpoint is":                            func(c *config.Config) { c.Traces.Endpoint = "collector:4318" },
		"traces.sample_ratio is":                        func(c *config.Config) { c.Traces.Share = 2 },
	} {
		c := valid()
		spoil(&c)
		err := c.Validate()
		if !errors.Is(err, mayfly.Invalid) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "(") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateReturnsAllErrors(t *testing.T) {
	c := valid()
	c.Data, c.Walk.Page, c.Births.Timeout = "", 0, time.Minute
	if err := c.Validate(); strings.Count(err.Error(), "config: ") != 3 {
		t.Fatal(err)
	}
}

func TestTheDeletionLedgerIsBesideTheDataFolder(t *testing.T) {
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
