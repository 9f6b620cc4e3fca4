package paste

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
)

// MaxReads is how many reads an author may allow at most, if not any number.
const MaxReads = 1000

// settings are what the author chose, as the body of the item stores them.
type settings struct {
	reads    int // 0: any number
	language string
	password passwordHash
}

const (
	settingsFormat = 1
	hasPassword    = 1 << 0
)

// bytes encodes the settings: format, flags, reads, language, password.
func (s settings) bytes() []byte {
	b := []byte{settingsFormat, 0}
	b = binary.AppendUvarint(b, uint64(s.reads))
	b = append(b, byte(len(s.language)))
	b = append(b, s.language...)
	if s.password != (passwordHash{}) {
		b[1] |= hasPassword
		b = s.password.append(b)
	}
	return b
}

// readSettings reads what bytes wrote. Errors: Corrupt.
func readSettings(b []byte) (settings, error) {
	bad := func() error { return mayfly.Errorf(mayfly.Corrupt, "settings cannot be read") }
	if len(b) < 4 || b[0] != settingsFormat {
		return settings{}, bad()
	}
	flags := b[1]
	reads, n := binary.Uvarint(b[2:])
	if n <= 0 || reads > MaxReads || len(b) < 2+n+1 {
		return settings{}, bad()
	}
	s := settings{reads: int(reads)}
	b = b[2+n:]
	length := int(b[0])
	if b = b[1:]; len(b) < length {
		return settings{}, bad()
	}
	s.language, b = string(b[:length]), b[length:]
	if flags&hasPassword != 0 {
		if len(b) != passwordSize {
			return settings{}, bad()
		}
		s.password = readPassword(b)
		b = nil
	}
	if len(b) > 0 {
		return settings{}, bad()
	}
	return s, nil
}
