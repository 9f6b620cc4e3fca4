package wire

import "github.com/mayflyhq/mayfly"

// KVCredential is a key of a namespace. The key itself is sent once, to the caller who
// made it.
type KVCredential struct {
	ID   string         `json:"id" example:"7KQ2M4XA"`
	Key  string         `json:"key,omitempty" example:"mfkv_…" doc:"The key; only in the answer to its making."`
	Made mayfly.Instant `json:"made" format:"date-time"`
}

// KVStatus describes the key-value store.
type KVStatus struct {
	Namespaces    int             `json:"namespaces"`
	DiskBytes     int64           `json:"disk_bytes"`
	LiveBytes     int64           `json:"live_bytes" doc:"Of keys and values that have not expired."`
	ExpiredBytes  int64           `json:"expired_bytes" doc:"Of keys and values that have expired and are not reclaimed. No read returns them."`
	OldestExpired *mayfly.Instant `json:"oldest_expired,omitempty" format:"date-time" doc:"When the oldest of these expired."`
	Sync          string          `json:"sync" example:"always" doc:"When a write is durable: always (before it is acknowledged) or everysec (within a second)."`
}

// NewKVNamespace is a namespace to be made. What is left out is as the server has it.
type NewKVNamespace struct {
	Name          string `json:"name" example:"cache" doc:"1 to 64 of a-z, 0-9, dot, dash and underscore. Names are shared by all users of the server."`
	Quota         *int64 `json:"quota,omitempty" minimum:"0" doc:"Bytes of keys and values; 0 is no limit. This and the limits below cannot be above those of the server."`
	DefaultTTL    string `json:"default_ttl,omitempty" example:"1h" doc:"Of entries that are written without a time to live."`
	LongestTTL    string `json:"longest_ttl,omitempty" example:"30d" doc:"A longer time to live is refused."`
	MaxKey        *int   `json:"max_key,omitempty" minimum:"1" doc:"Bytes of a key."`
	MaxValue      *int   `json:"max_value,omitempty" minimum:"1" doc:"Bytes of a value."`
	Events        bool   `json:"events,omitempty" doc:"Announce keys that expire; cannot be changed later."`
	LastWriteWins bool   `json:"last_write_wins,omitempty" doc:"On a cluster, writes need no agreement, and none can have a condition; cannot be changed later."`
}

// KVNamespace describes a namespace of the caller.
type KVNamespace struct {
	Name          string         `json:"name" example:"cache"`
	Made          mayfly.Instant `json:"made" format:"date-time"`
	Quota         int64          `json:"quota" doc:"Bytes of keys and values; 0 is no limit."`
	DefaultTTL    string         `json:"default_ttl,omitempty" example:"1h"`
	LongestTTL    string         `json:"longest_ttl,omitempty" example:"30d"`
	MaxKey        int            `json:"max_key"`
	MaxValue      int            `json:"max_value"`
	Events        bool           `json:"events"`
	LastWriteWins bool           `json:"last_write_wins"`
	Credentials   []KVCredential `json:"credentials" doc:"Its keys; the key itself only in the answer to its making."`
	Entries       *int64         `json:"entries,omitempty" doc:"How many there are; it may count some that have expired. Only in the answer about one namespace."`
	Bytes         *int64         `json:"bytes,omitempty" doc:"Of keys and values, counted likewise."`
}

// KVNamespaces are the namespaces of the caller.
type KVNamespaces struct {
	Namespaces []KVNamespace `json:"namespaces"`
}

// KVPatch is a change of an entry.
type KVPatch struct {
	Increment *int64 `json:"increment,omitempty" doc:"Added to the number in the value; an absent entry is 0."`
}

// KVEntry is an entry after a change.
type KVEntry struct {
	Version   string          `json:"version" example:"41"`
	Value     *string         `json:"value,omitempty" example:"42" doc:"The new number after an increment."`
	ExpiresAt *mayfly.Instant `json:"expires_at,omitempty" format:"date-time" doc:"When it stops being served; left out: never."`
}

// KVOperation is one operation of a batch.
type KVOperation struct {
	Op        string          `json:"op" enum:"get,set,delete,touch,increment"`
	Key       *string         `json:"key,omitempty"`
	Key64     *string         `json:"key64,omitempty" doc:"The key in base64url, instead of key."`
	Value     *string         `json:"value,omitempty" doc:"Of set."`
	Value64   *string         `json:"value64,omitempty" doc:"The value in base64url, instead of value."`
	TTL       string          `json:"ttl,omitempty" example:"60s" doc:"A number and a unit of ms, s, m, h, d or w. keep: of set, keeps the expiry that there is. never: of touch."`
	ExpiresAt *mayfly.Instant `json:"expires_at,omitempty" format:"date-time" doc:"Instead of ttl; one in the past deletes."`
	If        string          `json:"if,omitempty" enum:"absent,present,version" doc:"When it is done."`
	Version   string          `json:"version,omitempty" doc:"Of if version."`
	By        *int64          `json:"by,omitempty" doc:"Of increment; 1 if it is left out."`
}

// KVWatch is an entry that must be as the caller has seen it.
type KVWatch struct {
	Key     *string `json:"key,omitempty"`
	Key64   *string `json:"key64,omitempty" doc:"The key in base64url, instead of key."`
	Version string  `json:"version,omitempty" doc:"Left out: the entry must be absent."`
}

// KVBatch is a group of operations that happens as one.
type KVBatch struct {
	Ops   []KVOperation `json:"ops" minItems:"1" maxItems:"1000" doc:"They only read, or only write; a later one sees the effects of those before it."`
	Watch []KVWatch     `json:"watch,omitempty" maxItems:"1000" doc:"Of operations that write: if one of these has changed, nothing is done and the answer is 412."`
}

// KVResult is the result of one operation of a batch.
type KVResult struct {
	Done      bool            `json:"done" doc:"Its condition held, and what it needs was there."`
	Version   string          `json:"version,omitempty" doc:"Of the entry as it is now; left out: it is absent."`
	Value     *string         `json:"value,omitempty" doc:"Of get and increment."`
	Value64   *string         `json:"value64,omitempty" doc:"In base64url, if the value is not UTF-8."`
	ExpiresAt *mayfly.Instant `json:"expires_at,omitempty" format:"date-time"`
	Error     string          `json:"error,omitempty" doc:"Why an increment was not done."`
}

// KVResults are the results of a batch, in its order.
type KVResults struct {
	Results []KVResult `json:"results"`
}

// KVKey is an entry without its value.
type KVKey struct {
	Key       *string         `json:"key,omitempty" example:"user:7"`
	Key64     *string         `json:"key64,omitempty" doc:"In base64url, if the key is not UTF-8."`
	Version   string          `json:"version" example:"41"`
	ExpiresAt *mayfly.Instant `json:"expires_at,omitempty" format:"date-time"`
}

// KVKeys is a page of entries.
type KVKeys struct {
	Keys []KVKey `json:"keys"`
	Next string  `json:"next,omitempty" doc:"The cursor of the page that follows; left out at the end."`
}

// KVExpired is the data of an event about a key that has expired.
type KVExpired struct {
	Key       *string        `json:"key,omitempty"`
	Key64     *string        `json:"key64,omitempty" doc:"In base64url, if the key is not UTF-8."`
	ExpiredAt mayfly.Instant `json:"expired_at" format:"date-time"`
}
