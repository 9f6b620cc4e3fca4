// Package kv is the key-value store for programs: namespaces of entries that carry
// their own expiry (K1).
//
// A namespace has an owner or comes from the configuration, has keys of its own, of
// which only hashes are stored, and a name in the store that is never used again: what
// a late write leaves under the name of a removed namespace is not found in another
// one. While the clock is in doubt entries expire by the stepped time and nothing is
// written (L7).
package kv

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// Names of the contract that handlers use.
type (
	Entry   = store.KVEntry
	Op      = store.KVOp
	Group   = store.KVGroup
	Result  = store.KVResult
	Expired = store.KVDue
	Usage   = store.KVUsage
	Stats   = store.KVStats
	Rate    = store.Rate

	Action    = store.KVAction
	Condition = store.KVCondition
)

// The actions and conditions of an Op.
const (
	Read   = store.KVRead
	Set    = store.KVSet
	Delete = store.KVDelete
	Touch  = store.KVTouch
	Update = store.KVUpdate

	Always      = store.KVAlways
	IfAbsent    = store.KVIfAbsent
	IfPresent   = store.KVIfPresent
	IfVersion   = store.KVIfVersion
	IfNoExpiry  = store.KVIfNoExpiry
	IfHasExpiry = store.KVIfHasExpiry
	IfLater     = store.KVIfLater
	IfSooner    = store.KVIfSooner

	MaxGroup   = store.MaxKVGroup
	MaxKey     = store.MaxKVKey
	MaxValue   = store.MaxKVValue
	Remembered = store.KVRemembers
)

// Options are the settings of a KV. Rows and Store are required.
type Options struct {
	Rows   store.Rows
	Store  store.KV
	Limits store.Limits // nil: no rates

	Defaults Settings // of a namespace whose owner chooses nothing; also the most that an owner may choose
	PerOwner int      // namespaces of one owner at most; default 16

	OwnerQuota int64 // bytes that the quotas of all namespaces of one owner have together; 0 is unlimited

	// Recheck is after what time a namespace is read again before a write to it: another
	// node may have removed it. Default 10 s.
	Recheck time.Duration

	Cluster bool // the store is a cluster: it announces no expired entries, and a group has keys of one slot
}

// KV holds the namespaces. It is safe for concurrent use.
type KV struct {
	o Options

	mu      sync.Mutex
	spaces  map[string]*Space         // by store name
	removed map[string]mayfly.Instant // by store name: when Tidy first saw that it was removed
	resumed mayfly.Instant            // when Tidy last called Resume
}

// New returns a KV.
func New(o Options) (*KV, error) {
	if o.Rows == nil || o.Store == nil {
		return nil, mayfly.Errorf(mayfly.Invalid, "kv: rows and the store are required")
	}
	if o.PerOwner == 0 {
		o.PerOwner = 16
	}
	if o.Recheck == 0 {
		o.Recheck = 10 * time.Second
	}
	if o.Defaults.MaxKey == 0 {
		o.Defaults.MaxKey = store.MaxKVKey
	}
	if o.Defaults.MaxValue == 0 {
		o.Defaults.MaxValue = store.MaxKVValue
	}
	if o.OwnerQuota > 0 && (o.Defaults.Quota == 0 || o.Defaults.Quota > o.OwnerQuota) {
		o.Defaults.Quota = o.OwnerQuota
	}
	if err := o.Defaults.validate(); err != nil {
		return nil, err
	}
	return &KV{o: o, spaces: map[string]*Space{}}, nil
}

// Namespace describes a namespace.
type Namespace struct {
	Name     string
	Made     mayfly.Instant
	Settings Settings
	Keys     []Credential
}

func (r record) namespace(name string) Namespace {
	return Namespace{Name: name, Made: r.Made, Settings: r.Settings, Keys: r.Keys}
}

// The spelling of a name of a namespace, as CheckName accepts it, and of the id of a
// credential, as regular expressions.
const (
	NamePattern       = `[a-z0-9][a-z0-9._-]{0,63}`
	CredentialPattern = `[A-Z2-7]{8}`
)

// CheckName returns an error of kind Invalid if a namespace cannot have the name.
func CheckName(name string) error {
	good := name != "" && len(name) <= 64 && strings.IndexByte("._-", name[0]) < 0
	for i := range len(name) {
		c := name[i]
		good = good && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("._-", c) >= 0)
	}
	if !good {
		return mayfly.Errorf(mayfly.Invalid, "invalid name of a namespace %.70q", name).WithHint("use 1 to 64 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit")
	}
	return nil
}

// OwnerOf returns who owns what a caller makes: the user, or a service that acts for no
// user, by its issuer and name. Errors: Denied.
func OwnerOf(p account.Principal) (mayfly.UserID, error) {
	switch {
	case !p.User.IsZero() && (p.Has(account.User) || p.For):
		return p.User, nil
	case p.Has(account.Service):
		return mayfly.UserOf(p.Issuer, p.Subject), nil
	}
	return mayfly.UserID{}, mayfly.Errorf(mayfly.Denied, "the token names no user and no service").WithHint("it needs the scope user or service")
}

// Defaults returns the settings of a namespace whose owner chooses nothing.
func (k *KV) Defaults() Settings { return k.o.Defaults }

// Create makes a namespace of an owner and returns its first key, which is shown once.
// Errors: Invalid, Unsupported, Conflict (the name is taken, or the owner has too many), and those
// of Rows.
func (k *KV) Create(ctx context.Context, owner mayfly.UserID, name string, s Settings, now mayfly.Instant) (Namespace, mayfly.Secret, error) {
	if err := k.checkNew(owner, name, s); err != nil {
		return Namespace{}, "", err
	}
	key, credential := newCredential(now)
	r := record{Format: recordFormat, Space: rand.Text(), Made: now, Owner: owner, Making: true, Settings: s, Keys: []Credential{credential}}
	if err := k.reserve(ctx, owner, name, r.Space, now); err != nil {
		return Namespace{}, "", err
	}
	if err := k.complete(ctx, owner, name, r); err != nil {
		return Namespace{}, "", errors.Join(err, k.abandon(context.WithoutCancel(ctx), owner, name, r.Space))
	}
	return r.namespace(name), key, nil
}

func (k *KV) checkNew(owner mayfly.UserID, name string, s Settings) error {
	if owner.IsZero() {
		return mayfly.Errorf(mayfly.Invalid, "a namespace needs an owner").WithHint("send a token that names a user or a service")
	}
	if err := CheckName(name); err != nil {
		return err
	}
	if err := s.validate(); err != nil {
		return err
	}
	if s.Events && k.o.Cluster {
		return mayfly.Errorf(mayfly.Unsupported, "events are not possible on a cluster").WithHint("leave events out")
	}
	most := k.o.Defaults
	over := func(value, limit int64) bool { return limit > 0 && (value == 0 || value > limit) }
	switch {
	case over(s.Quota, most.Quota), over(int64(s.LongestTTL), int64(most.LongestTTL)), over(int64(s.MaxKey), int64(most.MaxKey)), over(int64(s.MaxValue), int64(most.MaxValue)):
		return mayfly.Errorf(mayfly.Invalid, "a limit of the namespace is above that of the server").WithHint(
			fmt.Sprintf("the most are a quota of %d bytes, a time to live of %s, keys of %d bytes, values of %d bytes; 0 is unlimited", most.Quota, most.LongestTTL, most.MaxKey, most.MaxValue))
	case most.Rate.Count > 0 && s.Rate != most.Rate:
		return mayfly.Errorf(mayfly.Invalid, "the rate of a namespace is set by the server").WithHint("leave it out")
	}
	return nil
}

// Configure makes a namespace of the configuration, or changes its settings. It has no
// owner and at first no key. Errors: Invalid, Unsupported, Conflict (the name belongs to a
// user, or a setting that cannot change would change), and those of Rows.
func (k *KV) Configure(ctx context.Context, name string, s Settings, now mayfly.Instant) error {
	if err := errors.Join(CheckName(name), s.validate()); err != nil {
		return err
	}
	if s.Events && k.o.Cluster {
		return mayfly.Errorf(mayfly.Unsupported, "namespace %s: events are not possible on a cluster", name).WithHint("set kv.events to false")
	}
	return k.change(ctx, name, func(r record, found bool) (record, error) {
		switch {
		case !found:
			return record{Format: recordFormat, Space: rand.Text(), Made: now, Configured: true, Settings: s, Keys: []Credential{}}, nil
		case !r.Configured || r.Ending:
			return r, mayfly.Errorf(mayfly.Conflict, "namespace %s belongs to a user", name).WithHint("choose another name in kv.namespaces")
		case r.Settings.LastWriteWins != s.LastWriteWins || r.Settings.Events != s.Events:
			return r, mayfly.Errorf(mayfly.Conflict, "namespace %s: mode and events are fixed when it is made", name).WithHint("set kv.last_write_wins and kv.events as they were, or choose another name")
		}
		r.Settings = s
		return r, nil
	})
}

// change changes the row of a namespace by compare-and-set.
func (k *KV) change(ctx context.Context, name string, do func(r record, found bool) (record, error)) error {
	_, err := store.Update(ctx, k.o.Rows, Namespaces, namespaceKey(name), 0, func(old []byte) ([]byte, error) {
		var r record
		var err error
		if old != nil {
			if r, err = readRecord(old); err != nil {
				return nil, err
			}
		}
		if r, err = do(r, old != nil); err != nil {
			return nil, err
		}
		return r.bytes()
	})
	return err
}

// find returns the row of a namespace. Errors: NotFound, Corrupt, those of Rows.
func (k *KV) find(ctx context.Context, name string) (record, error) {
	if CheckName(name) != nil {
		return record{}, absent(name)
	}
	rows, err := k.o.Rows.Get(ctx, Namespaces, namespaceKey(name))
	if err != nil {
		return record{}, err
	}
	if rows[0] == nil {
		return record{}, absent(name)
	}
	return readRecord(rows[0])
}

// absent is the error for a namespace that does not exist, or that the caller may not
// know of.
func absent(name string) error {
	return mayfly.Errorf(mayfly.NotFound, "there is no namespace %.70q, or it is not yours", name).WithHint("check the name and the token or key")
}

// owned returns the row of a namespace if it belongs to the owner; the zero owner has
// those of the configuration.
func (k *KV) owned(ctx context.Context, owner mayfly.UserID, name string) (record, error) {
	r, err := k.find(ctx, name)
	if err != nil {
		return record{}, err
	}
	if owner.IsZero() {
		if !r.Configured {
			return record{}, absent(name)
		}
		return r, nil
	}
	rows, err := k.o.Rows.Get(ctx, Owned, ownedKey(owner, name))
	if err != nil {
		return record{}, err
	}
	if string(rows[0]) != r.Space {
		return record{}, absent(name)
	}
	return r, nil
}

// Describe returns a namespace of an owner; the zero owner has those of the
// configuration. Errors: NotFound, those of Rows.
func (k *KV) Describe(ctx context.Context, owner mayfly.UserID, name string) (Namespace, error) {
	r, err := k.owned(ctx, owner, name)
	if err == nil && !r.serves() {
		err = absent(name)
	}
	return r.namespace(name), err
}

// List returns the namespaces of an owner by name.
func (k *KV) List(ctx context.Context, owner mayfly.UserID) ([]Namespace, error) {
	rows, err := k.o.Rows.Range(ctx, Owned, store.Range{Partition: string(owner[:]), Limit: k.o.PerOwner + 1})
	if err != nil {
		return nil, err
	}
	var all []Namespace
	for _, row := range rows {
		n, err := k.Describe(ctx, owner, row.Clustering)
		switch {
		case errors.Is(err, mayfly.NotFound): // made in part, or being removed
		case err != nil:
			return nil, err
		default:
			all = append(all, n)
		}
	}
	return all, nil
}

// EachSpace calls do with every namespace that is not being removed.
func (k *KV) EachSpace(ctx context.Context, do func(*Space) error) error {
	age := loop.Stopwatch()
	return k.each(ctx, func(name string, r record) error {
		if !r.serves() {
			return nil
		}
		return do(k.spaceOf(name, r, age))
	})
}

func (k *KV) each(ctx context.Context, do func(name string, r record) error) error {
	const page = 100
	for n := range nameSlices {
		at := store.Range{Partition: slicePartition(n), Limit: page}
		for {
			rows, err := k.o.Rows.Range(ctx, Namespaces, at)
			if err != nil {
				return err
			}
			for _, row := range rows {
				r, err := readRecord(row.Value)
				if err != nil {
					return fmt.Errorf("namespace %s: %w", row.Clustering, err)
				}
				if err := do(row.Clustering, r); err != nil {
					return err
				}
			}
			if len(rows) < page {
				break
			}
			at.From = rows[len(rows)-1].Clustering + "\x00"
		}
	}
	return nil
}
