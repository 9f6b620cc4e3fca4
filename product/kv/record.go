package kv

import (
	"encoding/json"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Settings say how a namespace is kept.
type Settings struct {
	Quota      int64         `json:"quota,omitempty"`       // bytes of keys and values; 0 is unlimited
	DefaultTTL time.Duration `json:"default_ttl,omitempty"` // of an entry that is written without an expiry; 0 is never, or LongestTTL
	LongestTTL time.Duration `json:"longest_ttl,omitempty"` // 0 is unlimited
	MaxKey     int           `json:"max_key"`               // bytes of a key
	MaxValue   int           `json:"max_value"`             // bytes of a value
	Rate       store.Rate    `json:"rate"`                  // operations; a Count of 0 is no limit

	Events        bool `json:"events,omitempty"`          // entries that expire are announced; fixed at creation
	LastWriteWins bool `json:"last_write_wins,omitempty"` // on a cluster writes need no agreement; fixed at creation
}

func (s Settings) validate() error {
	const hint = "see docs/kv.md for the limits of a namespace"
	switch {
	case s.Quota < 0 || s.DefaultTTL < 0 || s.LongestTTL < 0 || s.Rate.Count < 0 || s.Rate.Count > 0 && s.Rate.Per <= 0:
		return mayfly.Errorf(mayfly.Invalid, "a setting of the namespace is negative").WithHint(hint)
	case s.MaxKey < 1 || s.MaxKey > store.MaxKVKey:
		return mayfly.Errorf(mayfly.Invalid, "keys of %d bytes; 1 to %d are possible", s.MaxKey, store.MaxKVKey).WithHint(hint)
	case s.MaxValue < 1 || s.MaxValue > store.MaxKVValue:
		return mayfly.Errorf(mayfly.Invalid, "values of %d bytes; 1 to %d are possible", s.MaxValue, store.MaxKVValue).WithHint(hint)
	case s.LongestTTL > 0 && s.DefaultTTL > s.LongestTTL:
		return mayfly.Errorf(mayfly.Invalid, "the default time to live, %s, is longer than the longest, %s", s.DefaultTTL, s.LongestTTL).WithHint(hint)
	}
	return nil
}

// record is the row of a namespace.
type record struct {
	Format     int            `json:"format"`
	Space      string         `json:"space"` // its name in the store; never used again
	Made       mayfly.Instant `json:"made"`
	Owner      mayfly.UserID  `json:"owner,omitzero"`       // zero: none
	Configured bool           `json:"configured,omitempty"` // made by the configuration; has no owner
	Making     bool           `json:"making,omitempty"`     // its creation is not complete
	Ending     bool           `json:"ending,omitempty"`     // its entries are being removed
	Settings   Settings       `json:"settings"`
	Keys       []Credential   `json:"keys"`
}

const recordFormat = 1

// serves reports whether the namespace is made and not being removed.
func (r record) serves() bool { return !r.Making && !r.Ending }

func (r record) bytes() ([]byte, error) { return json.Marshal(r) }

func readRecord(b []byte) (record, error) {
	var r record
	if err := json.Unmarshal(b, &r); err != nil || r.Format != recordFormat || r.Space == "" {
		return record{}, mayfly.Errorf(mayfly.Corrupt, "the row of a namespace cannot be read (%d bytes)", len(b))
	}
	return r, nil
}

func (r record) space() store.KVSpace {
	return store.KVSpace{Name: r.Space, Quota: r.Settings.Quota, Events: r.Settings.Events, LastWriteWins: r.Settings.LastWriteWins}
}
