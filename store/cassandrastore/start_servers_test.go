//go:build servers

package cassandrastore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/storetest"
)

func TestAKeyspaceThatHasFewerCopiesThanConfiguredIsNotOpened(t *testing.T) {
	s := openTestStore(t)
	o := serverOptions(t, testKeyspace)
	o.Copies = s.opts.Copies + 1
	other, err := Open(t.Context(), o)
	if err == nil {
		t.Fatal("it is opened", other.Close())
	}
	ours := (*mayfly.Error)(nil)
	if !errors.As(err, &ours) || ours.Kind != mayfly.Invalid ||
		!strings.Contains(ours.Hint, fmt.Sprintf("ALTER KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}", testKeyspace, o.Copies)) {
		t.Errorf("%v, want Invalid with the statement that fixes it", err)
	}
}

func TestEveryNodeTellsTheSettingsThatAreReliedOn(t *testing.T) {
	var log storetest.LogBuffer
	s := openWith(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	reported := migrator{Store: s}.settings(t.Context())
	if len(reported) != len(s.session.GetHosts()) {
		t.Errorf("%d nodes of %d tell their settings", len(reported), len(s.session.GetHosts()))
	}
	for node, has := range reported {
		if has["commitlog_sync"] != "batch" || has["paxos_variant"] != "v2" { // as deploy/servers starts them
			t.Errorf("node %s has %v", node, has)
		}
	}
	if strings.Contains(log.String(), "level=WARN") {
		t.Errorf("it warns of a server that is as it should be:\n%s", log.String())
	}
}

func TestWorkOnTheSchemaEndsBeforeItsLease(t *testing.T) {
	t.Parallel()
	o, err := serverOptions(t, fmt.Sprintf("mayfly_test_%08x", rand.Uint32())).complete()
	if err != nil {
		t.Fatal(err)
	}
	session, err := connect(t.Context(), o, "")
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	s := newStore(o, session)
	m := migrator{s, "one", timesFor(o.Timeout)}
	if err := m.ground(t.Context()); err != nil {
		t.Fatal(err)
	}
	leftOf := func(ctx context.Context) (left time.Duration) {
		t.Helper()
		var seconds int
		read := "SELECT TTL(name) FROM " + o.Keyspace + ".migrations WHERE scope = ? AND number = ?"
		if err := m.query(settleDoubt, read, schemaScope, leaseNumber).ScanContext(ctx, &seconds); err != nil {
			t.Fatal(err)
		}
		return time.Duration(seconds) * time.Second
	}
	short := m
	short.times.lease = 5 * time.Second
	if held, err := short.hold(t.Context()); err != nil || !held {
		t.Fatalf("held %t, %v", held, err)
	}
	err = m.underLease(t.Context(), func(ctx context.Context) error {
		ends, bounded := ctx.Deadline()
		if lease := leftOf(ctx); !bounded || time.Until(ends) >= lease {
			t.Errorf("the work may take %s more, its lease lasts %s", time.Until(ends), lease)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = migrator{s, "another", m.times}.underLease(t.Context(), func(context.Context) error {
		t.Error("another works while one has the lease")
		return nil
	})
	if !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("without the lease: %v", err)
	}
}
