package cassandrastore

import (
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/tables"
)

// texts are all statements that a store prepares.
func texts() map[string]bool {
	all := map[string]bool{
		readBody: true, insertBody(): true, emptyBody(): true, removeBody(): true,
		readDays: true, readMinutes: true, listDay(): true, listMinute(): true,
	}
	forms := newForms()
	for _, f := range []*form{forms.items, forms.eternal} {
		for _, text := range []string{f.insert, f.update, f.remove, f.walk} {
			all[text] = true
		}
		for _, n := range readSizes() {
			all[f.read(n)] = true
		}
	}
	for _, t := range tables.All() {
		text := newTableText(t)
		for _, text := range []string{text.get, text.put, text.remove, text.drop, text.begin, text.replace, text.end} {
			all[text] = text != ""
		}
		for _, r := range []store.Range{{}, {From: "a"}, {To: "b"}, {From: "a", To: "b"}} {
			all[rangeText(t, r)] = true
			r.Reverse = true
			all[rangeText(t, r)] = true
		}
	}
	delete(all, "")
	return all
}

func TestAllStatementsFitIntoTheCachesOfTheClient(t *testing.T) {
	c, err := clusterConfig(Options{Hosts: []string{"a"}, Logger: discard()}, "k")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(texts()); c.MaxRoutingKeyInfo < n || c.MaxPreparedStmts < 100*n {
		t.Errorf("%d texts: the driver keeps %d, and of all nodes %d", n, c.MaxRoutingKeyInfo, c.MaxPreparedStmts)
	}
}

func TestTheClientDoesNotWaitLongForSchemaAgreement(t *testing.T) {
	for _, keyspace := range []string{"", "k"} {
		c, err := clusterConfig(Options{Hosts: []string{"a"}, Logger: discard()}, keyspace)
		if err != nil {
			t.Fatal(err)
		}
		if statements := time.Duration(3 * len(migrations("k", tables.All()))); c.MaxWaitSchemaAgreement > defaultPatience/statements {
			t.Errorf("%s for each statement of the schema", c.MaxWaitSchemaAgreement)
		}
	}
}

func TestNoLeaseWaitsForTheLanesOfAnotherTable(t *testing.T) {
	s := newStore(Options{Tables: tables.All()}, nil)
	all := []*lanes{s.lanes}
	for table, lanes := range s.swaps {
		if table != walk.Leases {
			all = append(all, lanes)
		}
	}
	for _, lanes := range all {
		for _, lane := range lanes {
			lane <- struct{}{}
		}
	}
	leave, err := s.swaps[walk.Leases].enter(t.Context(), "shard 3")
	if err != nil {
		t.Fatal(err)
	}
	leave()
	if len(all) < 3 {
		t.Errorf("%d other kinds of lanes", len(all))
	}
}
