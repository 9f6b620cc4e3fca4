package cassandrastore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
)

// The two strategies of which the number of copies is known.
const (
	simple      = "SimpleStrategy"
	byCentre    = "NetworkTopologyStrategy"
	simpleTotal = "replication_factor"
)

// replication is the number of copies of a keyspace, anywhere or by data centre.
type replication struct {
	strategy string
	copies   map[string]int // by data centre; of SimpleStrategy under ""
}

// wantedReplication returns the replication that the options ask for.
func wantedReplication(o Options) replication {
	if len(o.DataCentres) > 0 {
		return replication{byCentre, o.DataCentres}
	}
	return replication{simple, map[string]int{"": o.Copies}}
}

// readReplication parses the server's description: a class and options, one for each
// data centre.
func readReplication(reported map[string]string) (replication, error) {
	r := replication{copies: map[string]int{}}
	class := strings.Split(reported["class"], ".")
	r.strategy = class[len(class)-1]
	if r.strategy != simple && r.strategy != byCentre {
		return r, nil
	}
	for name, value := range reported {
		if name == "class" {
			continue
		}
		copies, err := fullCopies(value)
		if err != nil {
			return r, fmt.Errorf("replication of %q: %w", name, err)
		}
		if r.strategy == simple {
			name = ""
		}
		r.copies[name] = copies
	}
	return r, nil
}

// fullCopies parses "3", or "3/1", which means that one of the three is transient.
func fullCopies(text string) (int, error) {
	all, passing, some := strings.Cut(text, "/")
	n, err := strconv.Atoi(all)
	if err != nil || !some {
		return n, err
	}
	less, err := strconv.Atoi(passing)
	return n - less, err
}

func (r replication) String() string {
	text := "'class': '" + r.strategy + "'"
	for _, name := range slices.Sorted(maps.Keys(r.copies)) {
		option := name
		if r.strategy == simple {
			option = simpleTotal
		}
		text += fmt.Sprintf(", '%s': %d", option, r.copies[name])
	}
	return "{" + text + "}"
}

func (r replication) total() (n int) {
	for _, copies := range r.copies {
		n += copies
	}
	return n
}

// judgeReplication refuses a keyspace with fewer copies than the options ask for,
// because it survives fewer failures than the operator expects. If the options name no
// data centre, the copies of all data centres are added up. Strategies of other vendors
// are not checked.
func judgeReplication(o Options, got replication) error {
	if got.strategy != simple && got.strategy != byCentre {
		return nil
	}
	fixed := fix(o, got)
	if fixed.strategy == got.strategy && maps.Equal(fixed.copies, got.copies) {
		return nil
	}
	return mayfly.Errorf(mayfly.Invalid, "keyspace %s is copied as %s, which is less than the settings ask for", o.Keyspace, got).
		WithHint(fmt.Sprintf("ALTER KEYSPACE %s WITH replication = %s; then on every node: nodetool repair --full %s", o.Keyspace, fixed, o.Keyspace))
}

// fix returns got with the missing copies added.
func fix(o Options, got replication) replication {
	want := wantedReplication(o)
	switch {
	case got.strategy == simple && len(o.DataCentres) > 1:
		return want // SimpleStrategy knows no data centres: all copies may lie in one
	case got.strategy == simple:
		return replication{simple, map[string]int{"": max(got.total(), want.total())}}
	}
	fixed := replication{byCentre, maps.Clone(got.copies)}
	if len(o.DataCentres) > 0 {
		for name, copies := range o.DataCentres {
			fixed.copies[name] = max(fixed.copies[name], copies)
		}
		return fixed
	}
	names := slices.Sorted(maps.Keys(fixed.copies))
	for len(names) > 0 && fixed.total() < o.Copies {
		fewest := slices.MinFunc(names, func(a, b string) int { return fixed.copies[a] - fixed.copies[b] })
		fixed.copies[fewest]++
	}
	return fixed
}

// copies compares the keyspace with the options. It asks one server, which has agreed
// on the schema with the others before.
func (m migrator) copies(ctx context.Context) error {
	var reported map[string]string
	read := "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?"
	if err := m.query(setUp, read, m.opts.Keyspace).Consistency(gocql.One).ScanContext(ctx, &reported); err != nil {
		return err
	}
	got, err := readReplication(reported)
	if err != nil {
		return err
	}
	return judgeReplication(m.opts, got)
}
