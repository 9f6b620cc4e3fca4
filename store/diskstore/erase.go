package diskstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/diskfs"
)

// The bytes of a deleted object in a volume stay readable in the file until they are
// overwritten: erase does that for all volumes at once, from time to time. What is
// overwritten is everything in a volume that no record names, so that bytes of a Put
// that failed, or that a crash cut off, go as well (docs/decisions/0014).

// extent is a range of a volume.
type extent struct{ offset, length int64 }

// erase overwrites what no record names in every sealed volume that has such bytes.
// Only the holder of the token waste.emptying calls it.
func (s *Store) erase(ctx context.Context) error {
	var volumes []fileNumber
	known, _ := s.waste.list()
	for _, n := range known {
		if s.waste.get(n).unerased() && s.volumes.sealed(n) { // first: a sealed volume gets no new objects
			volumes = append(volumes, n)
		}
	}
	if len(volumes) == 0 {
		return nil
	}
	iter, err := s.db.NewIter(nil)
	if err != nil {
		return failed("read the index", err)
	}
	// What the iterator shows as deleted must be durable before its bytes are gone.
	b := s.db.NewBatch()
	if err = b.LogData(nil, nil); err == nil {
		err = s.commit(b, pebble.Sync)
	}
	for i := 0; i < len(volumes) && err == nil; i++ {
		if err = ctx.Err(); err != nil {
			err = mayfly.Wrap(mayfly.Unavailable, err, "")
			break
		}
		err = s.eraseVolume(iter, volumes[i])
	}
	if closed := iter.Close(); err == nil && closed != nil {
		err = failed("read the index", closed)
	}
	return err
}

// eraseVolume overwrites what no record names in volume n, as iter shows the index. A
// volume that cannot be overwritten is counted and logged, and does not stop the others.
func (s *Store) eraseVolume(iter *pebble.Iterator, n fileNumber) error {
	dead, live, err := residentsOf(iter, n)
	if err != nil || len(live) == 0 {
		return errors.Join(err, s.removeEmptyIf(err == nil, n))
	}
	switch err := s.overwrite(n, live); {
	case s.fuse.Err() != nil:
		return s.fuse.Err()
	case err != nil:
		if !s.waste.get(n).unerasable {
			s.opts.Logger.Error("deleted media not overwritten, tried again later", "file", s.fileOf(n), "err", err)
		}
		s.waste.update(n, func(w *wasted) { w.unerasable = true })
		return nil
	}
	b := s.db.NewBatch()
	if err := errors.Join(b.Set(fileKey(tableErased, n), binary.BigEndian.AppendUint64(nil, uint64(dead)), nil), b.Delete(fileKey(tableAppended, n), nil)); err != nil {
		return errors.Join(failed("write the index", err), b.Close())
	}
	s.waste.overwritten(n, dead)
	return s.commit(b, pebble.NoSync) // if it is lost, the volume is only overwritten a second time
}

func (s *Store) removeEmptyIf(empty bool, n fileNumber) error {
	if !empty {
		return nil
	}
	return s.removeEmpty(n)
}

// residentsOf reads how many bytes of volume n are counted as dead, and where its
// objects are, in order.
func residentsOf(iter *pebble.Iterator, n fileNumber) (dead int64, live []extent, err error) {
	if key := fileKey(tableWaste, n); iter.SeekGE(key) && bytes.Equal(iter.Key(), key) {
		if len(iter.Value()) != 8 {
			return 0, nil, mayfly.Errorf(mayfly.Corrupt, "a count of %d bytes", len(iter.Value()))
		}
		dead = int64(binary.BigEndian.Uint64(iter.Value()))
	}
	prefix := fileKey(tableVolume, n)
	for ok := iter.SeekGE(prefix); ok && bytes.HasPrefix(iter.Key(), prefix); ok = iter.Next() {
		r, err := decodeResident(iter.Key(), iter.Value())
		if err != nil {
			return 0, nil, err
		}
		live = append(live, extent{r.at.offset, r.size})
	}
	if err := iter.Error(); err != nil {
		return 0, nil, failed("read the index", err)
	}
	return dead, live, nil
}

// overwrite makes everything in volume n but live zero, durably.
func (s *Store) overwrite(n fileNumber, live []extent) (err error) {
	s.removing.Lock() // a file that is removed meanwhile would be made again
	defer s.removing.Unlock()
	info, err := s.fs.Stat(s.fileOf(n))
	if err != nil {
		return err
	}
	dead, err := gaps(live, info.Size())
	if err != nil || len(dead) == 0 {
		return err
	}
	f, err := s.fs.OpenReadWrite(s.fileOf(n), mediaWrites)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for _, d := range dead {
		if err := diskfs.Blank(f, d.offset, d.length); err != nil {
			return s.wrote("overwrite a volume", err)
		}
	}
	return s.synced(f.SyncData())
}

// gaps returns what is between objects in a volume of size bytes.
func gaps(live []extent, size int64) (dead []extent, err error) {
	end := int64(volumeHead)
	for _, l := range append(live, extent{offset: size}) {
		switch {
		case l.offset < end:
			return nil, mayfly.Errorf(mayfly.Corrupt, "an object at %d begins before %d, where the one before it ends", l.offset, end)
		case l.offset > end:
			dead = append(dead, extent{end, l.offset - end})
		}
		end = l.offset + l.length
	}
	return dead, nil
}

// decodeResident decodes an entry of tableVolume.
func decodeResident(key, value []byte) (resident, error) {
	if len(key) != 17 || len(value) < 4 {
		return resident{}, mayfly.Errorf(mayfly.Corrupt, "a place in %d bytes with %d", len(key), len(value))
	}
	return resident{
		key:  mayfly.BlobKey(value[4:]),
		at:   place{file: fileNumber(binary.BigEndian.Uint64(key[1:])), offset: int64(binary.BigEndian.Uint64(key[9:]))},
		size: int64(binary.BigEndian.Uint32(value)),
	}, nil
}

// EraseDeleted makes the index give up the bytes of records that were deleted before
// the call: keys and hashes of deleted objects. It rewrites up to the whole index, so
// call it rarely.
func (s *Store) EraseDeleted(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { // Pebble does not return after the disk has failed
		defer s.leave()
		done <- s.guard.EraseDeleted(ctx, s.db, s.path("index"))
	}()
	select {
	case err := <-done:
		if err != nil {
			err = failed("erase deleted records", err)
		}
		return err
	case <-s.closing:
		return mayfly.Errorf(mayfly.Unavailable, "the tier is closed")
	case <-s.fuse.Blown():
		return s.fuse.Err()
	}
}

// Figures are what an operator should know of a tier.
type Figures struct {
	StuckFiles    int   // files that could not be removed or overwritten, and are tried again
	UnerasedBytes int64 // of deleted objects that are still in volumes
}

// Figures returns the figures of the tier.
func (s *Store) Figures() Figures {
	f := Figures{StuckFiles: len(s.leftovers.list())}
	s.waste.mu.Lock()
	defer s.waste.mu.Unlock()
	for _, v := range s.waste.volumes {
		if f.UnerasedBytes += v.dead - v.erased; v.unerasable {
			f.StuckFiles++
		}
	}
	return f
}
