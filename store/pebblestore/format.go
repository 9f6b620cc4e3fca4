package pebblestore

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/mayflyhq/mayfly"
)

// Format is the version of everything that is written under our prefixes.
const Format = 3

// FormatError says that the database was written in a format that this version
// does not know.
type FormatError struct {
	Found, Known uint32
}

// Error names both.
func (e *FormatError) Error() string {
	return fmt.Sprintf("the database has format %d; this version knows format %d", e.Found, e.Known)
}

func (s *Store) checkFormat() error {
	key := []byte{metaPrefix, metaFormat}
	value, closer, err := s.db.Get(key)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return s.writeFormat(key)
	case err != nil:
		return readError("format", err)
	}
	defer closer.Close()
	if len(value) != 4 {
		return mayfly.Errorf(mayfly.Corrupt, "format of %d bytes", len(value))
	}
	if found := binary.BigEndian.Uint32(value); found != Format {
		return mayfly.Wrap(mayfly.Unsupported, &FormatError{Found: found, Known: Format},
			"start the version of mayfly that wrote it, or a newer one; nothing was changed")
	}
	return nil
}

// writeFormat marks a new database. One with keys and no mark is not ours.
func (s *Store) writeFormat(key []byte) error {
	iter, err := s.db.NewIter(nil)
	if err != nil {
		return readError("format", err)
	}
	foreign := iter.First()
	if err := iter.Close(); err != nil {
		return readError("format", err)
	}
	if foreign {
		return mayfly.Wrap(mayfly.Unsupported, &FormatError{Known: Format}, "the folder holds a database that is not mayfly's; choose another")
	}
	if err := s.db.Set(key, binary.BigEndian.AppendUint32(nil, Format), pebble.Sync); err != nil {
		return openError(err)
	}
	return nil
}
