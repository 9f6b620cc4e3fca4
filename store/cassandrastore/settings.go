package cassandrastore

import (
	"context"
	"maps"
	"slices"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// setting is one of cassandra.yaml that the promises rest on and that the server
// has otherwise unless it is reported.
type setting struct {
	name string
	good []string // the first is what we advise
	why  string   // it should be
}

func wantedSettings() []setting {
	return []setting{
		{
			"commitlog_sync",
			[]string{"batch", "group"},
			"else what was acknowledged in the last seconds is lost when most copies lose power at once",
		},
		{
			"paxos_variant",
			[]string{"v2"},
			"else conditional writes take twice the round trips, and two may both win while nodes join or leave",
		},
	}
}

// strays are the nodes that differ, by setting: node → what it has. A node that
// does not tell a setting is not blamed for it.
func strays(reported map[string]map[string]string) map[string]map[string]string {
	differ := map[string]map[string]string{}
	for _, want := range wantedSettings() {
		for node, has := range reported {
			value, known := has[want.name]
			if !known || slices.Contains(want.good, value) {
				continue
			}
			if differ[want.name] == nil {
				differ[want.name] = map[string]string{}
			}
			differ[want.name][node] = value
		}
	}
	return differ
}

// warn says once of each setting on which nodes it differs.
func (m migrator) warn(reported map[string]map[string]string) {
	differ := strays(reported)
	for _, want := range wantedSettings() {
		nodes := differ[want.name]
		if len(nodes) == 0 {
			continue
		}
		m.opts.Logger.Warn("cassandra: a setting of the server is not the one that is relied on",
			"setting", want.name, "is", slices.Compact(slices.Sorted(maps.Values(nodes))), "nodes", slices.Sorted(maps.Keys(nodes)),
			"set", want.name+": "+want.good[0]+" in cassandra.yaml", "why", want.why)
	}
}

// settingsWithin is how long the nodes have to tell their settings: a start does
// not wait for advice.
const settingsWithin = 5 * time.Second

// settings are those of each node that is up, as it reports them. A user who may not
// read them, or has none to read, is no worse off.
func (m migrator) settings(ctx context.Context) map[string]map[string]string {
	ctx, cancel := context.WithTimeout(ctx, settingsWithin)
	defer cancel()
	var names []string
	for _, want := range wantedSettings() {
		names = append(names, want.name)
	}
	reported := map[string]map[string]string{}
	for _, host := range m.session.GetHosts() {
		if !host.IsUp() {
			continue
		}
		iter := m.query(setUp, "SELECT name, value FROM system_views.settings WHERE name IN ?", names).
			Consistency(gocql.One).SetHostID(host.HostID()).IterContext(ctx)
		has := map[string]string{}
		var name, value string
		for iter.Scan(&name, &value) {
			has[name] = value
		}
		if err := iter.Close(); err != nil {
			m.opts.Logger.Debug("cassandra: the settings of a node are not known", "node", host.ConnectAddress(), "err", err)
			continue
		}
		reported[host.ConnectAddress().String()] = has
	}
	return reported
}
