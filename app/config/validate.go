package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Validate returns all errors in the settings, each with a hint. They are of kind
// Invalid.
func (c Config) Validate() error {
	return errors.Join(slices.Concat(c.ranges(), c.relations(), c.Listen.check(), c.Tokens.check(), c.Rates.check(), c.Traces.check(), c.Stories.check(c.Media), c.Pastes.check(c.Media), c.KV.check(), c.Feed.check(), c.Edge.check(), c.cluster())...)
}

func invalid(hint, format string, args ...any) error {
	return mayfly.Errorf(mayfly.Invalid, "config: "+format, args...).WithHint(hint)
}

const year = 365 * 24 * time.Hour

// ranges checks the bounds of each field.
func (c Config) ranges() []error {
	var errs []error
	if c.Node == "" || len(c.Node) > 64 {
		errs = append(errs, invalid("set a name of 1 to 64 bytes that stays the same across restarts", "node is %q", c.Node))
	}
	if c.Data == "" {
		errs = append(errs, invalid("set the data folder, such as ./data", "data is empty"))
	}
	if len(c.Stories.Lifetimes) == 0 {
		errs = append(errs, invalid("allow at least one, such as 24h; the first is the default", "stories.lifetimes is empty"))
	}
	for _, l := range append(c.Stories.Lifetimes[:len(c.Stories.Lifetimes):len(c.Stories.Lifetimes)], c.Media.UploadLife) {
		if !l.Valid() || l == mayfly.Never {
			errs = append(errs, invalid("write a lifetime such as 24h", "invalid lifetime %s of stories or uploads", l))
		}
	}
	if c.Ends.Verify != "bytes" && c.Ends.Verify != "checksum" {
		errs = append(errs, invalid("write bytes or checksum", "ends.verify is %q", c.Ends.Verify))
	}
	if c.Disk.Share < 0 || c.Disk.Share > 1 {
		errs = append(errs, invalid("set it from 0 to 1", "disk.share is %g", c.Disk.Share))
	}
	errs = append(errs, spans([]span{
		{"births.timeout", c.Births.Timeout, 10 * time.Millisecond, time.Hour},
		{"births.keep_keys", c.Births.KeepKeys, time.Second, 30 * 24 * time.Hour},
		{"births.remind_after", c.Births.RemindAfter, time.Millisecond, time.Hour},
		{"walk.interval", c.Walk.Cadence, time.Millisecond, time.Minute},
		{"walk.settle", c.Walk.Settle, 10 * time.Millisecond, time.Hour},
		{"walk.lateness", c.Walk.Lateness, time.Millisecond, time.Minute},
		{"walk.lease", c.Walk.Lease, 100 * time.Millisecond, time.Minute},
		{"walk.timeout", c.Walk.Timeout, 100 * time.Millisecond, 10 * time.Minute},
		{"ends.reconcile", c.Ends.Reconcile, time.Millisecond, year},
		{"ends.reconcile_late", c.Ends.ReconcileLate, time.Millisecond, year},
		{"ends.archive_after", c.Ends.ArchiveAfter, time.Millisecond, year},
		{"ends.archive_lateness", c.Ends.ArchiveLateness, time.Millisecond, 24 * time.Hour},
		{"ends.retire_after", c.Ends.RetireAfter, 0, 100 * year},
		{"ends.tombstone", c.Ends.Tombstone, time.Second, 10 * year},
		{"ends.restore_within", c.Ends.RestoreWithin, time.Second, 100 * year},
		{"ends.orphan_age", c.Ends.OrphanAge, time.Second, year},
		{"ends.orphans_every", c.Ends.OrphansEvery, time.Second, 30 * 24 * time.Hour},
		{"ends.scrub_every", c.Ends.ScrubEvery, time.Second, year},
		{"retry.max_backoff", c.Retry.Longest, time.Millisecond, 24 * time.Hour},
		{"clock.limit", c.Clock.Limit, time.Second, 24 * time.Hour},
		{"clock.outage", c.Clock.Outage, time.Minute, 10 * 365 * 24 * time.Hour},
		{"clock.save_period", c.Clock.SavePeriod, 100 * time.Millisecond, time.Minute},
		{"log.retention", c.Log.Retention, time.Minute, 10 * 365 * 24 * time.Hour},
		{"log.trim_every", c.Log.TrimEvery, time.Second, 24 * time.Hour},
		{"disk.reclaim_every", c.Disk.ReclaimEvery, time.Second, 10 * time.Minute},
		{"disk.reclaim_media_every", c.Disk.ReclaimMediaEvery, time.Second, 45 * time.Minute},
		{"disk.erase_rows_every", c.Disk.EraseRowsEvery, time.Second, 20 * time.Hour},
	})...)
	errs = append(errs, counts([]count{
		{"walk.page", int64(c.Walk.Page), 1, 100_000},
		{"walk.batch", int64(c.Walk.Batch), 1, 10_000},
		{"ends.archive_workers", int64(c.Ends.ArchiveWorkers), 1, 10_000},
		{"ends.scrub_bytes", int64(c.Ends.ScrubBytes), 0, int64(GiB)},
		{"retry.max_attempts", int64(c.Retry.Tries), 1, 1_000},
		{"disk.floor", int64(c.Disk.Floor), 0, math.MaxInt64},
		{"memory.limit", int64(c.Memory.Limit), int64(64 * MiB), math.MaxInt64},
		{"memory.cache", int64(c.Memory.Cache), int64(MiB), math.MaxInt64},
		{"memory.memtable", int64(c.Memory.Memtable), int64(64 * KiB), int64(GiB)},
		{"memory.rows", int64(c.Memory.Rows), -1, 1 << 30},
		{"memory.buckets", int64(c.Memory.Buckets), 1, 1 << 30},
		{"memory.media_cache", int64(c.Memory.MediaCache), int64(MiB), math.MaxInt64},
		{"memory.media_memtable", int64(c.Memory.MediaMemtable), int64(256 * KiB), int64(256 * MiB)},
		{"media.inline", int64(c.Media.Inline), 1, int64(MiB)},
		{"media.max", int64(c.Media.Max), 1, int64(5 * GiB)},
		{"media.max_count", int64(c.Media.MaxCount), 1, 10},
		{"media.max_concurrent", int64(c.Media.MaxConcurrent), 1, 10_000},
		{"media.max_open", int64(c.Media.MaxOpen), 1, 1_000},
		{"media.max_unpublished", int64(c.Media.MaxUnpublished), int64(c.Media.Max), math.MaxInt64},
		{"s3.spool_bytes", int64(c.S3.SpoolBytes), int64(8 * MiB), math.MaxInt64},
		{"media.max_body", int64(c.Media.MaxBody), int64(KiB), int64(4 * MiB)},
	})...)
	return errs
}

// span is a duration and its bounds.
type span struct {
	name     string
	value    time.Duration
	from, to time.Duration
}

func spans(all []span) (errs []error) {
	for _, d := range all {
		if d.value < d.from || d.value > d.to {
			errs = append(errs, invalid(fmt.Sprintf("set it from %s to %s", durationText(d.from), durationText(d.to)), "%s is %s", d.name, durationText(d.value)))
		}
	}
	return errs
}

// count is a number and its bounds.
type count struct {
	name     string
	value    int64
	from, to int64
}

func counts(all []count) (errs []error) {
	for _, n := range all {
		if n.value < n.from || n.value > n.to {
			errs = append(errs, invalid(fmt.Sprintf("set it from %d to %d", n.from, n.to), "%s is %d", n.name, n.value))
		}
	}
	return errs
}

// relations checks the fields that depend on each other.
func (c Config) relations() []error {
	var errs []error
	if c.Births.Timeout >= c.Walk.Settle {
		errs = append(errs, invalid("make walk.settle longer, else the sweep could miss an item that was stored slowly (L4)",
			"births.timeout %s is not shorter than walk.settle %s", c.Births.Timeout, c.Walk.Settle))
	}
	if c.Clock.Outage < c.Clock.Limit {
		errs = append(errs, invalid("make clock.outage longer", "clock.outage %s is shorter than clock.limit %s", c.Clock.Outage, c.Clock.Limit))
	}
	if c.Ends.ReconcileLate <= c.Ends.Reconcile {
		errs = append(errs, invalid("make ends.reconcile_late longer",
			"ends.reconcile_late %s is not longer than ends.reconcile %s", c.Ends.ReconcileLate, c.Ends.Reconcile))
	}
	if c.Ends.RetireAfter != 0 && c.Ends.RetireAfter <= c.Ends.ArchiveAfter {
		errs = append(errs, invalid("make ends.retire_after longer, or 0 to keep items for ever",
			"ends.retire_after %s is not longer than ends.archive_after %s", c.Ends.RetireAfter, c.Ends.ArchiveAfter))
	}
	if c.Retry.Longest < c.Births.RemindAfter {
		errs = append(errs, invalid("make retry.max_backoff longer", "retry.max_backoff %s is shorter than births.remind_after %s", c.Retry.Longest, c.Births.RemindAfter))
	}
	if least := c.Media.UploadLife.Duration() + c.Births.Timeout; c.Ends.OrphanAge < least {
		errs = append(errs, invalid(fmt.Sprintf("set it to %s or more: younger media may still be published", least), "ends.orphan_age is %s", c.Ends.OrphanAge))
	}
	if parts := c.Memory.Parts() + c.KV.Memory; parts > c.Memory.Limit/4*3 {
		errs = append(errs, invalid("raise memory.limit or lower the caches: they may take three quarters of it",
			"the caches and buffers take %d MiB of memory.limit %d MiB", parts/MiB, c.Memory.Limit/MiB))
	}
	return errs
}

const (
	rowBytes    = 600 // approximate size of a cached row with its body
	bucketBytes = 100 // approximate size of a rate-limit counter
)

// Parts returns the size of the caches and buffers when they are full.
func (m Memory) Parts() Bytes {
	const ledgerTables, mediaTables, tiers = 3, 3, 2 // write buffers of each database, and the number of media databases
	databases := m.Cache + ledgerTables*m.Memtable + tiers*(m.MediaCache+mediaTables*m.MediaMemtable)
	return databases + Bytes(max(0, m.Rows))*rowBytes + Bytes(m.Buckets)*bucketBytes
}
