package diskstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The database has seven tables, distinguished by the first byte of the key:
//
//	h                        the head: format of the folder, and how often it was opened
//	k + object key           the record of the object: the index
//	v + volume + offset      size and key of the object at that offset
//	w + volume               waste: how many bytes in it belong to no object any more
//	e + volume               erased: how many of these bytes have been overwritten
//	a + volume               appended to: it may have bytes of no object that are not counted as waste
//	d + file                 doomed: the file, if it is there, belongs to no object
const (
	tableHead     = 'h'
	tableRecord   = 'k'
	tableVolume   = 'v'
	tableWaste    = 'w'
	tableErased   = 'e'
	tableAppended = 'a'
	tableDoomed   = 'd'
)

// fileNumber names a file; 0 is none. The number of openings is in its upper
// bits, so that no number is ever given twice and no counter has to be durable.
type fileNumber uint64

const openingShift = 40

// place is where the bytes of an object are. A place is never used twice.
type place struct {
	file   fileNumber // 0: nowhere, the object is empty
	offset int64      // 0: in a file of its own; else in a volume, from there on
}

// shared reports whether the place is in a volume.
func (p place) shared() bool { return p.offset != 0 }

// record holds size, hash and place of an object.
type record struct {
	size   int64
	sha256 [32]byte
	sum    uint32 // of the bytes in a volume; a file has sums of its own
	place
}

const (
	recordSize   = 1 + 8 + 8 + 8 + 4 + 32
	recordFormat = 1 // the first byte of a record
)

func (r record) encode() []byte {
	b := make([]byte, 1, recordSize)
	b[0] = recordFormat
	b = binary.BigEndian.AppendUint64(b, uint64(r.size))
	b = binary.BigEndian.AppendUint64(b, uint64(r.file))
	b = binary.BigEndian.AppendUint64(b, uint64(r.offset))
	b = binary.BigEndian.AppendUint32(b, r.sum)
	return append(b, r.sha256[:]...)
}

func decodeRecord(b []byte) (record, error) {
	if len(b) != recordSize || b[0] != recordFormat {
		return record{}, mayfly.Errorf(mayfly.Corrupt, "a record of %d bytes in an unknown format", len(b))
	}
	var r record
	r.size = int64(binary.BigEndian.Uint64(b[1:]))
	r.file = fileNumber(binary.BigEndian.Uint64(b[9:]))
	r.offset = int64(binary.BigEndian.Uint64(b[17:]))
	r.sum = binary.BigEndian.Uint32(b[25:])
	copy(r.sha256[:], b[29:])
	return r, nil
}

func (r record) object(key mayfly.BlobKey) store.Object {
	return store.Object{Key: key, Size: r.size, SHA256: r.sha256}
}

func recordKey(key mayfly.BlobKey) []byte {
	return append(append(make([]byte, 0, 1+len(key)), tableRecord), key...)
}

// fileKey is the key of a file in a table, and in tableVolume the beginning of the
// keys of its objects.
func fileKey(table byte, n fileNumber) []byte {
	return binary.BigEndian.AppendUint64([]byte{table}, uint64(n))
}

func placeKey(p place) []byte {
	return binary.BigEndian.AppendUint64(fileKey(tableVolume, p.file), uint64(p.offset))
}

func decodeFileKey(key []byte) (fileNumber, error) {
	if len(key) != 9 {
		return 0, mayfly.Errorf(mayfly.Corrupt, "a file's name in %d bytes", len(key))
	}
	return fileNumber(binary.BigEndian.Uint64(key[1:])), nil
}

// lookup reads the record of key.
func (s *Store) lookup(key mayfly.BlobKey) (record, bool, error) {
	value, closer, err := s.db.Get(recordKey(key))
	if errors.Is(err, pebble.ErrNotFound) {
		return record{}, false, nil
	}
	if err != nil {
		return record{}, false, failed("read the index", err)
	}
	r, err := decodeRecord(value)
	if err != nil {
		err = fmt.Errorf("index entry of %s: %w", key, err)
	}
	return r, err == nil, errors.Join(err, closer.Close())
}

// scan visits the keys of a table that begin with prefix, until visit is done.
func (s *Store) scan(prefix []byte, visit func(key, value []byte) (more bool, err error)) error {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; ; i-- { // a table's first byte is never 0xff
		if end[i]++; end[i] != 0 {
			break
		}
	}
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: end})
	if err != nil {
		return failed("read the index", err)
	}
	more := true
	for ok := iter.First(); ok && more && err == nil; ok = iter.Next() {
		more, err = visit(iter.Key(), iter.Value())
	}
	if closed := iter.Close(); err == nil && closed != nil {
		err = failed("read the index", closed)
	}
	return err
}

// owns adds to b the removal of a new record's file from tableDoomed and, for a volume,
// the object at its place.
func owns(b *pebble.Batch, key mayfly.BlobKey, rec record) error {
	if rec.file == 0 {
		return nil
	}
	err := b.Delete(fileKey(tableDoomed, rec.file), nil)
	if rec.shared() {
		err = errors.Join(err, b.Set(placeKey(rec.place), append(binary.BigEndian.AppendUint32(nil, uint32(rec.size)), key...), nil))
	}
	return err
}

// drops adds to b that the place of an old record is free: a file becomes doomed, a
// part of a volume becomes waste.
func drops(b *pebble.Batch, old record) error {
	switch {
	case old.file == 0:
		return nil
	case old.shared():
		return errors.Join(b.Delete(placeKey(old.place), nil), wastes(b, old))
	default:
		return b.Set(fileKey(tableDoomed, old.file), nil, nil)
	}
}

func wastes(b *pebble.Batch, old record) error {
	return b.Merge(fileKey(tableWaste, old.file), binary.BigEndian.AppendUint64(nil, uint64(old.size)), nil)
}

// sums returns the merger of tableWaste, which adds counts.
func sums() *pebble.Merger {
	return &pebble.Merger{
		Name: "mayfly.sum",
		Merge: func(_, value []byte) (pebble.ValueMerger, error) {
			s := new(sum)
			return s, s.MergeNewer(value)
		},
	}
}

type sum uint64

// MergeNewer implements pebble.ValueMerger.
func (s *sum) MergeNewer(value []byte) error {
	if len(value) != 8 {
		return mayfly.Errorf(mayfly.Corrupt, "a count of %d bytes", len(value))
	}
	*s += sum(binary.BigEndian.Uint64(value))
	return nil
}

// MergeOlder implements pebble.ValueMerger.
func (s *sum) MergeOlder(value []byte) error { return s.MergeNewer(value) }

// Finish implements pebble.ValueMerger.
func (s *sum) Finish(bool) ([]byte, io.Closer, error) {
	return binary.BigEndian.AppendUint64(nil, uint64(*s)), nil, nil
}
