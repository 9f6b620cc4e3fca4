package cassandrastore

import (
	"errors"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestAKeyspaceWithFewerCopiesThanConfiguredIsRefused(t *testing.T) {
	const (
		simpleClass = "org.apache.cassandra.locator.SimpleStrategy"
		centreClass = "org.apache.cassandra.locator.NetworkTopologyStrategy"
	)
	type reported = map[string]string
	type centres = map[string]int
	for name, c := range map[string]struct {
		copies  int
		centres centres
		got     reported
		fix     string // "" if it is good
	}{
		"as it is made":              {3, nil, reported{"class": simpleClass, "replication_factor": "3"}, ""},
		"more than configured":       {3, nil, reported{"class": simpleClass, "replication_factor": "9"}, ""},
		"one instead of three":       {3, nil, reported{"class": simpleClass, "replication_factor": "1"}, "{'class': 'SimpleStrategy', 'replication_factor': 3}"},
		"one of three is passing":    {3, nil, reported{"class": simpleClass, "replication_factor": "3/1"}, "{'class': 'SimpleStrategy', 'replication_factor': 3}"},
		"an operator's data centres": {3, nil, reported{"class": centreClass, "east": "2", "west": "1"}, ""},
		"too few of them in all":     {4, nil, reported{"class": centreClass, "east": "2", "west": "1"}, "{'class': 'NetworkTopologyStrategy', 'east': 2, 'west': 2}"},
		"one data centre, too few":   {3, nil, reported{"class": centreClass, "east": "1"}, "{'class': 'NetworkTopologyStrategy', 'east': 3}"},
		"none of them":               {3, nil, reported{"class": centreClass}, ""},
		"each data centre as named":  {3, centres{"east": 3, "west": 3}, reported{"class": centreClass, "east": "3", "west": "3"}, ""},
		"one more than is named":     {3, centres{"east": 3}, reported{"class": centreClass, "east": "3", "north": "1"}, ""},
		"one has too few": {
			3,
			centres{"east": 3, "west": 3},
			reported{"class": centreClass, "east": "2", "west": "5", "north": "1"},
			"{'class': 'NetworkTopologyStrategy', 'east': 3, 'north': 1, 'west': 5}",
		},
		"one is missing": {
			3,
			centres{"east": 3, "west": 3},
			reported{"class": centreClass, "east": "9"},
			"{'class': 'NetworkTopologyStrategy', 'east': 9, 'west': 3}",
		},
		"one is named, and copies lie anywhere":  {1, centres{"east": 3}, reported{"class": simpleClass, "replication_factor": "3"}, ""},
		"two are named, and copies lie anywhere": {3, centres{"east": 3, "west": 3}, reported{"class": simpleClass, "replication_factor": "6"}, "{'class': 'NetworkTopologyStrategy', 'east': 3, 'west': 3}"},
		"a strategy of another vendor":           {3, nil, reported{"class": "com.example.EverywhereStrategy", "how": "always"}, ""},
	} {
		got, err := readReplication(c.got)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		err = judgeReplication(Options{Keyspace: "k", Copies: c.copies, DataCentres: c.centres}, got)
		if c.fix == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		ours := (*mayfly.Error)(nil)
		if !errors.As(err, &ours) || ours.Kind != mayfly.Invalid ||
			!strings.Contains(ours.Hint, "ALTER KEYSPACE k WITH replication = "+c.fix+";") || !strings.Contains(ours.Hint, "nodetool repair --full k") {
			t.Errorf("%s: %v\nwant Invalid with %s", name, err, c.fix)
		}
	}
	if _, err := readReplication(reported{"class": simpleClass, "replication_factor": "many"}); err == nil {
		t.Error("a number of copies that is none is believed")
	}
}
