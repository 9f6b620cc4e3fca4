package node

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// collector tells Prometheus how the node stands, in the words of SPEC §1. It
// reads when it is asked, and so little that it may be asked every second. No
// label is an item or a user.
type collector struct {
	node *Node

	lag, watermark, eta, done, parked *prometheus.Desc
	archiveAge, reminderLag           *prometheus.Desc
	deadLetters, found                *prometheus.Desc
	confirmed, offWall, blown         *prometheus.Desc
	clockOff, offset, shards          *prometheus.Desc
	orphans, orphansOver, scrubBad    *prometheus.Desc
	consumerLag                       *prometheus.Desc
}

func newCollector(n *Node) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("mayfly_"+name, help, labels, nil)
	}
	return &collector{
		node:        n,
		lag:         desc("walk_lag_seconds", "From how far a walk has looked to what is due now.", "walk", "shard"),
		watermark:   desc("walk_watermark_timestamp_seconds", "Everything due up to here is done for good.", "walk", "shard"),
		eta:         desc("walk_eta_seconds", "Until the backlog is worked off; -1 when it grows.", "walk", "shard"),
		done:        desc("walk_items_total", "Items that a walk of this process has acted on.", "walk", "shard"),
		parked:      desc("walk_parked_total", "Items that a walk of this process has left to a reminder.", "walk", "shard"),
		archiveAge:  desc("archive_age_seconds", "How long the longest waiting item has been expired that the archive has not looked at, at most."),
		reminderLag: desc("reminder_lag_seconds", "From the durable watermark of the reminders to now.", "shard"),
		deadLetters: desc("dead_letters", "Steps that were given up after their last try, counted up to 1,000 a shard."),
		found:       desc("reconcile_found_total", "What reconcile has found and put back on its way.", "what"),
		confirmed:   desc("clock_confirmed", "1 while the clock is not in doubt."),
		offWall:     desc("clock_off_wall_seconds", "How far the node's time is from the system's."),
		clockOff:    desc("clock_off", "1 while the clock is not within bound of the store's servers, and nothing goes by it."),
		offset:      desc("clock_offset_seconds", "How far the clock is ahead of the store's servers, by the last comparison."),
		shards:      desc("shards_held", "How many shards this node walks."),
		blown:       desc("store_blown", "1 when the store can promise nothing any more."),
		orphans:     desc("orphans_erased_total", "Objects that no item owned and that were erased."),
		orphansOver: desc("orphans_over_cap", "1 when there are more orphans than one run may erase: look at mayfly orphans."),
		consumerLag: desc("consumer_lag", "Events that wait for a reader of the log.", "group", "stream"),
		scrubBad:    desc("scrub_bad_total", "Cold copies that are not what was uploaded."),
	}
}

// Describe names what is collected.
func (c *collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect reads how the node stands.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	for _, p := range c.node.Progress("") {
		shard := strconv.Itoa(int(p.Shard))
		if p.Held { // another node tells of the others
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
	counter(c.orphans, c.node.Orphans().Deleted)
	gauge(c.orphansOver, truth(c.node.Orphans().Over))
	counter(c.scrubBad, c.node.Scrubbed().BadObjects)
	for _, l := range c.node.Lags() {
		gauge(c.consumerLag, float64(l.Events), l.Group, l.Stream.String())
	}
	c.collectRows(gauge, r.Steady)
}

// readRows is how long what is read from rows may take: a store that is away
// must not hold up everything else that is known.
const readRows = 2 * time.Second

func (c *collector) collectRows(gauge func(*prometheus.Desc, float64, ...string), now mayfly.Instant) {
	ctx, cancel := context.WithTimeout(context.Background(), readRows)
	defer cancel()
	if dead, err := c.node.deadLetters(ctx); err == nil {
		gauge(c.deadLetters, float64(dead))
	}
	for _, shard := range c.node.worked().held(now) {
		mark, err := walk.LoadWatermark(ctx, c.node.set.Rows, remind.Name, shard)
		if err == nil {
			gauge(c.reminderLag, max(0, now.Sub(mark.At).Seconds()), strconv.Itoa(int(shard.Number())))
		}
	}
}

// manyDead is how many dead letters of a shard are counted.
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

// archiveAge is how long the item has been expired that the archive looks at
// next: its window and its lag.
func (n *Node) archiveAge() time.Duration {
	return n.o.Archive.Window + lateness(n.Progress(n.engine.archive.Walk().Name))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
