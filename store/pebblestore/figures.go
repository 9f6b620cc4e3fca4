package pebblestore

import (
	"sync/atomic"
	"time"
)

// counts are the counters of the store itself.
type counts struct {
	commits atomic.Int64
	bytes   atomic.Int64
}

func (s *Store) count(w *writing) {
	s.counts.commits.Add(1)
	s.counts.bytes.Add(int64(w.batch.Len()))
}

// Figures count what the store has done since it was opened, and its sizes.
type Figures struct {
	Commits          int64 // batches that became durable
	CommitBytes      int64 // bytes in those batches
	Flushes          int64
	FlushedBytes     int64
	Compactions      int64
	CompactedBytes   int64 // written by compactions
	DiskBytes        int64
	MemtableBytes    int64
	CacheBytes       int64
	ReadAmp          int   // how many tables and memtables a read may have to search
	BackgroundErrors int64 // failed flushes and compactions, which Pebble retries
	Corruptions      int64 // reads that found corrupt bytes

	Reclaimed     int64         // entries of the reclaim index that Reclaim has handled
	ReclaimLooked int64         // entries that it has passed for that, deleted ones included
	ReclaimLag    time.Duration // for how long the oldest row has been due that the last Reclaim left
}

// Figures reads the figures. When the fuse has blown or the store is closed, all
// are zero except the store's own counters.
func (s *Store) Figures() Figures {
	f := Figures{
		Commits:          s.counts.commits.Load(),
		CommitBytes:      s.counts.bytes.Load(),
		BackgroundErrors: s.base.Trouble.Background.Load(),
		Corruptions:      s.base.Trouble.Corrupt.Load(),
	}
	f.ReclaimLag = s.reclaims.lag()
	s.reclaims.mu.Lock()
	f.Reclaimed, f.ReclaimLooked = s.reclaims.done, s.reclaims.looked
	s.reclaims.mu.Unlock()
	if s.enter() != nil {
		return f
	}
	defer s.leave()
	m := s.db.Metrics()
	total := m.Total()
	f.Flushes = m.Flush.Count
	f.FlushedBytes = int64(total.TableBytesFlushed)
	f.Compactions = m.Compact.Count
	f.CompactedBytes = int64(total.TableBytesCompacted)
	f.DiskBytes = int64(m.DiskSpaceUsage())
	f.MemtableBytes = int64(m.MemTable.Size)
	f.CacheBytes = m.BlockCache.Size
	f.ReadAmp = m.ReadAmp()
	return f
}
