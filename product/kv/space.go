package kv

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// longestWrite is how long a write may take on a cluster. On the embedded store a removal
// waits for writes under way.
const longestWrite = 20 * time.Second

// Space is an open namespace.
type Space struct {
	Name string
	kv   *KV

	record atomic.Pointer[record]
	age    atomic.Pointer[func() time.Duration] // of record, at least
	mu     sync.RWMutex                         // read-locked while the store is used
	gone   bool
	feed   feed
}

// spaceOf returns the open namespace of a row, with the settings of that row, which was
// read after age was started.
func (k *KV) spaceOf(name string, r record, age func() time.Duration) *Space {
	k.mu.Lock()
	s := k.spaces[r.Space]
	if s == nil {
		s = &Space{Name: name, kv: k}
		k.spaces[r.Space] = s
	}
	s.record.Store(&r)
	if had := s.age.Load(); had == nil || age() < (*had)() {
		s.age.Store(&age)
	}
	k.mu.Unlock()
	return s
}

// Open opens a namespace with one of its keys and returns the id of the key. Errors:
// Unauthenticated, those of Rows.
func (k *KV) Open(ctx context.Context, name, key string) (*Space, string, error) {
	age := loop.Stopwatch()
	r, err := k.find(ctx, name)
	if err != nil && !errors.Is(err, mayfly.NotFound) {
		return nil, "", err
	}
	id := r.credential(key) // also of a namespace that does not exist: it takes as long
	if err != nil || id == "" || !r.serves() {
		return nil, "", mayfly.Errorf(mayfly.Unauthenticated, "wrong namespace or key").WithHint("the key of a namespace is shown once, when it is made")
	}
	return k.spaceOf(name, r, age), id, nil
}

// OpenOwned opens a namespace for its owner. Errors: NotFound, those of Rows.
func (k *KV) OpenOwned(ctx context.Context, owner mayfly.UserID, name string) (*Space, error) {
	if owner.IsZero() {
		return nil, absent(name)
	}
	age := loop.Stopwatch()
	r, err := k.owned(ctx, owner, name)
	if err != nil {
		return nil, err
	}
	if !r.serves() {
		return nil, absent(name)
	}
	return k.spaceOf(name, r, age), nil
}

// StillOpen reads the namespace again, with its settings, and returns an error if it was
// removed, or if the key with that id was; "" stands for the owner. Errors:
// Unauthenticated, those of Rows.
func (s *Space) StillOpen(ctx context.Context, keyID string) error {
	age := loop.Stopwatch()
	r, err := s.kv.find(ctx, s.Name)
	if err != nil && !errors.Is(err, mayfly.NotFound) {
		return err
	}
	same := err == nil && r.Space == s.ID() && r.serves()
	found := keyID == ""
	for _, c := range r.Keys {
		found = found || c.ID == keyID
	}
	if !same || !found {
		return mayfly.Errorf(mayfly.Unauthenticated, "the namespace or its key was removed")
	}
	s.kv.spaceOf(s.Name, r, age)
	s.age.Store(&age)
	return nil
}

// recheck reads the namespace again if that was last done Options.Recheck ago: another
// node may have removed it. With longestWrite it bounds how long after the removal of a
// namespace something is written there, and Tidy comes later than that.
func (s *Space) recheck(ctx context.Context) error {
	if (*s.age.Load())() < s.kv.o.Recheck {
		return nil
	}
	err := s.StillOpen(ctx, "")
	if errors.Is(err, mayfly.Unauthenticated) {
		return absent(s.Name)
	}
	return err
}

// Settings returns the settings of the namespace.
func (s *Space) Settings() Settings { return s.record.Load().Settings }

// Owner names the owner of the namespace; one of the configuration is its own.
func (s *Space) Owner() string {
	if r := s.record.Load(); !r.Owner.IsZero() {
		return r.Owner.String()
	}
	return s.ID()
}

// ID returns the name of the namespace in the store, which no other ever has.
func (s *Space) ID() string { return s.record.Load().Space }

// use calls do with the namespace while it cannot be removed.
func (s *Space) use(do func(store.KVSpace) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.gone {
		return absent(s.Name)
	}
	return do(s.record.Load().space())
}

// Take counts operations that are done together against the rate of the namespace.
// Errors: Limited (there were too many), TooLarge (the rate never allows so many at once).
func (s *Space) Take(ctx context.Context, operations int, now mayfly.Instant) error {
	rate := s.Settings().Rate
	if rate.Count == 0 || s.kv.o.Limits == nil {
		return nil
	}
	if operations > rate.Count {
		return mayfly.Errorf(mayfly.TooLarge, "%d operations at once; the rate of the namespace is %d in %s", operations, rate.Count, rate.Per).WithHint("send fewer at once")
	}
	taken, err := s.kv.o.Limits.Take(ctx, "kv:"+s.ID(), rate, operations, now)
	if err != nil || taken.OK { // an unreachable counter limits nothing and is no error (I19)
		return nil
	}
	return mayfly.Wrap(mayfly.Limited, Limited{taken.RetryAfter}, "slow down")
}

// Limited is the error of a namespace that exceeded its rate. Its kind is
// mayfly.Limited.
type Limited struct{ after time.Duration }

// RetryAfter returns when to try again.
func (l Limited) RetryAfter() time.Duration { return l.after }

// Error returns when to try again.
func (l Limited) Error() string {
	return "rate limit of the namespace exceeded: try again in " + l.after.String()
}

// Is makes errors.Is(err, mayfly.Limited) hold.
func (l Limited) Is(target error) bool { return target == mayfly.Limited }

// Prepare checks an operation against the limits of the namespace and gives a new entry
// without an expiry the default one. It may be repeated. Errors: TooLarge, Invalid (a
// time to live beyond the longest of the namespace, or of all).
func (s *Space) Prepare(op *Op, now mayfly.Instant) error {
	settings := &s.record.Load().Settings
	switch {
	case len(op.Key) > settings.MaxKey:
		return mayfly.Errorf(mayfly.TooLarge, "the key has %d bytes; %d are allowed", len(op.Key), settings.MaxKey)
	case len(op.Value) > settings.MaxValue:
		return mayfly.Errorf(mayfly.TooLarge, "the value has %d bytes; %d are allowed", len(op.Value), settings.MaxValue)
	}
	if op.Action != Set && op.Action != Update && op.Action != Touch {
		return nil
	}
	if err := CheckExpiry(op.Expiry, now); err != nil {
		return err
	}
	if op.Expiry == 0 && op.Action != Touch {
		if ttl := settings.DefaultTTL; ttl > 0 {
			op.Expiry = now.Add(ttl)
		} else if ttl := settings.LongestTTL; ttl > 0 {
			op.Expiry = now.Add(ttl)
		}
	}
	if settings.LongestTTL > 0 && !(op.KeepExpiry && op.Action == Touch) && (op.Expiry == 0 || op.Expiry > now.Add(settings.LongestTTL)) {
		return mayfly.Errorf(mayfly.Invalid, "the time to live is longer than %s, the longest of the namespace", settings.LongestTTL).WithHint("choose a shorter one")
	}
	return nil
}

// Get reads entries. Errors: Unavailable (the clock is off), those of the store.
func (s *Space) Get(ctx context.Context, at clock.Reading, keys ...string) ([]Entry, error) {
	if at.Off {
		return nil, at.Err
	}
	return s.get(ctx, at, 0, keys)
}

func (s *Space) get(ctx context.Context, at clock.Reading, most int, keys []string) (found []Entry, err error) {
	err = s.use(func(space store.KVSpace) error {
		space.MaxAnswer = most
		found, err = s.kv.o.Store.Get(ctx, space, at.Now, keys...)
		return err
	})
	return found, err
}

// Apply applies a group. One that only reads is done also while nothing may be written.
// Errors: TooLarge, Invalid, Unavailable (the clock is in doubt; L7), those of the store.
func (s *Space) Apply(ctx context.Context, at clock.Reading, g Group) ([]Result, error) {
	return s.ApplyWithin(ctx, at, g, 0)
}

// ApplyWithin is Apply of a group that answers with at most so many bytes of values; 0 is
// unlimited. One with more is not done: TooLarge with the cause LargeAnswer.
func (s *Space) ApplyWithin(ctx context.Context, at clock.Reading, g Group, most int) (results []Result, err error) {
	if len(g.Watch) == 0 && onlyReads(g.Ops) {
		return s.read(ctx, at, g.Ops, most)
	}
	if !at.Confirmed {
		return nil, at.Err
	}
	for i := range g.Ops {
		if err := s.Prepare(&g.Ops[i], at.Now); err != nil {
			return nil, err
		}
	}
	if err := s.recheck(ctx); err != nil {
		return nil, err
	}
	if s.kv.o.Cluster {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, longestWrite)
		defer cancel()
	}
	err = s.use(func(space store.KVSpace) error {
		space.MaxAnswer = most
		results, err = s.kv.o.Store.Apply(ctx, space, at.Now, g)
		return err
	})
	return results, err
}

func onlyReads(ops []Op) bool {
	for i := range ops {
		if ops[i].Action != Read {
			return false
		}
	}
	return true
}

// read answers operations that only read.
func (s *Space) read(ctx context.Context, at clock.Reading, ops []Op, most int) ([]Result, error) {
	if at.Off {
		return nil, at.Err
	}
	keys := make([]string, len(ops))
	for i := range ops {
		keys[i] = ops[i].Key
	}
	found, err := s.get(ctx, at, most, keys)
	if err != nil {
		return nil, err
	}
	results := make([]Result, len(ops))
	for i, e := range found {
		results[i] = Result{Done: true, Old: e, New: e}
	}
	return results, nil
}

// Scan reads a page of entries, without their values, whose keys begin with prefix; see
// store.KV.
func (s *Space) Scan(ctx context.Context, at clock.Reading, prefix, after string, limit int) (page []Entry, next string, err error) {
	if at.Off {
		return nil, "", at.Err
	}
	err = s.use(func(space store.KVSpace) error {
		page, next, err = s.kv.o.Store.Scan(ctx, space, at.Now, prefix, after, limit)
		return err
	})
	return page, next, err
}

// Due reads entries that have expired after a position, of a namespace with events; see
// store.KV. While the clock is in doubt there is none: what only a wrong step has
// hidden may come back (L7). Errors: Unsupported (the namespace has no events), those
// of the store.
func (s *Space) Due(ctx context.Context, at clock.Reading, after Expired, limit int) (due []Expired, err error) {
	if !at.Confirmed {
		return nil, nil
	}
	err = s.use(func(space store.KVSpace) error {
		if !space.Events {
			return mayfly.Errorf(mayfly.Unsupported, "namespace %s has no events", s.Name).WithHint("make a namespace with events")
		}
		due, err = s.kv.o.Store.Due(ctx, space, at.Steady, after, limit)
		return err
	})
	return due, err
}

// Stats describes the namespace; see store.KV.
func (s *Space) Stats(ctx context.Context, at clock.Reading) (stats Stats, err error) {
	err = s.use(func(space store.KVSpace) error {
		stats, err = s.kv.o.Store.Stats(ctx, space, at.Now)
		return err
	})
	return stats, err
}

// Clear deletes every entry of the namespace, in groups; entries that are written
// meanwhile may stay. Errors: those of Scan and Apply.
func (s *Space) Clear(ctx context.Context, at clock.Reading) error {
	if !at.Confirmed {
		return at.Err
	}
	const page = 1000
	after := ""
	for {
		entries, next, err := s.Scan(ctx, at, "", after, page)
		if err != nil {
			return err
		}
		ops := make([]Op, len(entries))
		for i, e := range entries {
			ops[i] = Op{Key: e.Key, Action: Delete}
		}
		for _, group := range s.groups(ops) {
			if _, err := s.Apply(ctx, at, Group{Ops: group}); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		after = next
	}
}

// Usage describes the whole store.
func (k *KV) Usage(ctx context.Context, at clock.Reading) (Usage, error) {
	return k.o.Store.Usage(ctx, at.Now)
}
