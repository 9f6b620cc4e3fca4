package cassandrastore

import (
	"context"
	"maps"
	"slices"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// setting is a setting of cassandra.yaml on which the contracts depend and whose
// default is not good enough.
type setting struct {
	name string
	good []string // the first is recommended
	why  string   // the reason
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

// strays returns the nodes that differ, with their values, by setting. A node that
// does not report a setting is left out.
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

// warn logs, once for each setting, the nodes on which it differs.
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

// settingsWithin is how long the nodes have to report their settings: a start does not
// wait long for a warning.
const settingsWithin = 5 * time.Second

// settings returns the settings that each node reports. It returns none if the user may
// not read them or the server has no such table.
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
