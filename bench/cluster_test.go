package bench

import (
	"bytes"
	"context"
	"crypto/sha256"
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
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
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

func newLived(t *testing.T) *lived {
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
	ok(t, e.start(t.Context(), end.Add(o.Window+time.Minute), func(o *node.Options) { o.Idle = true }))
	for _, stream := range []mayfly.Stream{mayfly.Ends, mayfly.Births} {
		listener, err := l.record.listen(t.Context(), e.store.Set.Log, stream)
		ok(t, err)
		ok(t, listener.end())
	}
	return l
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// row is a story as it is now.
func (l *lived) row(t *testing.T, n int) mayfly.Item {
	t.Helper()
	found, err := l.e.store.Set.Ledger.Get(t.Context(), l.some[n].ID)
	if err != nil || !found[0].Found {
		t.Fatal(found, err)
	}
	return found[0].Item
}

func (l *lived) audit(t *testing.T) (counts [verify.Words]int, err error) {
	t.Helper()
	var out bytes.Buffer
	b := &bench{report: newBenchReport(&out, true), progress: progress.New(&out, true)}
	err = l.record.audit(t.Context(), b, l.e)
	if found := strings.Count(out.String(), "\n"); found != int(verify.Words) {
		t.Errorf("%d of %d counts are reported: %v", found, verify.Words, err)
	}
	for w := range verify.Words {
		counts[w] = l.record.count.Count(w)
	}
	return counts, err
}

func TestClusterAuditFindsNoViolationInCleanData(t *testing.T) {
	l := newLived(t)
	if counts, err := l.audit(t); err != nil || counts != [verify.Words]int{} {
		t.Fatal(counts, err)
	}
	if l.record.lag.TotalCount() != 40 {
		t.Errorf("the lag of %d expiries was recorded, of 40", l.record.lag.TotalCount())
	}
}

func TestClusterAuditFindsWhatIsPlanted(t *testing.T) {
	for _, planted := range []struct {
		name  string
		want  verify.Word
		plant func(t *testing.T, l *lived) error
	}{
		{"a cold medium that is gone", verify.Lost, func(t *testing.T, l *lived) error {
			row := l.row(t, 0)
			return l.e.store.Set.Cold.Delete(t.Context(), row.MediaKey(row.Keys.Cold, 0))
		}},
		{"a cold medium that is another", verify.Lost, func(t *testing.T, l *lived) error {
			row := l.row(t, 0)
			_, err := l.e.store.Set.Cold.Put(t.Context(), row.MediaKey(row.Keys.Cold, 0), strings.NewReader("others"))
			return err
		}},
		{"content that is not what was sent", verify.Lost, func(_ *testing.T, l *lived) error {
			l.record.stories[l.some[0].ID].hash[0]++
			return nil
		}},
		{"a story without a row", verify.Lost, func(_ *testing.T, l *lived) error {
			item := l.some[0]
			item.ID[15] ^= 0x10 // another story of the same minute and shard
			l.record.acknowledge(item, [32]byte{})
			return nil
		}},
		{"a story that is not in its author's list", verify.Lost, func(t *testing.T, l *lived) error {
			var b store.Batch
			b.Delete(engine.Owners, engine.OwnerKey(l.some[0].Owner, l.some[0].ID))
			return l.e.store.Set.Writer.Commit(t.Context(), &b)
		}},
		{"an archiving without an event", verify.Lost, func(_ *testing.T, l *lived) error {
			l.record.stories[l.some[0].ID].seen[mayfly.WasArchived] = 0
			return nil
		}},
		{"a story that is active again", verify.Resurrected, func(t *testing.T, l *lived) error { return l.again(t) }},
		{"a story that nothing has ended", verify.Late, func(t *testing.T, l *lived) error {
			l.record.stories[l.some[0].ID].seen[mayfly.WasExpired] = 0
			return l.again(t)
		}},
		{"an end before the deadline", verify.Early, func(t *testing.T, l *lived) error {
			e := mayfly.EventOf(l.row(t, 0), mayfly.WasHeld)
			e.At = e.ID.Deadline() - 1
			l.record.observe(e, time.Now())
			return nil
		}},
		{"an end that came twice", verify.Double, func(t *testing.T, l *lived) error {
			e := mayfly.EventOf(l.row(t, 0), mayfly.WasArchived)
			e.Generation++
			l.record.observe(e, time.Now())
			return nil
		}},
		{"a story that strangers still open", verify.Leak, func(t *testing.T, l *lived) error {
			birth, err := newBenchLoad(l.e.store.Set, 4, 1, &progress.Stage{}).birth(l.e.now(), benchLifetime(time.Hour))
			if err != nil {
				return err
			}
			l.record.acknowledge(birth.Item, birth.Body.Media[0].SHA256)
			var b store.Batch
			b.Insert(birth)
			return l.e.store.Set.Writer.Commit(t.Context(), &b)
		}},
		{"a row that was not acknowledged", verify.Orphan, func(t *testing.T, l *lived) error {
			birth, err := newBenchLoad(l.e.store.Set, 4, 1, &progress.Stage{}).birth(l.some[0].ID.Birth(), benchLifetime(24*time.Hour))
			if err != nil {
				return err
			}
			var b store.Batch
			b.Insert(birth) // without its object, which would be blamed too
			return l.e.store.Set.Writer.Commit(t.Context(), &b)
		}},
		{"a cold object that no row names", verify.Orphan, func(t *testing.T, l *lived) error {
			_, err := l.e.store.Set.Cold.Put(t.Context(), l.row(t, 0).MediaKey(9, 0), strings.NewReader("x"))
			return err
		}},
		{"a hot object", verify.Orphan, func(t *testing.T, l *lived) error {
			_, err := l.e.store.Set.Hot.Put(t.Context(), l.row(t, 0).MediaKey(mayfly.Born, 0), strings.NewReader("x"))
			return err
		}},
		{"an end of a story that was not acknowledged", verify.Orphan, func(t *testing.T, l *lived) error {
			item := l.row(t, 0)
			item.ID[15] ^= 0x10
			l.record.observe(mayfly.EventOf(item, mayfly.WasExpired), time.Now())
			return nil
		}},
	} {
		t.Run(planted.name, func(t *testing.T) {
			t.Parallel()
			l := newLived(t)
			ok(t, planted.plant(t, l))
			if counts, err := l.audit(t); !errors.Is(err, mayfly.Corrupt) || counts[planted.want] == 0 {
				t.Errorf("%s: %v", &l.record.count, err)
			}
		})
	}
}

// again makes the first story active, as a restore would.
func (l *lived) again(t *testing.T) error {
	row := l.row(t, 0)
	outcomes, err := l.e.store.Set.Ledger.Transition(t.Context(), []mayfly.Change{{
		ID: row.ID, From: row.State, Generation: row.Generation, To: mayfly.Active, Nonce: 7, Cause: mayfly.BySupport,
		At: l.e.now(), ServesUntil: l.e.now().Add(time.Hour), Keys: &mayfly.Keys{Hot: row.Generation + 1},
	}})
	if err == nil && outcomes[0].Result != store.Applied {
		err = errors.Join(errors.New(outcomes[0].Result.String()), outcomes[0].Err)
	}
	return err
}

func TestAnEndThatIsReadBeforeItsStoryIsAcknowledgedIsNoOrphan(t *testing.T) {
	l := newLived(t)
	story := l.some[0]
	known := *l.record.stories[story.ID]
	delete(l.record.stories, story.ID)
	l.record.observe(mayfly.EventOf(l.row(t, 0), mayfly.WasHeld), time.Now())
	l.record.stories[story.ID] = &known
	if counts, err := l.audit(t); err != nil || counts != [verify.Words]int{} || known.seen[mayfly.WasHeld] == 0 {
		t.Error(counts, err, known.seen)
	}
}
