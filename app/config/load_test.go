package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
)

func fileOf(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mayfly.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// changed returns a configuration in which no field has its default.
func changed(t *testing.T) config.Config {
	t.Helper()
	c := config.Default()
	c.Data = "/var/lib/mayfly: data"
	var change func(v reflect.Value)
	change = func(v reflect.Value) {
		switch into := v.Addr().Interface().(type) {
		case *string:
			*into += "x1"
		case *mayfly.Secret:
			*into = "canary"
		case *bool:
			*into = !*into
		case *[]string:
			*into = []string{"a.example.org", "* b"}
		case *[]mayfly.Lifetime:
			*into = append(*into, config.Default().Stories.Lifetimes[1])
		case *mayfly.Lifetime:
			*into = config.Default().Stories.Lifetimes[2]
		case *config.Rate:
			into.Count++
		default:
			switch {
			case v.Kind() == reflect.Struct:
				for i := range v.NumField() {
					change(v.Field(i))
				}
			case v.CanInt():
				v.SetInt(v.Int() + 1_000_000) // a millisecond, or a million
			case v.CanFloat():
				v.SetFloat(v.Float() / 2)
			default:
				t.Fatalf("%s cannot be changed", v.Type())
			}
		}
	}
	change(reflect.ValueOf(&c).Elem())
	return c
}

func TestTheDescribedFileLoadsBackToTheSameSettings(t *testing.T) {
	want := config.Default()
	want.Data = config.DefaultData
	text, err := config.Describe(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := config.Load(config.Sources{File: fileOf(t, text)})
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := config.Describe(got); again != text {
		t.Errorf("a second description differs")
	}
	normal := func(c config.Config) config.Config {
		for _, list := range []*[]string{&c.Listen.ACME, &c.Listen.Origins, &c.Listen.Proxies, &c.Cassandra.Hosts, &c.Cassandra.DataCentres, &c.Redis.Addresses, &c.Kafka.Brokers} {
			if len(*list) == 0 {
				*list = nil
			}
		}
		return c
	}
	if !reflect.DeepEqual(normal(got), normal(want)) {
		t.Errorf("%+v\n%+v", got, want)
	}
}

func TestEveryKeyLoadsBackWhatItPrints(t *testing.T) {
	want := changed(t)
	text, err := config.Describe(want)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "canary") {
		t.Error("a secret is printed")
	}
	got := config.Config{}
	if _, err := config.Load(config.Sources{File: fileOf(t, text)}); err == nil || strings.Contains(err.Error(), "unknown key") {
		t.Fatalf("want a file that parses and does not validate, got %v", err)
	}
	// Load returns only valid settings, so each key is set alone over the defaults.
	for _, key := range config.Keys() {
		got, err = config.Load(config.Sources{File: fileOf(t, ""), Flags: map[string]string{key: want.Text(key)}})
		if err != nil {
			if strings.Contains(err.Error(), "flag "+key) {
				t.Errorf("%s: %v", key, err)
			}
			continue // it was parsed and is out of bounds
		}
		if got.Text(key) != want.Text(key) {
			t.Errorf("%s is %q, not %q", key, got.Text(key), want.Text(key))
		}
	}
}

func TestEveryKeyHasAComment(t *testing.T) {
	text, err := config.Describe(valid())
	if err != nil {
		t.Fatal(err)
	}
	comment, above := "", false // the last comment, and whether the line before was one
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, _, isKey := strings.Cut(line, ":")
		switch {
		case strings.HasPrefix(line, "#") && above:
			comment += line
		case strings.HasPrefix(line, "#"):
			comment = line
		case isKey && !above && !strings.Contains(comment, name):
			t.Errorf("%s has no comment, and the one above it does not name it: %s", name, comment)
		}
		above = strings.HasPrefix(line, "#")
	}
	for _, goName := range []string{"Walk.Settle", "MaxImage", "HeaderWithin"} {
		if strings.Contains(text, goName) {
			t.Errorf("the manual has the Go name %s instead of its key", goName)
		}
	}
}

func TestFlagsOverrideTheEnvironmentWhichOverridesTheFile(t *testing.T) {
	file := fileOf(t, "walk: {page: 10, batch: 20}\nnode: one\nlisten.max_connections: 7\nmedia:\n  max: 128 MiB\nstories: {lifetimes: [1h, 7d]}\n")
	c, err := config.Load(config.Sources{
		File:    file,
		Environ: []string{"MAYFLY_WALK_BATCH=21", "MAYFLY_NODE=two", "MAYFLY_LISTEN_ORIGINS=https://a.example, https://b.example", "PATH=x", "MAYFLY_RATES_WRITES=5/1m"},
		Flags:   map[string]string{"node": "three"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Walk.Page != 10 || c.Walk.Batch != 21 || c.Node != "three" || c.Listen.Connections != 7 || c.Media.Max != 128*config.MiB {
		t.Errorf("%+v", c)
	}
	if c.Data != config.DefaultData || len(c.Listen.Origins) != 2 || c.Listen.Origins[1] != "https://b.example" {
		t.Errorf("%+v", c.Listen)
	}
	if c.Rates.Writes != (config.Rate{Count: 5, Per: time.Minute}) || len(c.Stories.Lifetimes) != 2 || c.Stories.Lifetimes[1].Duration() != 7*24*time.Hour {
		t.Errorf("%+v %+v", c.Rates, c.Stories)
	}
}

func TestErrorsOfAFileNameTheLineAndWhatToDo(t *testing.T) {
	for _, row := range []struct{ file, env, want, hint string }{
		{file: "node: a\nwalk:\n  intervall: 1s\n", want: ":3: walk.intervall: unknown key", hint: "did you mean walk.interval?"},
		{file: "interval: 1s\n", want: ":1: interval: unknown key", hint: "did you mean walk.interval?"},
		{file: "listen:\n  prt: 1\n  api: ':1'\n", want: ":2: listen.prt: unknown key", hint: "config describe"},
		{file: "zzzzzzzzzz: 1\n", want: ":1: zzzzzzzzzz: unknown key", hint: "prints every key"},
		{file: "walk: 5\n", want: "walk: this is a section", hint: "walk.interval"},
		{file: "walk:\n  page: many\n", want: `:2: walk.page: invalid number "many"`, hint: "write a number"},
		{file: "walk:\n  page:\n", want: "walk.page: the value is missing", hint: "write one"},
		{file: "walk:\n  page: [1, 2]\n", want: "a list is not allowed", hint: "one value"},
		{file: "walk:\n  settle: 15\n", want: `invalid duration "15"`, hint: "90m"},
		{file: "media:\n  max: 5 apples\n", want: "invalid size", hint: "64MiB"},
		{file: "media:\n  max: 99999999999GiB\n", want: "invalid size", hint: "64MiB"},
		{file: "rates:\n  reads: often\n", want: "invalid rate", hint: "300/3h"},
		{file: "stories:\n  lifetimes: [soon]\n", want: `lifetime "soon"`, hint: "24h"},
		{file: "stories:\n  lifetimes: [[1h]]\n", want: "a list in a list", hint: "[one, two]"},
		{file: "node: 2026-01-01\n", want: "invalid value", hint: "quotes"},
		{file: "node: a\nnode: b\n", want: "already defined", hint: "config describe"},
		{file: "node: [\n", want: "mayfly.yaml", hint: "config describe"},
		{file: "- a\n", want: "mayfly.yaml", hint: "config describe"},
		{env: "MAYFLY_WALK_INTERVALL=1s", want: "unknown environment variable MAYFLY_WALK_INTERVALL", hint: "MAYFLY_WALK_INTERVAL"},
		{env: "MAYFLY_DATTA=x", want: "unknown environment variable MAYFLY_DATTA", hint: "MAYFLY_DATA"},
		{env: "MAYFLY_WALK_PAGE=x", want: `MAYFLY_WALK_PAGE: invalid number "x"`, hint: "write a number"},
		{file: "walk:\n  page: 0\n", want: "walk.page is 0", hint: "from 1 to"},
	} {
		_, err := config.Load(config.Sources{File: fileOf(t, row.file), Environ: []string{row.env}})
		if !errors.Is(err, mayfly.Invalid) || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), row.hint) {
			t.Errorf("%q %q: %v", row.file, row.env, err)
		}
	}
}

func TestOtherEnvironmentVariablesAreIgnored(t *testing.T) {
	if _, err := config.Load(config.Sources{File: fileOf(t, "# nothing\nwalk:\n"), Environ: []string{
		"MAYFLY_SERVER=x", "MAYFLY_TOKEN=x", "MAYFLY_USER=x", "MAYFLY_PORT=tcp://10.0.0.1:7420", "MAYFLY_SERVICE_HOST=10.0.0.1",
		"MAYFLY_PORT_7420_TCP_ADDR=10.0.0.1", "MAYFLY_SEED=1", "MAYFLY_LONG=1", "MAYFLY_ADMIN=x",
		"MAYFLY_REDIS_PORT=tcp://10.0.0.1:6379", "MAYFLY_REDIS_SERVICE_HOST=10.0.0.1", "MAYFLY_KAFKA_SERVICE_PORT_CLIENT=9092", "MAYFLY_S3_PORT_443_TCP_ADDR=10.0.0.2",
	}}); err != nil {
		t.Fatal(err)
	}
}

func TestTheFileIsOptionalUnlessItIsNamed(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := config.Load(config.Sources{}); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(config.Sources{File: "other.yaml"}); !errors.Is(err, mayfly.NotFound) || !strings.Contains(err.Error(), "config describe > other.yaml") {
		t.Fatal(err)
	}
	if err := os.WriteFile(config.DefaultFile, []byte("node: here"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := config.Load(config.Sources{}); err != nil || c.Node != "here" {
		t.Fatal(c.Node, err)
	}
}

func TestPasswordsInURLsAreNotPrinted(t *testing.T) {
	c := valid()
	c.Tokens.Trusted, c.Tokens.JWKSURL = "https://id.example", "https://name:canary@id.example/keys"
	c.Listen.Public = "ftp://u:canary@x"
	text, err := config.Describe(c)
	if err != nil || strings.Contains(text, "canary") || !strings.Contains(text, "https://id.example/keys") {
		t.Errorf("%v\n%s", err, text)
	}
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), "canary") {
		t.Error(err)
	}
}

func TestSizesAndRatesParseWhatTheyPrint(t *testing.T) {
	for text, want := range map[string]config.Bytes{"0B": 0, "100": 100, "1KiB": config.KiB, "3 MiB": 3 * config.MiB, "1GiB": config.GiB, "1025B": 1025} {
		got, err := config.ParseBytes(text)
		if err != nil || got != want {
			t.Errorf("%s: %d %v", text, got, err)
		}
		if again, err := config.ParseBytes(got.String()); err != nil || again != want {
			t.Errorf("%s: %s", text, got)
		}
	}
	for _, text := range []string{"300/3h", "0", "1500/15m", "1/1s"} {
		if r, err := config.ParseRate(text); err != nil || r.String() != text {
			t.Errorf("%s: %s %v", text, r, err)
		}
	}
}
