package mayfly

import "time"

// Defaults of the engine's settings. Each stands here and nowhere else:
// app/config shows it as the default of the named key, and an engine package
// uses it for an option that is zero.
const (
	DefaultBirthTimeout = 10 * time.Second // births.timeout
	DefaultKeepKeys     = 24 * time.Hour   // births.keep_keys
	DefaultRemindAfter  = 2 * time.Minute  // births.remind_after

	DefaultMaxMedium      = 64 << 20       // media.max
	DefaultMaxConcurrent  = 16             // media.max_concurrent
	DefaultMaxOpen        = 64             // media.max_open
	DefaultMaxUnpublished = 1 << 30        // media.max_unpublished
	DefaultMaxBody        = 256 << 10      // media.max_body
	DefaultUploadLife     = 24 * time.Hour // media.upload_life

	DefaultLive      = 100        // stories.live
	DefaultMaxImage  = 20 << 20   // stories.max_image
	DefaultMaxVideo  = 64 << 20   // stories.max_video
	DefaultMaxPixels = 50_000_000 // stories.max_pixels

	DefaultCadence     = time.Second      // walk.interval
	DefaultSettle      = 15 * time.Second // walk.settle
	DefaultPage        = 500              // walk.page
	DefaultBatch       = 500              // walk.batch
	DefaultLateness    = 20 * time.Second // walk.lateness
	DefaultLease       = 5 * time.Second  // walk.lease
	DefaultWalkTimeout = 10 * time.Second // walk.timeout

	DefaultReconcile       = 5 * time.Minute     // ends.reconcile
	DefaultReconcileLate   = 24 * time.Hour      // ends.reconcile_late
	DefaultArchiveAfter    = 90 * time.Minute    // ends.archive_after
	DefaultArchiveWorkers  = 16                  // ends.archive_workers
	DefaultArchiveLateness = 10 * time.Minute    // ends.archive_lateness
	DefaultTombstone       = 30 * 24 * time.Hour // ends.tombstone
	DefaultRestoreWithin   = 30 * 24 * time.Hour // ends.restore_within
	DefaultOrphansEvery    = time.Hour           // ends.orphans_every
	DefaultScrubEvery      = 24 * time.Hour      // ends.scrub_every

	DefaultTries        = 10            // retry.max_attempts
	DefaultLongestPause = 6 * time.Hour // retry.max_backoff

	DefaultClockLimit  = 5 * time.Minute     // clock.limit
	DefaultClockOutage = 30 * 24 * time.Hour // clock.outage
	DefaultSavePeriod  = time.Second         // clock.save_period

	DefaultLogRetention = 30 * 24 * time.Hour // log.retention
	DefaultTrimEvery    = time.Hour           // log.trim_every
	DefaultReclaimEvery = time.Minute         // disk.reclaim_every
	DefaultCacheRows    = 1 << 16             // memory.rows
)
