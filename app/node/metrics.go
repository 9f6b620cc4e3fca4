package node

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// collector collects the metrics of the node. It reads so little that Prometheus may
// call it every second. No label is an item or a user.
type collector struct {
	node *Node

	lag, watermark, eta, done, parked *prometheus.Desc
	archiveAge, reminderLag           *prometheus.Desc
	deadLetters, found                *prometheus.Desc
	confirmed, offWall, blown         *prometheus.Desc
	clockOff, offset, shards          *prometheus.Desc
	orphans, orphansOver, scrubBad    *prometheus.Desc
	abandoned, missing                *prometheus.Desc
	consumerLag                       *prometheus.Desc
	stuck, unerased                   *prometheus.Desc
	reclaimLag, rowsErased            *prometheus.Desc
	purges, purgesFailed              *prometheus.Desc
	unverified, unverifiedAge         *prometheus.Desc
}

func newCollector(n *Node) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mayfly_"+name, help, labels, nil)
	}
	return &collector{
		node:        n,
		lag:         desc("walk_lag_seconds", "How far a walk is behind the items that are due now.", "walk", "shard"),
		watermark:   desc("walk_watermark_timestamp_seconds", "Every item that was due up to here is processed.", "walk", "shard"),
		eta:         desc("walk_eta_seconds", "Estimated time until the backlog is processed; -1 when it grows.", "walk", "shard"),
		done:        desc("walk_items_total", "Items that a walk of this process has processed.", "walk", "shard"),
		parked:      desc("walk_parked_total", "Items that a walk of this process has deferred to a reminder.", "walk", "shard"),
		archiveAge:  desc("archive_age_seconds", "Longest time that an item has been expired and not yet archived, at most."),
		reminderLag: desc("reminder_lag_seconds", "How far the stored watermark of the reminders is behind now.", "shard"),
		deadLetters: desc("dead_letters", "Steps that were given up after their last attempt, counted up to 1,000 a shard."),
		found:       desc("reconcile_found_total", "Items that reconcile has found stuck and scheduled again.", "what"),
		confirmed:   desc("clock_confirmed", "1 while the clock is confirmed."),
		offWall:     desc("clock_off_wall_seconds", "How far the node's time is from the system's."),
		clockOff:    desc("clock_off", "1 while the clock is out of bound of the store's servers and is not used."),
		offset:      desc("clock_offset_seconds", "How far the clock is ahead of the store's servers, by the last comparison."),
		shards:      desc("shards_held", "Number of shards that this node walks."),
		blown:       desc("store_blown", "1 when the store cannot promise durability any more and the process must end."),
		orphans:     desc("orphans_erased_total", "Objects that no item owned and that were erased."),
		orphansOver: desc("orphans_over_cap", "1 when there are more orphans than one run may erase: run mayfly orphans."),
		abandoned:   desc("abandoned_erased_total", "Objects of uploads that were never published and that were erased after their deadline."),
		missing:     desc("missing_media_total", "Media that an item names and that were not found."),
		consumerLag: desc("consumer_lag", "Events that wait for a reader of the log.", "group", "stream"),
		stuck:       desc("media_stuck_files", "Files of deleted media that could not be removed or overwritten, and are tried again."),
		unerased:    desc("media_unerased_bytes", "Bytes of deleted media that are still in files."),
		reclaimLag:  desc("reclaim_lag_seconds", "For how long the oldest row has been past its time and is still there."),
		rowsErased:  desc("rows_erased_timestamp_seconds", "When deleted rows were last erased from the files of the databases."),
		purges:      desc("edge_purges_total", "Purges of the edge that were verified."),

		purgesFailed:  desc("edge_purges_failed_total", "Attempts to purge or to ask the edge that failed."),
		unverified:    desc("edge_unverified_purges", "Purges of the edge that are not verified yet: mayfly purges lists them."),
		unverifiedAge: desc("edge_unverified_age_seconds", "For how long the oldest purge of the edge has not been verified."),

		scrubBad: desc("scrub_bad_total", "Cold copies that are not what was uploaded."),
	}
}

// Describe sends the descriptions of the metrics.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect sends the metrics.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, p := range c.node.Progress("") {
		shard := strconv.Itoa(int(p.Shard))
		if p.Held { // another node reports the other shards
			gauge(c.lag, p.Lag.Seconds(), p.Walk, shard)
			gauge(c.watermark, float64(p.Watermark)/1000, p.Walk, shard)
			gauge(c.eta, max(-1, p.ETA.Seconds()), p.Walk, shard)
		}
		counter(c.done, p.Done, p.Walk, shard)
		counter(c.parked, p.Parked, p.Walk, shard)
	}
	gauge(c.archiveAge, c.node.archiveAge().Seconds())
	f := c.node.Found()
	counter(c.found, f.Active, "active")
	counter(c.found, f.ExpiredHot, "expired_hot")
	counter(c.found, f.Archiving, "archiving")
	counter(c.found, f.Unerased, "unerased")
	r := c.node.clock.Read()
	gauge(c.confirmed, truth(r.Confirmed))
	gauge(c.offWall, r.Now.Sub(r.Wall).Seconds())
	gauge(c.clockOff, truth(r.Off))
	if offset, ok := c.node.clock.Offset(); ok {
		gauge(c.offset, offset.Middle().Seconds())
	}
	gauge(c.shards, float64(len(c.node.Shards())))
	gauge(c.blown, truth(c.node.Err() != nil))
	o := c.node.Orphans()
	counter(c.orphans, o.Deleted)
	gauge(c.orphansOver, truth(o.Over))
	counter(c.abandoned, o.Abandoned)
	counter(c.missing, o.Missing)
	counter(c.scrubBad, c.node.Scrubbed().BadObjects)
	if c.node.o.Disk != nil {
		if d, ok := c.node.o.Disk(); ok {
			gauge(c.stuck, float64(d.StuckFiles))
			gauge(c.unerased, float64(d.UnerasedBytes))
			gauge(c.reclaimLag, d.ReclaimLag.Seconds())
			gauge(c.rowsErased, float64(d.RowsErased)/1000)
		}
	}
	p := c.node.purges()
	counter(c.purges, p.Verified)
	counter(c.purgesFailed, p.Failed)
	gauge(c.unverified, float64(p.Unverified))
	gauge(c.unverifiedAge, r.Steady.Sub(cmp.Or(p.Oldest, r.Steady)).Seconds())
	for _, l := range c.node.Lags() {
		gauge(c.consumerLag, float64(l.Events), l.Group, l.Stream.String())
	}
	c.node.refused.Collect(out)
	c.collectRows(gauge, r.Steady)
}

// countedLedger counts the changes that the ledger refuses, because the table of
// transitions does not allow them (L1).
type countedLedger struct {
	store.Ledger
	refused *prometheus.CounterVec
}

func countRefused(ledger store.Ledger) countedLedger {
	return countedLedger{ledger, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "mayfly_transitions_refused_total", Help: "Changes of an item's state that were refused, because the state it is in does not allow them.",
	}, []string{"from", "to"})}
}

func (l countedLedger) Transition(ctx context.Context, changes []mayfly.Change) ([]store.Outcome, error) {
	outcomes, err := l.Ledger.Transition(ctx, changes)
	for i, o := range outcomes {
		if o.Result == store.Refused {
			l.refused.WithLabelValues(changes[i].From.String(), changes[i].To.String()).Inc()
		}
	}
	return outcomes, err
}

// readRows is the timeout of metrics that are read from rows: a store that does not
// answer must not hold up the others.
const readRows = 2 * time.Second

func (c *collector) collectRows(gauge func(*prometheus.Desc, float64, ...string), now mayfly.Instant) {
	ctx, cancel := context.WithTimeout(context.Background(), readRows)
	defer cancel()
	if dead, err := c.node.deadLetters(ctx); err == nil {
		gauge(c.deadLetters, float64(dead))
	}
	for _, shard := range c.node.worked().held(now) {
		quick, err := walk.LoadWatermark(ctx, c.node.set.Rows, remind.Name, shard)
		slow, slowErr := walk.LoadWatermark(ctx, c.node.set.Rows, remind.SlowName, shard)
		if err == nil && slowErr == nil {
			gauge(c.reminderLag, max(0, now.Sub(min(quick.At, slow.At)).Seconds()), strconv.Itoa(int(shard.Number())))
		}
	}
}

// manyDead is how many dead letters of a shard are counted at most.
const manyDead = 1_000

func (n *Node) deadLetters(ctx context.Context) (count int, err error) {
	for shard := range mayfly.Shard(mayfly.Shards) {
		found, err := remind.DeadLetters(ctx, n.set.Rows, shard, remind.Dead{}, manyDead)
		if err != nil {
			return 0, err
		}
		count += len(found)
	}
	return count, nil
}

// archiveAge returns how long the next item of the archive has been expired: the
// archive's window and its lag.
func (n *Node) archiveAge() time.Duration {
	return n.o.Archive.Window + lateness(n.Progress(n.engine.archive.Walk().Name))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
