package diskstore

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
)

// Objects are deleted in about the order in which they were put, so most volumes
// become completely empty and are removed. Moving the remaining objects out of a
// volume pays only if few remain (highlights among stories) and will stay. So it is
// done when there is much waste in total and most of the volume is waste. The disk
// holds at most three times the live bytes, plus that allowance.
const (
	allowedVolumes = 4 // of waste, in all
	mostly         = 2.0 / 3
)

// waste is tableWaste in memory.
type waste struct {
	mu       sync.Mutex
	volumes  map[fileNumber]wasted
	total    int64
	tolerate int64         // from how much in all on volumes are emptied
	emptying chan struct{} // holds a token while volumes are being emptied
}

// wasted is what is known of a volume with waste in it.
type wasted struct {
	dead, size int64 // size is 0 until it is asked for
	erased     int64 // how many of the dead bytes are overwritten
	unchecked  bool  // there may be bytes of no object that are not counted
	stuck      bool  // could not be emptied; tried again after the next opening
	unerasable bool  // could not be overwritten; tried again by the next Reclaim
}

func (w wasted) unerased() bool { return w.dead > w.erased || w.unchecked }

func (w wasted) wholly() bool { return w.dead >= w.size }
func (w wasted) mostly() bool { return float64(w.dead) >= mostly*float64(w.size) && !w.stuck }

func (w *waste) init(allowed int64) {
	w.volumes, w.tolerate = map[fileNumber]wasted{}, allowed
	w.emptying = make(chan struct{}, 1)
}

func (w *waste) update(n fileNumber, change func(*wasted)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.volumes[n]
	change(&v)
	w.total += v.dead - w.volumes[n].dead
	w.volumes[n] = v
}

func (w *waste) get(n fileNumber) wasted {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.volumes[n]
}

func (w *waste) forget(n fileNumber) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total -= w.volumes[n].dead
	delete(w.volumes, n)
}

// overwritten notes that dead bytes of volume n are overwritten.
func (w *waste) overwritten(n fileNumber, dead int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v := w.volumes[n]
	v.erased, v.unchecked, v.unerasable = dead, false, false
	if w.volumes[n] = v; v.dead == 0 {
		delete(w.volumes, n)
	}
}

func (w *waste) list() (volumes []fileNumber, total int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.volumes)), w.total
}

// tooMuch reports whether it is time to empty volumes, and raises the limit for the
// next time.
func (w *waste) tooMuch(more int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.total <= w.tolerate {
		return false
	}
	w.tolerate = w.total + more
	return true
}

// settle sets how much waste is tolerated after volumes were emptied.
func (w *waste) settle(allowed, more int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tolerate = max(allowed, w.total+more)
}

// wasted says what is known of volume n if some of it is waste and it is sealed.
func (s *Store) wasted(n fileNumber) (v wasted, sealed bool) {
	s.waste.mu.Lock()
	v, known := s.waste.volumes[n]
	s.waste.mu.Unlock()
	if !known || !s.volumes.sealed(n) {
		return wasted{}, false
	}
	if v.size == 0 {
		if info, err := s.fs.Stat(s.fileOf(n)); err == nil {
			v.size = max(1, info.Size()-volumeHead)
			s.waste.update(n, func(w *wasted) { w.size = v.size })
		}
	}
	return v, true
}

// loadWaste reads what is known of waste, and removes volumes that a crash left empty.
func (s *Store) loadWaste() error {
	load := func(table byte, size int, set func(w *wasted, value []byte)) error {
		return s.scan([]byte{table}, func(key, value []byte) (bool, error) {
			n, err := decodeFileKey(key)
			if err == nil && len(value) != size {
				err = mayfly.Errorf(mayfly.Corrupt, "a count of %d bytes", len(value))
			}
			if err == nil {
				s.waste.update(n, func(w *wasted) { set(w, value) })
			}
			return true, err
		})
	}
	err := errors.Join(
		load(tableWaste, 8, func(w *wasted, value []byte) { w.dead = int64(binary.BigEndian.Uint64(value)) }),
		load(tableErased, 8, func(w *wasted, value []byte) { w.erased = int64(binary.BigEndian.Uint64(value)) }),
		load(tableAppended, 0, func(w *wasted, _ []byte) { w.unchecked = true }))
	if err != nil {
		return err
	}
	volumes, _ := s.waste.list()
	for _, n := range volumes {
		if err := s.removeEmpty(n); err != nil {
			return err
		}
	}
	return nil
}

// gaveUp counts the waste that the committed drop of old leaves.
func (s *Store) gaveUp(old record) {
	if old.shared() {
		s.waste.update(old.file, func(w *wasted) { w.dead += old.size })
	}
}

// abandon counts as waste what was appended and gets no record.
func (s *Store) abandon(rec record) error {
	b := s.db.NewBatch()
	if err := wastes(b, rec); err != nil {
		return errors.Join(failed("write the index", err), b.Close())
	}
	s.gaveUp(rec)
	return s.commit(b, pebble.NoSync) // an opening finds what is empty anyway
}

// tidy removes volume n if all of it is waste.
func (s *Store) tidy(n fileNumber) {
	if v, sealed := s.wasted(n); sealed && v.wholly() {
		if err := s.removeEmpty(n); err != nil {
			s.opts.Logger.Warn("empty volume not removed", "err", err)
		}
	}
}

// removeEmpty removes volume n if it is sealed and holds no object.
func (s *Store) removeEmpty(n fileNumber) error {
	if !s.volumes.sealed(n) { // first: a sealed volume gets no new objects
		return nil
	}
	empty := true
	if err := s.scan(fileKey(tableVolume, n), func([]byte, []byte) (bool, error) {
		empty = false
		return false, nil
	}); err != nil || !empty {
		return err
	}
	s.removing.RLock()
	defer s.removing.RUnlock()
	b := s.db.NewBatch()
	err := b.Set(fileKey(tableDoomed, n), nil, nil)
	for _, table := range []byte{tableWaste, tableErased, tableAppended} {
		err = errors.Join(err, b.Delete(fileKey(table, n), nil))
	}
	if err != nil {
		return errors.Join(failed("write the index", err), b.Close())
	}
	if err := s.commit(b, pebble.Sync); err != nil {
		return err
	}
	s.waste.forget(n)
	err = s.removeFiles(n)
	s.handles.drop(n)
	return err
}
