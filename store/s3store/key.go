package s3store

import "crypto/rand"

// afterKeys is a byte that no key has and that is greater than all that keys
// have. Names that begin with it are ours, lie behind every key in a listing,
// and can be no key.
const afterKeys = "~"

const (
	stagedNames = afterKeys + "staged/" // objects put in parts, until their hash is known
	probeNames  = afterKeys + "probe/"
)

// freshName is a name that nobody else has.
func (s *Store) freshName(below string) string { return s.root + below + rand.Text() }
