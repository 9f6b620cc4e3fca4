package diskstore

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// volumes appends small objects to a shared file. One goroutine writes whatever
// has come while it synced the last time, syncs once for all of it, and has it
// adopted by one write to the index. A volume is appended to by the process that
// made it, until it is full or a write fails; bytes without a record are waste.
type volumes struct {
	in   chan *entry
	full chan chan struct{} // asks for the current volume to be sealed
	done chan struct{}      // closed when the goroutine has ended

	mu      sync.Mutex
	current fileNumber         // the volume that is appended to
	pending map[fileNumber]int // groups that are appended and not yet adopted
}

// volume is the file that is appended to.
type volume struct {
	number fileNumber
	file   vfs.File
	end    int64
}

// volumeHead is what a volume begins with: its number, so that no object is at
// offset 0.
const volumeHead = 8

const (
	groupBytes = mebibyte // about how much is written at once
	maxWaiting = 256      // who may be waiting without being held up
)

// share appends a small object to a volume and adopts it, together with others.
func (s *Store) share(e *entry) error {
	select {
	case s.volumes.in <- e:
	case <-s.fuse.Blown():
		return s.fuse.Err()
	}
	return s.await(e)
}

// hold counts the groups that are being added to the index.
func (v *volumes) hold(n fileNumber, groups int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.pending[n] += groups; v.pending[n] == 0 {
		delete(v.pending, n)
	}
}

// begin makes n the volume that is appended to; 0 is none.
func (v *volumes) begin(n fileNumber) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.current = n
}

// sealed reports whether volume n is not appended to any more.
func (v *volumes) sealed(n fileNumber) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.current != n && v.pending[n] == 0
}

// appendAll appends until the store is closed.
func (s *Store) appendAll() {
	defer close(s.volumes.done)
	var v *volume
	var group []*entry
	buf := make([]byte, 0, groupBytes+s.opts.InlineBytes)
	for open := true; open; {
		select {
		case sealed := <-s.volumes.full:
			v = s.seal(v)
			close(sealed)
		case e, more := <-s.volumes.in:
			if open = more; open {
				group, buf = s.gather(append(group[:0], e), append(buf[:0], e.content...))
				v = s.appendGroup(v, group, buf)
			}
		}
	}
	s.seal(v)
}

// gather collects the waiting entries up to the size of one write. It first yields to
// writers that are about to add one, because a sync costs more than that.
func (s *Store) gather(group []*entry, buf []byte) ([]*entry, []byte) {
	for before := 0; before < len(group) && len(buf) < groupBytes; {
		before = len(group)
		runtime.Gosched()
		for waiting := len(s.volumes.in); waiting > 0 && len(buf) < groupBytes; waiting-- {
			e, more := <-s.volumes.in
			if !more {
				return group, buf
			}
			group, buf = append(group, e), append(buf, e.content...)
		}
	}
	return group, buf
}

// appendGroup appends a group to v, or to a new volume. It returns the volume for the
// next group, or nil if this one cannot be used any more.
func (s *Store) appendGroup(v *volume, group []*entry, buf []byte) *volume {
	var err error
	if v != nil && v.end+int64(len(buf)) > s.opts.VolumeBytes {
		v = s.seal(v)
	}
	if v == nil {
		v, err = s.newVolume()
	}
	if err == nil {
		if _, err = v.file.Write(buf); err != nil {
			err = s.wrote("write a volume", err)
		} else {
			err = s.synced(v.file.SyncData())
		}
		if err != nil {
			s.seal(v)
		}
	}
	if err != nil {
		for _, e := range group {
			e.err = err
			close(e.done)
		}
		return nil
	}
	for _, e := range group {
		e.rec.place = place{file: v.number, offset: v.end}
		v.end += int64(len(e.content))
	}
	s.volumes.hold(v.number, 1)
	go s.adoptGroup(v.number, slices.Clone(group)) // while the next group is synced
	return v
}

func (s *Store) adoptGroup(n fileNumber, group []*entry) {
	s.adopt(group)
	s.volumes.hold(n, -1)
	s.tidy(n)
	for _, e := range group {
		close(e.done)
	}
}

// newVolume makes an empty volume, doomed until its first object has a record.
func (s *Store) newVolume() (*volume, error) {
	n, err := s.newFile(tableAppended)
	if err != nil {
		return nil, err
	}
	s.volumes.begin(n) // before it is among the volumes to erase: it is not sealed
	s.waste.update(n, func(w *wasted) { w.unchecked = true })
	f, err := s.fs.Create(s.fileOf(n), mediaWrites)
	if err != nil {
		s.volumes.begin(0)
		s.leftovers.add(n)
		return nil, s.wrote("create a volume", err)
	}
	if _, err = f.Write(binary.BigEndian.AppendUint64(nil, uint64(n))); err != nil {
		err = s.wrote("write a volume", err)
	} else {
		err = s.syncFolder(s.folderOf(n))
	}
	if err != nil {
		s.volumes.begin(0)
		s.leftovers.add(n)
		return nil, errors.Join(err, f.Close())
	}
	return &volume{number: n, file: f, end: volumeHead}, nil
}

// seal closes v and returns nil.
func (s *Store) seal(v *volume) *volume {
	if v == nil {
		return nil
	}
	if err := v.file.Close(); err != nil {
		s.opts.Logger.Warn("volume not closed", "err", err)
	}
	s.volumes.begin(0)
	s.tidy(v.number)
	return nil
}
