package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// printed is the environment that deploy/servers prints; only what is in it is set.
func printed(t *testing.T, more map[string]string) {
	t.Helper()
	all := map[string]string{
		"CASSANDRA": "127.0.0.1:1,127.0.0.2:1,127.0.0.3:1", "KAFKA": "127.0.0.1:2", "REDIS": "127.0.0.1:3",
		"S3": "http://127.0.0.1:4", "S3_REGION": "us-east-1", "S3_BUCKET": "pot", "S3_KEY": "ana", "S3_SECRET": "canary",
	}
	for name, value := range more {
		all[name] = value
	}
	for name, value := range all {
		t.Setenv(testPrefix+name, value)
	}
	t.Chdir(t.TempDir()) // where there is no mayfly.yaml
}

func TestBenchClusterGoesByTheEnvironmentOfTheServers(t *testing.T) {
	printed(t, map[string]string{"KAFKA_CA": "ca.pem", "KAFKA_USER": "ana", "KAFKA_PASSWORD": "canary"})
	p, err := newClusterPlace(config.Sources{Flags: map[string]string{"kafka.partitions": "3"}}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := p.config
	if c.Profile != config.Cluster || len(c.Cassandra.Hosts) != 3 || c.Cassandra.Copies != 3 || c.Kafka.Copies != 1 || c.Redis.Addresses[0] != "127.0.0.1:3" {
		t.Errorf("%+v", c)
	}
	if !c.Kafka.TLS || c.Kafka.Authority != "ca.pem" || c.Kafka.User != "ana" || c.Cassandra.TLS || c.S3.Endpoint != "http://127.0.0.1:4" || c.S3.Secret.Reveal() != "canary" {
		t.Errorf("%+v %+v %+v", c.Kafka, c.Cassandra, c.S3)
	}
	if c.Kafka.Partitions != 3 {
		t.Errorf("a flag does not come over the environment: %d partitions", c.Kafka.Partitions)
	}
}

func TestBenchClusterHasAPlaceOfItsOwn(t *testing.T) {
	printed(t, nil)
	var seen []string
	for range 2 {
		p, err := newClusterPlace(config.Sources{}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := p.config.Validate(); err != nil {
			t.Error(err)
		}
		c, def := p.config, config.Default()
		for _, name := range []string{c.Cassandra.Keyspace, c.Kafka.Prefix, c.Redis.Prefix, c.S3.Hot, c.S3.Cold, c.S3.Deletions} {
			if slices.Contains(seen, name) || slices.Contains([]string{"", def.Cassandra.Keyspace, def.Kafka.Prefix, def.Redis.Prefix}, name) {
				t.Errorf("%q is not its own", name)
			}
			seen = append(seen, name)
		}
		if !strings.HasPrefix(c.S3.Hot, "pot/hot/") || !strings.HasPrefix(c.S3.Cold, "pot/cold/") {
			t.Errorf("%s and %s are not in the bucket", c.S3.Hot, c.S3.Cold)
		}
	}
}

func TestBenchClusterWithoutServersSaysHowToStartSome(t *testing.T) {
	printed(t, map[string]string{"CASSANDRA": "", "KAFKA": "", "REDIS": "", "S3": ""})
	var out bytes.Buffer
	err := Run(t.Context(), Options{Name: "cluster", Quick: true, JSON: true, Out: &out, Diagnostics: io.Discard})
	if err == nil || out.Len() > 0 {
		t.Fatalf("%v, %q", err, out.String())
	}
	for _, want := range []string{"go run ./deploy/servers up", "--config"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %q", want, err)
		}
	}
	embedded := config.Sources{Flags: map[string]string{"profile": "embedded"}}
	if err := Run(t.Context(), Options{Name: "cluster", Config: embedded, Out: &out, Diagnostics: io.Discard}); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("--profile embedded: %v", err)
	}
}

func TestBenchAllLeavesTheClusterAlone(t *testing.T) {
	for _, trial := range benchTrials() {
		if trial.servers != (trial.name == "cluster") {
			t.Errorf("%s: needs servers: %t", trial.name, trial.servers)
		}
	}
}

// lived is a store whose stories have all been archived, and the record of them.
type lived struct {
	e      *benchEngine
	record *clusterRecord
	some   []mayfly.Item
}

// newLived lets stories live, then plants what must not be.
func newLived(t *testing.T, plant func(testing.TB, *store.Set, mayfly.Instant)) *lived {
	t.Helper()
	e, err := openBenchEngine(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	l := &lived{e: e, record: newClusterRecord()}
	minute := mayfly.InstantOf(time.Now()).Minute() + 1
	load := newBenchLoad(e.store.Set, 3, 40, &progress.Stage{})
	load.media = true
	ok(t, load.run(t.Context(), 40, func(i int) (mayfly.Instant, mayfly.Lifetime) {
		return spread(minute.Start().Add(-24*time.Hour), time.Minute, i, 40), benchLifetime(24 * time.Hour)
	}, func(_ int, item mayfly.Item) {
		l.record.acknowledge(item, sha256.Sum256(benchContent(item.Upload)))
		l.some = append(l.some, item)
	}))
	archiving, o, err := archiveTrial{stories: 40}.sweep(t.Context(), e, []mayfly.Minute{minute})
	ok(t, err)
	end := (minute + 1).Start()
	_, err = archiving.run(t.Context(), end, o.Window)
	ok(t, err)
	now := end.Add(o.Window + time.Minute)
	plant(t, &e.store.Set, now)
	ok(t, e.start(t.Context(), now, func(o *node.Options) { o.Idle = true }))
	ends, err := l.record.listen(t.Context(), e.store.Set.Log)
	ok(t, err)
	ok(t, ends.end())
	return l
}

func nothing(testing.TB, *store.Set, mayfly.Instant) {}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (l *lived) audit(t *testing.T) (counts map[string]float64, err error) {
	t.Helper()
	var out bytes.Buffer
	b := &bench{report: newBenchReport(&out, true), progress: progress.New(io.Discard, true)}
	err = l.record.audit(t.Context(), b, l.e)
	counts = make(map[string]float64)
	for line := range strings.Lines(out.String()) {
		var f struct {
			Name  string
			Value float64
		}
		ok(t, json.Unmarshal([]byte(line), &f))
		counts[f.Name] = f.Value
	}
	return counts, err
}

func TestClusterAuditFindsNoViolationInCleanData(t *testing.T) {
	l := newLived(t, nothing)
	counts, err := l.audit(t)
	if err != nil || len(counts) != int(verify.Words) {
		t.Error(counts, err)
	}
	for name, n := range counts {
		if n != 0 {
			t.Errorf("%s is %v", name, n)
		}
	}
	if l.record.lag.TotalCount() != 40 {
		t.Errorf("the lag of %d expiries was recorded, of 40", l.record.lag.TotalCount())
	}
}

// Violations are planted in the store, or in what is known of the stories.
func TestClusterAuditFindsWhatIsPlanted(t *testing.T) {
	known := func(word verify.Word, name string, plant func(l *lived)) func(*testing.T) {
		return func(t *testing.T) {
			l := newLived(t, nothing)
			plant(l)
			l.finds(t, word, name)
		}
	}
	cases := map[string]func(*testing.T){
		"content that is not what was sent": known(verify.Lost, "its 1 media are not", func(l *lived) { l.record.stories[l.some[0].ID].hash[0]++ }),
		"a story without a row": known(verify.Lost, "has no row", func(l *lived) {
			item := l.some[0]
			item.ID[15] ^= 0x10 // another story of the same minute and shard
			l.record.acknowledge(item, [32]byte{})
		}),
		"a story that was not acknowledged": known(verify.Double, "no client knows of it", func(l *lived) { delete(l.record.stories, l.some[0].ID) }),
	}
	for _, v := range fixture.Violations() {
		cases[v.Name] = func(t *testing.T) { newLived(t, v.Plant).finds(t, v.Word, "") }
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t)
		})
	}
}

// finds wants the audit to count a word and to say why.
func (l *lived) finds(t *testing.T, word verify.Word, why string) {
	t.Helper()
	counts, err := l.audit(t)
	if !errors.Is(err, mayfly.Corrupt) || counts["cluster."+strings.ToLower(word.String())] == 0 || !strings.Contains(err.Error(), why) {
		t.Errorf("%v: %v", counts, err)
	}
}
