package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/diskfs"
	"github.com/mayflyhq/mayfly/store/memstore"
	"github.com/mayflyhq/mayfly/store/pebblestore"
)

// graphTrial gives one author many followers, one follow after the other, as the API
// does, and lists them. The disk does not sync: it measures sizes and pages, not syncs.
type graphTrial struct {
	followers int
	recount   int // the counts are brought up to date after so many, as upkeep does
}

func graphTrialOf(f benchForm) graphTrial {
	if f == quickForm {
		return graphTrial{followers: 150_000, recount: 50_000}
	}
	if f == longForm {
		return graphTrial{followers: 20_000_000, recount: 500_000}
	}
	return graphTrial{followers: 2_000_000, recount: 200_000}
}

func (t graphTrial) run(ctx context.Context, b *bench, folder string) (err error) {
	meter := new(diskfs.Meter)
	db, err := pebblestore.Open(pebblestore.Options{Tables: node.Tables(), FS: diskfs.Metered(unsynced{vfs.Default}, meter), Dir: folder, CacheBytes: 64 << 20})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	key, err := account.LoadKey(filepath.Join(folder, "key"))
	if err != nil {
		return err
	}
	rows := db.Rows()
	accounts, err := account.New(ctx, account.Options{Rows: rows, Signals: memstore.NewSignals(), Key: key})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, accounts.Close()) }()
	author := mayfly.UserOf("bench", "author")
	took, err := t.follow(ctx, b, accounts, author)
	if err != nil {
		return err
	}
	pages, listed, err := t.list(ctx, b, accounts, author)
	if err != nil {
		return err
	}
	if listed != t.followers {
		return fmt.Errorf("%d followers are listed, and %d follow", listed, t.followers)
	}
	profiles, err := accounts.Profiles(ctx, author)
	if err != nil {
		return err
	}
	if n := profiles[0].Followers; n != t.followers {
		return fmt.Errorf("%d followers are counted, and %d follow", n, t.followers)
	}
	largest, partitions, bytes, err := sizeOf(ctx, rows, account.Followers)
	if err != nil {
		return err
	}
	_, _, forward, err := sizeOf(ctx, rows, account.Follows)
	if err != nil {
		return err
	}
	b.report.add("graph.followers", float64(t.followers))
	b.report.add("graph.follows_per_s", float64(t.followers)/took.Seconds())
	b.report.add("graph.page_p99_ms", float64(pages.ValueAtQuantile(99))/1e6)
	b.report.add("graph.page_max_ms", float64(pages.Max())/1e6)
	b.report.add("graph.bytes_per_edge", float64(bytes+forward)/float64(t.followers))
	b.report.add("graph.partitions", float64(partitions))
	b.report.add("graph.largest_partition_mb", float64(largest)/1e6)
	total := meter.Read().Total()
	b.addIO("graph", benchIO{fsyncs: total.Syncs, bytes: total.Bytes})
	return nil
}

// follow makes the followers, and counts them until no mark is left.
func (t graphTrial) follow(ctx context.Context, b *bench, accounts *account.Accounts, author mayfly.UserID) (took time.Duration, err error) {
	stage := b.progress.Begin("follow one author", t.followers)
	defer stage.End()
	now, began := mayfly.InstantOf(time.Now()), time.Now()
	for from := 0; from < t.followers; from += t.recount {
		var next atomic.Int64
		next.Store(int64(from))
		g, following := errgroup.WithContext(ctx)
		for range 8 {
			g.Go(func() error {
				for {
					n := int(next.Add(1)) - 1
					if n >= min(from+t.recount, t.followers) {
						return nil
					}
					if err := accounts.Relate(following, author, follower(n), mayfly.Follower, 0, now); err != nil {
						return err
					}
					stage.Add(1)
				}
			})
		}
		if err := g.Wait(); err != nil {
			return 0, err
		}
		began := time.Now()
		for pass := 0; ; pass++ { // readers are counted too
			now = now.Add(2 * time.Hour)
			done, err := accounts.Recount(ctx, now)
			if err != nil {
				return 0, err
			}
			if done.Left == 0 {
				break
			}
			if pass == 1_000 {
				return 0, fmt.Errorf("%d counts are left after %d passes", done.Left, pass)
			}
		}
		took -= time.Since(began)
	}
	return took + time.Since(began), nil
}

// follower returns a user whose id is at random, as ids of users are.
func follower(n int) (user mayfly.UserID) {
	r := rand.New(rand.NewPCG(uint64(n), 7))
	binary.BigEndian.PutUint64(user[:], r.Uint64())
	binary.BigEndian.PutUint64(user[8:], r.Uint64())
	return user
}

// list reads all followers, page by page.
func (t graphTrial) list(ctx context.Context, b *bench, accounts *account.Accounts, author mayfly.UserID) (*hdrhistogram.Histogram, int, error) {
	stage := b.progress.Begin("list the followers", t.followers)
	defer stage.End()
	times, listed := hdrhistogram.New(100, int64(time.Minute), 3), 0
	for after := ""; ; {
		began := time.Now()
		page, next, err := accounts.Followers(ctx, author, after, 200)
		if err != nil {
			return nil, 0, err
		}
		if err := times.RecordValue(time.Since(began).Nanoseconds()); err != nil {
			return nil, 0, err
		}
		listed += len(page)
		stage.Add(len(page))
		if after = next; after == "" {
			return times, listed, nil
		}
	}
}

// sizeOf returns how many bytes of keys and values the largest partition of a table has,
// how many partitions there are, and how many bytes all have.
func sizeOf(ctx context.Context, rows store.Rows, t store.Table) (largest, partitions, all int, err error) {
	for cursor := ""; ; {
		names, next, err := rows.Partitions(ctx, t, cursor, 1000)
		if err != nil {
			return 0, 0, 0, err
		}
		for _, name := range names {
			size := 0
			for r := (store.Range{Partition: name, Limit: 10_000}); ; {
				page, err := rows.Range(ctx, t, r)
				if err != nil {
					return 0, 0, 0, err
				}
				for _, row := range page {
					size += len(name) + len(row.Clustering) + len(row.Value)
				}
				if len(page) < r.Limit {
					break
				}
				r.From = page[len(page)-1].Clustering + "\x00"
			}
			largest, partitions, all = max(largest, size), partitions+1, all+size
		}
		if cursor = next; cursor == "" {
			return largest, partitions, all, nil
		}
	}
}

// unsynced is a file system whose files are not synced.
type unsynced struct{ vfs.FS }

type unsyncedFile struct{ vfs.File }

func (unsyncedFile) Sync() error                { return nil }
func (unsyncedFile) SyncData() error            { return nil }
func (unsyncedFile) SyncTo(int64) (bool, error) { return false, nil }

func unsyncedOf(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return unsyncedFile{f}, nil
}

func (u unsynced) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return unsyncedOf(u.FS.Create(name, c))
}

func (u unsynced) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return unsyncedOf(u.FS.ReuseForWrite(old, name, c))
}

func (u unsynced) OpenDir(name string) (vfs.File, error) { return unsyncedOf(u.FS.OpenDir(name)) }
