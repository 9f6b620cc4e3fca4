package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/store/kvpebble"
	"github.com/mayflyhq/mayfly/store/loop"
)

// beyondMemory reads keys at random from two servers with the same data by turns: one
// whose memory holds all of it, and one whose memory holds a tenth.
func (t kvTrial) beyondMemory(ctx context.Context, b *bench, folder string) (err error) {
	filled, copied := filepath.Join(folder, "filled"), filepath.Join(folder, "copied")
	all, err := startKV(ctx, filled, "", everySecond)
	if err != nil {
		return err
	}
	err = t.each(ctx, b, &all.kvSide, kvLoad{write: true, keys: t.cached}, func(a *kvAsker, key int) { a.set(key, kvLives) })
	if err := errors.Join(err, all.leave()); err != nil {
		return err
	}
	err = os.CopyFS(copied, os.DirFS(filled))
	if err := errors.Join(err, os.Chmod(filepath.Join(copied, "data", "key"), 0o600)); err != nil { // the mode is not copied
		return err
	}
	size := config.Bytes(t.cached * (kvKey + kvValue))
	rates := make(map[string]*pasteRates)
	var sides []*kvServer
	defer func() {
		for _, s := range sides {
			err = errors.Join(err, s.leave())
		}
	}()
	for _, one := range []struct {
		folder string
		memory config.Bytes
	}{{filled, 3*size + 32*config.MiB}, {copied, max(size/10, 2*config.MiB)}} {
		limit := config.Default().Memory.Limit + 2*one.memory
		s, err := startKV(ctx, one.folder, all.key, everySecond, fmt.Sprintf("kv.memory=%dB", one.memory), fmt.Sprintf("memory.limit=%dB", limit))
		if err != nil {
			return err
		}
		sides = append(sides, s)
		rates[one.folder] = &pasteRates{}
		if err := t.each(ctx, b, &s.kvSide, kvLoad{keys: t.cached}, (*kvAsker).get); err != nil {
			return err
		}
	}
	for range baselineTurns {
		for i, folder := range []string{filled, copied} {
			if err := t.turn(ctx, b, &sides[i].kvSide, kvLoad{pipeline: 1, keys: t.cached, step: 1}, rates[folder]); err != nil {
				return err
			}
		}
	}
	b.report.add("kv.beyond_memory_ratio", medianRatio(rates[copied].perSecond, rates[filled].perSecond))
	b.report.add("kv.get_beyond_memory_per_s", median(rates[copied].perSecond))
	b.report.add("kv.get_cached_per_s", median(rates[filled].perSecond))
	return nil
}

const everySecond = "kv.sync=everysec"

// reclaim writes keys of which every second one expires at the same instant, and looks at
// the disk while nothing is read or written; then it compares every value, and does the
// same with Badger. At last it reads while the space of keys that have expired again is
// taken back and while it is not, by turns.
func (t kvTrial) reclaim(ctx context.Context, b *bench, folder string) (err error) {
	s, err := openKVEngine(ctx, folder, t.every)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	begun := time.Now()
	expires := s.now().Add(time.Hour)
	if err := t.fillHalf(ctx, b, &s.kvSide, func() time.Duration { return expires.Sub(s.now()) }); err != nil {
		return err
	}
	filled := time.Since(begun)
	s.advance(expires.Sub(s.now()) + t.ahead)
	flushes := s.kv().Flushes()
	usage, err := s.kv().Usage(ctx, s.now())
	if err != nil {
		return err
	}
	disk := &kvDisk{live: float64(t.stored/2*(kvKey+kvValue)) / mebibyte, keys: t.stored}
	begun = time.Now()
	if disk.ours, err = t.watch(ctx, b, filepath.Join(folder, "data", "kv"), func() (bool, error) {
		if usage, err = s.kv().Usage(ctx, s.now()); err != nil {
			return false, err
		}
		counted := time.Since(begun)+t.ahead > kvCounted
		return (!counted || usage.Expired > 0) && time.Since(begun) < kvReclaimLimit, nil
	}); err != nil {
		return err
	}
	b.report.add("kv.reclaim_s", disk.ours[len(disk.ours)-1].s)
	b.report.add("kv.reclaim_flushes", float64(s.kv().Flushes()-flushes))
	b.report.add("kv.live_mib", disk.live)
	if err := t.compareValues(ctx, b, &s.kvSide); err != nil {
		return err
	}
	disk.report(b, "", disk.ours)
	if err := t.reclaimBadger(ctx, b, filepath.Join(folder, "badger"), filled+5*time.Second, disk); err != nil {
		return err
	}
	if b.plot != "" {
		if err := os.WriteFile(b.plot, disk.svg(), 0o600); err != nil {
			return err
		}
	}
	if err := t.readWhileReclaiming(ctx, b, s); err != nil {
		return err
	}
	b.addIO("kv", s.io())
	return nil
}

// kvCounted is how long after its expiry a key is counted as expired, at the latest.
const kvCounted = 70 * time.Second

// kvReclaimLimit is how long space may take to come back (kv.reclaim_within).
const kvReclaimLimit = 10 * time.Minute

// watch looks at the disk at a steady pace as long as more says so, and as often again as
// a tenth of that.
func (t kvTrial) watch(ctx context.Context, b *bench, folder string, more func() (bool, error)) (samples []kvSample, err error) {
	stage := b.progress.Begin("the space of expired keys comes back", 0)
	defer stage.End()
	begun := time.Now()
	for after := 0; ; {
		disk, err := diskUsage(folder)
		if err != nil {
			return nil, err
		}
		samples = append(samples, kvSample{time.Since(begun).Seconds(), float64(disk) / mebibyte})
		goOn, err := more()
		if err != nil {
			return nil, err
		}
		if !goOn {
			if after++; after > 1+len(samples)/10 {
				return samples, nil
			}
		}
		if err := loop.Rest(ctx, t.look); err != nil {
			return nil, err
		}
	}
}

// compareValues reads every key: those that live have their value, the others are gone.
func (t kvTrial) compareValues(ctx context.Context, b *bench, s *kvSide) error {
	var live, gone atomic.Int64
	for _, l := range []kvLoad{{keys: t.stored, step: 2}, {keys: t.stored, step: 2, gone: true}} {
		if err := t.each(ctx, b, s, l, func(a *kvAsker, key int) {
			if l.gone {
				a.get(key + 1)
				gone.Add(1)
			} else {
				a.get(key)
				live.Add(1)
			}
		}); err != nil {
			return err
		}
	}
	b.report.add("kv.reclaim_compared", float64(live.Load()))
	b.report.add("kv.reclaim_gone", float64(gone.Load()))
	return nil
}

// reclaimBadger writes the same keys to Badger, and looks at its disk for as long after
// the expiry.
func (t kvTrial) reclaimBadger(ctx context.Context, b *bench, folder string, after time.Duration, disk *kvDisk) (err error) {
	s, err := badgerSide(ctx, b.peers, folder)
	if err != nil {
		return b.withoutPeer(ctx, "Badger's disk is", err)
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	if t.ahead > 0 {
		after = 2 * time.Second
	}
	expires := time.Now().Add(after)
	if err := t.fillHalf(ctx, b, s, func() time.Duration { return max(time.Until(expires), time.Millisecond) }); err != nil {
		return err
	}
	if err := loop.Rest(ctx, time.Until(expires)+time.Second); err != nil { // it keeps expiries in whole seconds
		return err
	}
	begun, wait := time.Now(), disk.ours[len(disk.ours)-1].s
	disk.badger, err = t.watch(ctx, b, folder, func() (bool, error) { return time.Since(begun).Seconds() < wait, nil })
	if err != nil {
		return err
	}
	disk.report(b, "_badger", disk.badger)
	return nil
}

// readWhileReclaiming lets the same keys expire once more, and reads the others by turns.
func (t kvTrial) readWhileReclaiming(ctx context.Context, b *bench, s *kvEngine) error {
	s.reclaims.Store(false)
	if err := t.each(ctx, b, &s.kvSide, kvLoad{write: true, keys: t.stored, step: 2}, func(a *kvAsker, key int) { a.set(key+1, time.Hour) }); err != nil {
		return err
	}
	s.advance(time.Hour + kvCounted)
	load := kvLoad{pipeline: 1, keys: t.stored, step: 2}
	var ratios []float64
	rest, busy := &pasteRates{}, &pasteRates{}
	for more := true; more && len(ratios) < baselineTurns; {
		if err := t.turn(ctx, b, &s.kvSide, load, rest); err != nil {
			return err
		}
		reclaiming, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- s.reclaimAll(reclaiming) }()
		err := t.turn(ctx, b, &s.kvSide, load, busy)
		stop()
		if ended := <-ended; ended == nil {
			more = false
		} else if !errors.Is(ended, context.Canceled) {
			return ended
		}
		if err != nil {
			return err
		}
		n := len(ratios)
		ratios = append(ratios, busy.p99[n]/rest.p99[n])
	}
	b.report.add("kv.reclaim_p99_ratio", median(ratios))
	b.report.add("kv.reclaim_rest_p99_ms", median(rest.p99)/1e6)
	b.report.add("kv.reclaim_p99_ms", median(busy.p99)/1e6)
	return nil
}

const mebibyte = 1 << 20

// fillHalf writes the keys of the reclaim; every second one expires after so long.
func (t kvTrial) fillHalf(ctx context.Context, b *bench, s *kvSide, after func() time.Duration) error {
	return t.each(ctx, b, s, kvLoad{write: true, keys: t.stored}, func(a *kvAsker, key int) {
		if key%2 == 0 {
			a.set(key, kvLives)
		} else {
			a.set(key, after())
		}
	})
}

// kvEngine is the product in this process: its clock can be set forward.
type kvEngine struct {
	*benchEngine
	kvSide
	reclaims atomic.Bool // the node takes space back by itself
}

func openKVEngine(ctx context.Context, folder string, every time.Duration) (_ *kvEngine, err error) {
	cfg := config.Default()
	cfg.Data, cfg.Listen.KV, cfg.Disk.ReclaimEvery = filepath.Join(folder, "data"), "127.0.0.1:0", every
	cfg.KV.Namespaces, cfg.KV.Sync, cfg.KV.Quota = []string{kvNamespace}, kvpebble.EverySec.String(), 1<<40
	s := &kvEngine{benchEngine: &benchEngine{config: cfg, clock: &benchClock{}}}
	s.reclaims.Store(true)
	if s.store, err = profile.Embedded(cfg, node.Tables()); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.close(ctx))
		}
	}()
	if err := s.start(ctx, mayfly.InstantOf(time.Now()), func(o *node.Options) {
		o.Reclaim = func(ctx context.Context, now mayfly.Instant) error {
			if !s.reclaims.Load() {
				return nil
			}
			return s.store.Reclaim(ctx, now)
		}
	}); err != nil {
		return nil, err
	}
	made, _, err := s.node.KV().AddKey(ctx, mayfly.UserID{}, kvNamespace, s.now())
	if err != nil {
		return nil, err
	}
	s.key = made.Reveal()
	l, err := net.Listen("tcp", cfg.Listen.KV)
	if err != nil {
		return nil, err
	}
	s.address = l.Addr().String()
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- s.node.Listeners()[0].Serve(serving, l) }()
	s.stop = func() error {
		cancel()
		return <-ended
	}
	return s, nil
}

func (s *kvEngine) close(ctx context.Context) error {
	var err error
	if s.stop != nil {
		err = s.stop()
	}
	return errors.Join(err, s.benchEngine.close(ctx))
}

func (s *kvEngine) kv() *kvpebble.Store { return s.store.Set.KV.(*kvpebble.Store) }

// advance sets the clock forward, as after a step that an operator confirms.
func (s *kvEngine) advance(d time.Duration) {
	s.clock.set(s.now().Add(d))
	s.node.Clock().Read()
	s.node.Clock().Confirm()
}

// reclaimAll takes space back at the pace of the product until there is no more.
func (s *kvEngine) reclaimAll(ctx context.Context) error {
	for {
		if err := s.store.Reclaim(ctx, s.now()); err != nil {
			return err
		}
		if done, err := s.kv().Reclaim(ctx, s.now()); err != nil || !done.More {
			return err
		}
	}
}

// diskUsage returns the space that a folder takes.
func diskUsage(folder string) (disk int64, err error) {
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			disk += allocated(info)
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("disk usage: %w", err)
	}
	return disk, nil
}
