package diskstore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// The database has four tables, told apart by the first byte of the key:
//
//	h                the head: format of the folder, and how often it was opened
//	k + object key   the record of the object: the index
//	c + object key   the record once more and, behind it, the bytes of a small object
//	d + file number  doomed: the file, if it is there, belongs to no object
//
// The record stands before the bytes too, so that one read sees an object whole
// while another is put in its place.
const (
	tableHead    = 'h'
	tableRecord  = 'k'
	tableContent = 'c'
	tableDoomed  = 'd'
)

// fileNumber names a file; 0 is none. The number of openings is in its upper
// bits, so that no number is ever given twice and no counter has to be durable.
type fileNumber uint64

const openingShift = 40

// record says what an object is and where its bytes are.
type record struct {
	size   int64
	sha256 [32]byte
	file   fileNumber // 0: the bytes are in tableContent
}

const recordSize = 1 + 8 + 8 + 32

// recordFormat is the first byte of a record.
const recordFormat = 1

func (r record) append(b []byte) []byte {
	b = append(b, recordFormat)
	b = binary.BigEndian.AppendUint64(b, uint64(r.size))
	b = binary.BigEndian.AppendUint64(b, uint64(r.file))
	return append(b, r.sha256[:]...)
}

func decodeRecord(b []byte) (record, error) {
	if len(b) < recordSize || b[0] != recordFormat {
		return record{}, mayfly.Errorf(mayfly.Corrupt, "a record of %d bytes in an unknown format", len(b))
	}
	r := record{
		size: int64(binary.BigEndian.Uint64(b[1:])),
		file: fileNumber(binary.BigEndian.Uint64(b[9:])),
	}
	copy(r.sha256[:], b[17:])
	return r, nil
}

func (r record) object(key mayfly.BlobKey) store.Object {
	return store.Object{Key: key, Size: r.size, SHA256: r.sha256}
}

func tableKey(table byte, key mayfly.BlobKey) []byte {
	return append(append(make([]byte, 0, 1+len(key)), table), key...)
}

func doomedKey(n fileNumber) []byte {
	return binary.BigEndian.AppendUint64([]byte{tableDoomed}, uint64(n))
}

// lookup reads the record of key.
func (s *Store) lookup(key mayfly.BlobKey) (record, bool, error) {
	value, closer, err := s.db.Get(tableKey(tableRecord, key))
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

// content reads a small object with its record, both of one write.
func (s *Store) content(key mayfly.BlobKey) (record, []byte, bool, error) {
	value, closer, err := s.db.Get(tableKey(tableContent, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return record{}, nil, false, nil
	}
	if err != nil {
		return record{}, nil, false, failed("read an object", err)
	}
	r, err := decodeRecord(value)
	if err != nil {
		return record{}, nil, false, errors.Join(err, closer.Close())
	}
	body := append(make([]byte, 0, len(value)-recordSize), value[recordSize:]...)
	return r, body, true, closer.Close()
}

func decodeDoomed(key []byte) (fileNumber, error) {
	if len(key) != 9 {
		return 0, mayfly.Errorf(mayfly.Corrupt, "a doomed file in %d bytes", len(key))
	}
	return fileNumber(binary.BigEndian.Uint64(key[1:])), nil
}
