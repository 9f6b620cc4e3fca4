package profile

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/kvpebble"
	"github.com/mayflyhq/mayfly/store/loop"
)

// kvBuffers is which part of kv.memory one of the three write buffers takes.
const kvBuffers = 8

func (s *Store) openKV(f *folder, cfg config.Config) error {
	memtable := int64(cfg.KV.Memory) / kvBuffers
	o := kvpebble.Options{
		FS: f.fs, Dir: f.path(kvFolder), Fuse: s.Set.Fuse, Logger: slog.Default(), Floor: int64(cfg.Disk.Floor),
		CacheBytes: int64(cfg.KV.Memory) - 3*memtable, MemtableBytes: memtable, Share: cfg.Disk.Share,
	}
	if cfg.KV.Sync == kvpebble.EverySec.String() {
		o.Sync = kvpebble.EverySec
	}
	kv, err := kvpebble.Open(o)
	if err != nil {
		return fmt.Errorf("kv: %w", err)
	}
	s.open = append(s.open, kv)
	s.Set.KV = kv
	s.erase.do = append([]reclaim{kv.EraseDeleted}, s.erase.do...) // the last one notes the time
	s.kv = func(ctx context.Context, now mayfly.Instant) error {
		return reclaimKV(ctx, kv, now, cfg.Disk.ReclaimEvery/2, cfg.KV.ReclaimWithin)
	}
	return nil
}

// reclaimShare is the part of a core that the reclaim of keys uses while it is in time.
const reclaimShare = 4

// reclaimKV takes the space of expired keys back until there is no more, or until it has
// taken the time of a turn: the next turn goes on. It rests between its steps, unless
// half of the time has passed within which the space must be free.
func reclaimKV(ctx context.Context, kv store.KV, now mayfly.Instant, turn, within time.Duration) error {
	usage, err := kv.Usage(ctx, now)
	if err != nil {
		return err
	}
	late := usage.Due != 0 && now.Sub(usage.Due) > within/2
	for spent := time.Duration(0); spent < turn; {
		var done store.KVReclaimed
		took := loop.Measure(func() { done, err = kv.Reclaim(ctx, now) })
		if err != nil || !done.More {
			return err
		}
		rest := (reclaimShare - 1) * took
		if late {
			rest = 0
		}
		if err := loop.Rest(ctx, rest); err != nil {
			return err
		}
		spent += took + rest
	}
	return nil
}
