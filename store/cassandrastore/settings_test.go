package cassandrastore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestSettingsThatDifferAreEachWarnedOfOnce(t *testing.T) {
	good := map[string]string{"commitlog_sync": "batch", "paxos_variant": "v2"}
	for name, c := range map[string]struct {
		reported map[string]map[string]string
		want     []string // one for each warning, in order
	}{
		"as it should be":               {map[string]map[string]string{"n1": good}, nil},
		"groups are synced, too":        {map[string]map[string]string{"n1": {"commitlog_sync": "group", "paxos_variant": "v2"}}, nil},
		"no node reports":               {nil, nil},
		"a server without the settings": {map[string]map[string]string{"n1": {}}, nil},
		"Cassandra's own": {
			map[string]map[string]string{"n1": {"commitlog_sync": "periodic", "paxos_variant": "v1"}},
			[]string{
				`setting=commitlog_sync is=[periodic] nodes=[n1] set="commitlog_sync: batch in cassandra.yaml"`,
				`setting=paxos_variant is=[v1] nodes=[n1] set="paxos_variant: v2 in cassandra.yaml"`,
			},
		},
		"two nodes of three": {
			map[string]map[string]string{"n1": {"paxos_variant": "v1"}, "n2": good, "n3": {"paxos_variant": "v1"}},
			[]string{`setting=paxos_variant is=[v1] nodes="[n1 n3]"`},
		},
	} {
		var out bytes.Buffer
		m := migrator{Store: newStore(Options{Logger: slog.New(slog.NewTextHandler(&out, nil))}, nil)}
		m.warn(c.reported)
		if n := strings.Count(out.String(), "level=WARN"); n != len(c.want) {
			t.Errorf("%s: %d warnings, want %d\n%s", name, n, len(c.want), out.String())
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no warning says %s\n%s", name, want, out.String())
			}
		}
	}
}
