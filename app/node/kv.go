package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/kvapi"
	"github.com/mayflyhq/mayfly/api/resp"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/product/kv"
)

// KV returns the product of keys with a time to live.
func KV() Product {
	const name = kvapi.Product
	return Product{
		Name: name, Tables: kv.Tables(),
		Off: func(o ProductOptions) bool { return o.KV.Off },
		Open: func(_ context.Context, n *Node) (parts Parts, err error) {
			o := n.o.Products
			n.kv, err = kv.New(kv.Options{
				Rows: n.set.Rows, Store: n.set.KV, Limits: n.set.Limits, Defaults: kvDefaults(o.KV), PerOwner: o.KV.MaxNamespaces, OwnerQuota: int64(o.KV.OwnerQuota), Cluster: !o.Alone,
			})
			if err != nil {
				return Parts{}, err
			}
			server, err := resp.NewServer(resp.Options{
				KV: n.kv, Read: n.clock.Read, Open: n.serves, Accounts: n.accounts,
				Clients: o.Listen.Connections, Drain: max(o.Listen.DrainWithin, time.Millisecond), Risky: o.KV.AllowFlush, Log: slog.Default(),
			})
			if err != nil {
				return Parts{}, err
			}
			parts = Parts{
				Erase:       []accounterase.Part{{Name: name, Erase: n.kv.EraseUser, Left: n.kv.LeftOf}},
				VerifyStore: n.verifyKV, Start: n.startKV, Upkeep: n.kv.Tidy,
				Routes: func(r *prometheus.Registry) ([]httpapi.Route, error) {
					secret, err := secretFor(n.Key(), "mayfly kv cursors 1")
					if err != nil {
						return nil, err
					}
					routes, err := kvapi.Routes(kvapi.Options{KV: n.kv, Secret: secret})
					return routes, errors.Join(err, r.Register(newKVCollector(n.kv, server.Commands, n.clock.Read)))
				},
			}
			if o.Listen.KV != "" {
				parts.Listeners = []Listener{{Name: name, Address: o.Listen.KV, Serve: server.Serve}}
			}
			return parts, nil
		},
	}
}

// kvDefaults returns the settings of a namespace whose owner chooses nothing, which are
// also the most that one can choose.
func kvDefaults(c config.KV) kv.Settings {
	return kv.Settings{
		Quota: int64(c.Quota), DefaultTTL: c.DefaultTTL, LongestTTL: c.LongestTTL, MaxKey: int(c.MaxKey), MaxValue: int(c.MaxValue), Rate: kv.Rate(c.Rate),
	}
}

// startKV makes the namespaces of the configuration.
func (n *Node) startKV(ctx context.Context) error {
	if err := n.kv.Resume(ctx, n.clock.Read().Now); err != nil {
		return err
	}
	c := n.o.Products.KV
	settings := kvDefaults(c)
	settings.Events, settings.LastWriteWins, settings.Rate = c.Events, c.LastWriteWins, kv.Rate{}
	for _, name := range c.Namespaces {
		if err := n.kv.Configure(ctx, name, settings, n.clock.Read().Now); err != nil {
			return err
		}
	}
	return nil
}

// KVStatus describes the key-value store: how much is stored, and how much of it has
// expired and is not reclaimed.
func (d AdminOperations) KVStatus(ctx context.Context) (wire.KVStatus, error) {
	if d.n.kv == nil {
		return wire.KVStatus{}, mayfly.Errorf(mayfly.Unsupported, "this node has no key-value store")
	}
	usage, err := d.n.kv.Usage(ctx, d.n.clock.Read())
	if err != nil {
		return wire.KVStatus{}, err
	}
	out := wire.KVStatus{DiskBytes: usage.Disk, LiveBytes: usage.Live, ExpiredBytes: usage.Expired, Sync: usage.Sync}
	if usage.Oldest != 0 {
		out.OldestExpired = &usage.Oldest
	}
	return out, d.n.kv.EachSpace(ctx, func(*kv.Space) error {
		out.Namespaces++
		return nil
	})
}

// AddKVKey makes a key of a namespace of the configuration. Errors: NotFound, Conflict
// (it has two).
func (d AdminOperations) AddKVKey(ctx context.Context, namespace string, by audit.Actor, reason string, now mayfly.Instant) (out wire.KVCredential, err error) {
	err = d.changeKV(ctx, audit.AddKVKey, namespace, by, reason, now, func() (string, error) {
		key, made, err := d.n.kv.AddKey(ctx, mayfly.UserID{}, namespace, now)
		out = wire.KVCredential{ID: made.ID, Key: key.Reveal(), Made: made.Made}
		return made.ID, err
	})
	return out, err
}

// RemoveKVKey removes a key of a namespace of the configuration by its id. Errors:
// NotFound.
func (d AdminOperations) RemoveKVKey(ctx context.Context, namespace, id string, by audit.Actor, reason string, now mayfly.Instant) error {
	return d.changeKV(ctx, audit.RemoveKVKey, namespace, by, reason, now, func() (string, error) {
		return id, d.n.kv.RemoveKey(ctx, mayfly.UserID{}, namespace, id)
	})
}

func (d AdminOperations) changeKV(ctx context.Context, verb audit.Verb, namespace string, by audit.Actor, reason string, now mayfly.Instant, do func() (id string, err error)) error {
	if d.n.kv == nil {
		return mayfly.Errorf(mayfly.Unsupported, "this node has no key-value store")
	}
	if _, err := d.n.kv.Describe(ctx, mayfly.UserID{}, namespace); err != nil {
		return err
	}
	entry := audit.Entry{Actor: by, Verb: verb, Reason: reason, Detail: "namespace " + namespace}
	return d.n.engine.audit.Do(ctx, entry, now, func() (string, error) {
		id, err := do()
		return fmt.Sprintf("namespace %s, key %.40q", namespace, id), err
	})
}

// KV returns the key-value store; nil on a node without it.
func (n *Node) KV() *kv.KV { return n.kv }

// verifyKV reads every entry of every namespace: a scan must find what can be read, and
// nothing that has expired. Programs write meanwhile: an entry is lost only if it is
// still listed after it was not found, and a namespace that is removed ends its part.
func (n *Node) verifyKV(ctx context.Context, r *verify.Report, now mayfly.Instant) error {
	at := clock.Reading{Now: now, Steady: now, Confirmed: true}
	return n.kv.EachSpace(ctx, func(s *kv.Space) error {
		err := verifySpace(ctx, r, s, at)
		if err == nil || errors.Is(err, mayfly.NotFound) || errors.Is(s.StillOpen(ctx, ""), mayfly.Unauthenticated) {
			return nil
		}
		return fmt.Errorf("namespace %s: %w", s.Name, err)
	})
}

func verifySpace(ctx context.Context, r *verify.Report, s *kv.Space, at clock.Reading) error {
	for after := ""; ; {
		page, next, err := s.Scan(ctx, at, "", after, 500)
		if err != nil {
			return err
		}
		for _, e := range page {
			found, err := s.Get(ctx, at, e.Key)
			switch {
			case errors.Is(err, mayfly.Corrupt):
				r.Add(verify.Lost, "namespace %s: a key of %d bytes cannot be read: %v", s.Name, len(e.Key), err)
			case err != nil:
				return err
			case !found[0].Found:
				lost, err := listedAndAbsent(ctx, s, at, e)
				if err != nil {
					return err
				}
				if lost {
					r.Add(verify.Lost, "namespace %s: a key of %d bytes is listed and cannot be read", s.Name, len(e.Key))
				}
			case e.Expiry != 0 && e.Expiry <= at.Now:
				r.Add(verify.Late, "namespace %s: a key of %d bytes is served after %s", s.Name, len(e.Key), e.Expiry)
			}
		}
		if after = next; next == "" {
			return nil
		}
	}
}

// lostLooks is how often an entry must be listed and absent before it counts as lost: a
// program may delete it after it was listed, and write it again.
const lostLooks = 3

// listedAndAbsent reports whether an entry that was listed is listed again, in the same
// version, and is absent each time it is read.
func listedAndAbsent(ctx context.Context, s *kv.Space, at clock.Reading, e kv.Entry) (bool, error) {
	for range lostLooks {
		listed, err := isListed(ctx, s, at, e)
		if err != nil || !listed {
			return false, err
		}
		found, err := s.Get(ctx, at, e.Key)
		if err != nil || found[0].Found {
			return false, err
		}
	}
	return true, nil
}

// isListed reports whether a scan lists the version of an entry.
func isListed(ctx context.Context, s *kv.Space, at clock.Reading, e kv.Entry) (bool, error) {
	for after := ""; ; {
		page, next, err := s.Scan(ctx, at, e.Key, after, 500)
		if err != nil {
			return false, err
		}
		for _, again := range page {
			if again.Key == e.Key {
				return again.Same(e), nil
			}
		}
		if after = next; next == "" {
			return false, nil
		}
	}
}

// kvCollector collects the metrics of the key-value store.
type kvCollector struct {
	kv       *kv.KV
	commands func() int64
	clock    func() clock.Reading

	executed, disk, live, expired, lag *prometheus.Desc
}

func newKVCollector(k *kv.KV, commands func() int64, read func() clock.Reading) *kvCollector {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc("mayfly_kv_"+name, help, nil, nil) }
	return &kvCollector{
		kv: k, commands: commands, clock: read,
		executed: desc("commands_total", "Commands of the Redis protocol that were executed."),
		disk:     desc("disk_bytes", "Bytes of the key-value database on disk."),
		live:     desc("live_bytes", "Bytes of keys and values that have not expired."),
		expired:  desc("expired_bytes", "Bytes of keys and values that have expired and are not reclaimed."),
		lag:      desc("reclaim_lag_seconds", "For how long so many keys have been expired that their space is to be taken back."),
	}
}

// Describe sends the descriptions of the metrics.
func (c *kvCollector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect sends the metrics.
func (c *kvCollector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(c.executed, prometheus.CounterValue, float64(c.commands()))
	at := c.clock()
	usage, err := c.kv.Usage(context.Background(), at)
	if err != nil {
		out <- prometheus.NewInvalidMetric(c.disk, err)
		return
	}
	lag := 0.0
	if usage.Due != 0 {
		lag = max(0, at.Now.Sub(usage.Due).Seconds())
	}
	for desc, v := range map[*prometheus.Desc]float64{c.disk: float64(usage.Disk), c.live: float64(usage.Live), c.expired: float64(usage.Expired), c.lag: lag} {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v)
	}
}
