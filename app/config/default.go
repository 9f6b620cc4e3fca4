package config

import (
	"time"

	"github.com/mayflyhq/mayfly"
)

// DefaultOn returns the defaults of a profile.
func DefaultOn(profile string) Config {
	c := Default()
	if profile == Cluster {
		c.Listen.DrainAfter = 5 * time.Second // other nodes serve meanwhile
		c.KV.Rate = Rate{}                    // each command would ask Redis
	}
	return c
}

// Default returns the settings of a server without any configuration, except Data,
// which the caller sets.
func Default() Config {
	const day = 24 * time.Hour
	return Config{
		Profile: Embedded,
		Roles:   []string{"all"},
		Node:    "node",
		Listen: Listen{
			API: "127.0.0.1:7420", Admin: "127.0.0.1:7421",
			HeaderWithin: 10 * time.Second, BodyWithin: 30 * time.Second, IdleWithin: 2 * time.Minute, DrainWithin: 20 * time.Second,
			Connections: 10_000, PerAddress: 1000,
		},
		Tokens: Tokens{Issuer: "mayfly", Audience: "mayfly", Access: 15 * time.Minute, Refresh: 30 * day, JWKSEvery: 5 * time.Minute, TrustedScopes: []string{"user"}},
		Rates: Rates{
			Writes: Rate{300, 3 * time.Hour}, Follows: Rate{150, time.Hour}, Reads: Rate{1_500, 15 * time.Minute}, AddressReads: Rate{3_000, 15 * time.Minute}, AddressWrites: Rate{300, 3 * time.Hour},
		},
		Traces: Traces{Share: 0.01},
		Stories: Stories{
			Lifetimes: lifetimes(24*time.Hour, 6*time.Hour, 12*time.Hour, 48*time.Hour), Live: mayfly.DefaultLive,
			MaxImage: mayfly.DefaultMaxImage, MaxVideo: mayfly.DefaultMaxVideo, MaxPixels: mayfly.DefaultMaxPixels, Thumbnails: 1, ThumbnailPixels: 16_000_000,
			URLs: time.Minute, ArchiveURLs: time.Hour,
		},
		Pastes: Pastes{
			Lifetime: lifetimes(7 * day)[0], ShortestLifetime: lifetimes(10 * time.Minute)[0], LongestLifetime: lifetimes(365 * day)[0],
			MaxSize: 10 * MiB, Rate: Rate{120, time.Hour}, HourlyBytes: 200 * MiB, PageCache: 16 * MiB,
		},
		Feed: Feed{
			ShortestLifetime: lifetimes(time.Minute)[0], LongestLifetime: lifetimes(365 * day)[0], Never: true, LikeRate: Rate{1_000, time.Hour},
		},
		Births: Births{Timeout: mayfly.DefaultBirthTimeout, KeepKeys: mayfly.DefaultKeepKeys, RemindAfter: mayfly.DefaultRemindAfter},
		Walk: Walk{
			Cadence:  mayfly.DefaultCadence,
			Settle:   mayfly.DefaultSettle,
			Page:     mayfly.DefaultPage,
			Batch:    mayfly.DefaultBatch,
			Lateness: mayfly.DefaultLateness,
			Lease:    mayfly.DefaultLease,
			Timeout:  mayfly.DefaultWalkTimeout,
		},
		Ends: Ends{
			Reconcile:       mayfly.DefaultReconcile,
			ReconcileLate:   mayfly.DefaultReconcileLate,
			ArchiveAfter:    mayfly.DefaultArchiveAfter,
			ArchiveWorkers:  mayfly.DefaultArchiveWorkers,
			ArchiveLateness: mayfly.DefaultArchiveLateness,
			Verify:          "bytes",
			RetireAfter:     3 * 365 * day,
			Tombstone:       mayfly.DefaultTombstone,
			RestoreWithin:   mayfly.DefaultRestoreWithin,
			OrphanAge:       day + time.Minute,
			OrphansEvery:    mayfly.DefaultOrphansEvery,
			ScrubBytes:      MiB,
			ScrubEvery:      mayfly.DefaultScrubEvery,
		},
		Retry: Retry{Tries: mayfly.DefaultTries, Longest: mayfly.DefaultLongestPause},
		Clock: Clock{Limit: mayfly.DefaultClockLimit, Outage: mayfly.DefaultClockOutage, SavePeriod: mayfly.DefaultSavePeriod},
		Log:   Log{Retention: mayfly.DefaultLogRetention, TrimEvery: mayfly.DefaultTrimEvery},
		KV:    KV{MaxNamespaces: 16, OwnerQuota: GiB, Rate: Rate{3_000_000, time.Minute}, Quota: 256 * MiB, MaxKey: 4 * KiB, MaxValue: 16 * MiB, Sync: "always", ReclaimWithin: 10 * time.Minute, Memory: 40 * MiB},
		Disk:  Disk{Floor: GiB, Share: 0.25, ReclaimEvery: mayfly.DefaultReclaimEvery, ReclaimMediaEvery: 15 * time.Minute, EraseRowsEvery: 12 * time.Hour},
		Memory: Memory{
			Limit:         448 * MiB,
			Cache:         64 * MiB,
			Memtable:      32 * MiB,
			Rows:          mayfly.DefaultCacheRows,
			Buckets:       1 << 18,
			MediaCache:    8 * MiB,
			MediaMemtable: 8 * MiB,
		},
		Edge: Edge{Timeout: 2 * time.Second},
		Media: Media{
			Inline:         64 * KiB,
			Max:            mayfly.DefaultMaxMedium,
			MaxCount:       mayfly.MaxMedia,
			MaxConcurrent:  mayfly.DefaultMaxConcurrent,
			MaxOpen:        mayfly.DefaultMaxOpen,
			MaxUnpublished: mayfly.DefaultMaxUnpublished,
			MaxBody:        mayfly.DefaultMaxBody,
			UploadLife:     lifetimes(mayfly.DefaultUploadLife)[0],
		},

		Cassandra: Cassandra{Keyspace: "mayfly", Copies: 3, Timeout: 4 * time.Second},
		Redis:     Redis{Prefix: "mayfly", Lease: time.Second},
		Kafka:     Kafka{Partitions: 64, Copies: 3, Mechanism: "SCRAM-SHA-512"},
		S3:        S3{Region: "us-east-1", ColdClass: "GLACIER_IR", SpoolBytes: GiB, Presign: true},
	}
}

func lifetimes(durations ...time.Duration) []mayfly.Lifetime {
	all := make([]mayfly.Lifetime, len(durations))
	for i, d := range durations {
		l, err := mayfly.LifetimeOf(d)
		if err != nil {
			panic(err) // a default is out of range
		}
		all[i] = l
	}
	return all
}
