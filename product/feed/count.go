package feed

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// A count is never added to: a slice is counted again from its rows, off the request
// path. The node that writes a row counts the slice about a second later. Marks, which
// are durable before the row, have it counted after a crash, too: a minute later, and
// once more when no write of the change can land any more. A mark has the minute in
// which it is due for its partition, so that what is due is read at once, and is removed
// as a whole.

// counted is what is counted of a post.
type counted uint8

// The counts. Their numbers are part of the stored format.
const (
	countReplies counted = iota + 1
	countLikes
	countReposts
)

func (c counted) String() string {
	return map[counted]string{countReplies: "replies", countLikes: "likes", countReposts: "reposts"}[c]
}

// Counts are how many replies, likes and reposts a post has.
type Counts struct{ Replies, Likes, Reposts int }

// sliceCount names a slice of a count of a post.
type sliceCount struct {
	post  mayfly.ID
	what  counted
	slice uint8
}

const (
	countFormat = 1
	countSize   = 2 + 8

	markSoon  = time.Minute
	markFinal = fades + time.Minute

	markSize       = len(mayfly.ID{}) + 2        // post, what is counted, slice
	repostMarkSize = markSize + len(mayfly.ID{}) // and the item of a repost

	// followTogether is how many minutes of marks are followed before that is noted.
	followTogether = 60
	// recountPage is how many rows are read at once.
	recountPage = 1_000
	// recountEvery is the pause between two counts of what this node has changed, at
	// least; recountShare is how many times as long as the counting itself it is.
	recountEvery = time.Second
	recountShare = 10
)

// mark makes sure that a slice is counted after the write that follows.
func (f *Feed) mark(ctx context.Context, post mayfly.ID, what counted, slice int, now mayfly.Instant) error {
	return f.markAt(ctx, post, what, slice, now.Add(markSoon).Minute()+1, now.Add(markFinal).Minute()+1)
}

// markAt has a slice counted when some minutes are over.
func (f *Feed) markAt(ctx context.Context, post mayfly.ID, what counted, slice int, minutes ...mayfly.Minute) error {
	var b store.Batch
	for _, due := range minutes {
		b.Put(Marks, store.Key{Partition: markPartition(due), Clustering: string(post[:]) + string([]byte{byte(what), byte(slice)})}, []byte{countFormat}, 0)
	}
	if err := f.o.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("mark a count: %w", err)
	}
	return nil
}

func markPartition(m mayfly.Minute) string {
	return string(binary.BigEndian.AppendUint32([]byte{'m'}, uint32(m)))
}

// followedKey is the row of engine.Settings that says up to which minute marks were
// followed.
func followedKey() store.Key { return store.Key{Partition: "feed", Clustering: "marks followed"} }

// Begin notes that marks are followed from now on. It is called before the first one is
// written.
func (f *Feed) Begin(ctx context.Context, now mayfly.Instant) error {
	_, err := store.Update(ctx, f.o.Rows, engine.Settings, followedKey(), 0, func(old []byte) ([]byte, error) {
		if old != nil {
			return old, nil
		}
		return minuteBytes(now.Minute()), nil
	})
	return err
}

func minuteBytes(m mayfly.Minute) []byte {
	return binary.BigEndian.AppendUint32([]byte{countFormat}, uint32(m))
}

// FollowMarks counts what marks ask for that were due before the minute of now. It may
// be repeated, by several nodes.
func (f *Feed) FollowMarks(ctx context.Context, now mayfly.Instant) error {
	found, err := f.o.Rows.Get(ctx, engine.Settings, followedKey())
	if err != nil || found[0] == nil {
		return err
	}
	if len(found[0]) != 5 || found[0][0] != countFormat {
		return mayfly.Errorf(mayfly.Corrupt, "up to where the marks of counts were followed cannot be read: %x", found[0])
	}
	for m := mayfly.Minute(binary.BigEndian.Uint32(found[0][1:])); m < now.Minute(); {
		for end := min(m+followTogether, now.Minute()); m < end; m++ {
			if err := f.followMinute(ctx, m, now); err != nil {
				return fmt.Errorf("marks of minute %d: %w", m, err)
			}
		}
		_, err := store.Update(ctx, f.o.Rows, engine.Settings, followedKey(), 0, func(old []byte) ([]byte, error) {
			if len(old) == 5 && mayfly.Minute(binary.BigEndian.Uint32(old[1:])) >= m { // another node has come as far
				return old, nil
			}
			return minuteBytes(m), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *Feed) followMinute(ctx context.Context, m mayfly.Minute, now mayfly.Instant) error {
	r := store.Range{Partition: markPartition(m), Limit: recountPage}
	for {
		page, err := f.o.Rows.Range(ctx, Marks, r)
		if err != nil {
			return err
		}
		for _, row := range page {
			if size := len(row.Clustering); size != markSize && size != repostMarkSize {
				return mayfly.Errorf(mayfly.Corrupt, "a mark of a count cannot be read: %x", row.Clustering)
			}
			if len(row.Clustering) == repostMarkSize {
				if err := f.unnamed(ctx, mayfly.ID([]byte(row.Clustering[:16])), mayfly.ID([]byte(row.Clustering[markSize:])), now); err != nil {
					return err
				}
				continue
			}
			s := sliceCount{mayfly.ID([]byte(row.Clustering[:16])), counted(row.Clustering[16]), row.Clustering[17]}
			if err := f.recount(ctx, s, now); err != nil {
				return err
			}
		}
		if len(page) < r.Limit {
			break
		}
		r.From = page[len(page)-1].Clustering + "\x00"
	}
	var b store.Batch
	b.DeletePartition(Marks, r.Partition)
	return f.o.Writer.Commit(ctx, &b)
}

// recount counts a slice again. Of a post that is gone it removes what the slice has:
// a row that was written while the post was erased.
func (f *Feed) recount(ctx context.Context, s sliceCount, now mayfly.Instant) error {
	row, found, err := f.o.Erase.Row(ctx, s.post)
	if err != nil {
		return err
	}
	gone, held := !found || row.State == mayfly.Deleted, 0
	key := store.Key{Partition: string(s.post[:])}
	for range rounds {
		// Read before the rows: a count that is older than another one finds it changed.
		old, err := f.o.Rows.Get(ctx, PostCounts, key)
		if err != nil {
			return err
		}
		var n int
		n, held, err = f.countSlice(ctx, s, gone, now)
		if err != nil {
			return fmt.Errorf("count slice %d of %s: %w", s.slice, s.post, err)
		}
		var value []byte
		if !gone {
			if value, err = withCount(old[0], s, n); err != nil {
				return err
			}
		}
		if err = store.Replace(ctx, f.o.Rows, PostCounts, key, old[0], value, 0); errors.Is(err, mayfly.Conflict) {
			continue
		}
		if err == nil && held > 0 {
			err = f.lookAgain(ctx, s, now)
		}
		return err
	}
	return mayfly.Errorf(mayfly.Unavailable, "the count of %s keeps changing", s.post).WithHint("try again")
}

// countSlice counts the rows of a slice, without replies that wait for a moderator, of
// which it returns how many there are; of a post that is gone it removes the rows.
func (f *Feed) countSlice(ctx context.Context, s sliceCount, gone bool, now mayfly.Instant) (n, held int, err error) {
	t := map[counted]store.Table{countReplies: Replies, countLikes: Likes, countReposts: Reposts}[s.what]
	r := store.Range{Partition: store.SlicePartition(s.post, int(s.slice)), Limit: recountPage}
	for {
		page, err := f.o.Rows.Range(ctx, t, r)
		if err != nil {
			return n, held, err
		}
		switch {
		case gone && s.what == countReplies:
			err = f.dropReplies(ctx, r.Partition, page)
		case gone:
			err = f.dropReactions(ctx, map[counted]reacts{countLikes: likes(), countReposts: reposts()}[s.what], s.post, page)
		case s.what == countReplies:
			var lost []store.Row
			if lost, err = f.neverBorn(ctx, page, now); err == nil {
				n += len(page) - len(lost)
				err = f.dropReplies(ctx, r.Partition, lost)
			}
			if err == nil {
				var waiting int
				waiting, err = f.waiting(ctx, page)
				n, held = n-waiting, held+waiting
			}
		default:
			for _, row := range page {
				reaction, err := readReaction(row.Value)
				if err != nil {
					return n, held, err
				}
				if reaction.live {
					n++
				}
			}
		}
		if err != nil {
			return n, held, err
		}
		if len(page) < r.Limit {
			return n, held, nil
		}
		r.From = page[len(page)-1].Clustering + "\x00"
	}
}

// neverBorn returns the rows of replies that have no item: their births were abandoned.
// Replies that were born long ago have one, or had one: what ends them removes the row.
func (f *Feed) neverBorn(ctx context.Context, page []store.Row, now mayfly.Instant) (lost []store.Row, err error) {
	for _, row := range page {
		if len(row.Clustering) != len(mayfly.ID{}) {
			return nil, mayfly.Errorf(mayfly.Corrupt, "a reply cannot be read: %x", row.Clustering)
		}
		id := mayfly.ID([]byte(row.Clustering))
		if age := now.Sub(id.Birth()); age < markSoon || age > 2*markFinal {
			continue
		}
		if _, found, err := f.o.Erase.Row(ctx, id); err != nil {
			return nil, err
		} else if !found {
			lost = append(lost, row)
		}
	}
	return lost, nil
}

func (f *Feed) dropReplies(ctx context.Context, partition string, rows []store.Row) error {
	var b store.Batch
	for _, row := range rows {
		b.Delete(Replies, store.Key{Partition: partition, Clustering: row.Clustering})
	}
	return f.o.Writer.Commit(ctx, &b)
}

// dropReactions removes rows, each after its mirror: the row is what finds that.
func (f *Feed) dropReactions(ctx context.Context, k reacts, post mayfly.ID, rows []store.Row) error {
	for _, row := range rows {
		if len(row.Clustering) != len(mayfly.UserID{}) {
			return mayfly.Errorf(mayfly.Corrupt, "a reaction cannot be read: %x", row.Clustering)
		}
		user := mayfly.UserID([]byte(row.Clustering))
		if err := f.dropReaction(ctx, k, post, user, true); err != nil {
			return err
		}
	}
	return nil
}

// dropReaction removes both rows of a reaction, whatever they have become since; the
// mirror first or last.
func (f *Feed) dropReaction(ctx context.Context, k reacts, post mayfly.ID, user mayfly.UserID, mirrorFirst bool) error {
	places := []struct {
		t   store.Table
		key store.Key
	}{{k.back, reactedKey(post, user)}, {k.rows, reactionKey(post, user)}}
	if !mirrorFirst {
		slices.Reverse(places)
	}
	for _, p := range places {
		if _, err := store.Update(ctx, f.o.Rows, p.t, p.key, 0, func([]byte) ([]byte, error) { return nil, nil }); err != nil {
			return err
		}
	}
	return nil
}

// withCount returns the counts of a post with that of a slice changed; without one that
// is zero. The value is a format and entries of what, slice and count, in order.
func withCount(old []byte, s sliceCount, n int) ([]byte, error) {
	next := []byte{countFormat}
	put := func(head []byte, n uint64) {
		next = binary.BigEndian.AppendUint64(append(next, head...), n)
	}
	mine, done := []byte{byte(s.what), s.slice}, n == 0
	err := eachCount(old, func(head []byte, count uint64) {
		if !done && slices.Compare(head, mine) >= 0 {
			put(mine, uint64(n))
			done = true
		}
		if !slices.Equal(head, mine) {
			put(head, count)
		}
	})
	if !done {
		put(mine, uint64(n))
	}
	return next, err
}

// eachCount calls do with each entry of the counts of a post.
func eachCount(b []byte, do func(head []byte, count uint64)) error {
	if b == nil {
		return nil
	}
	if len(b)%countSize != 1 || b[0] != countFormat {
		return mayfly.Errorf(mayfly.Corrupt, "the counts of a post cannot be read: %d bytes", len(b))
	}
	for b = b[1:]; len(b) > 0; b = b[countSize:] {
		do(b[:2], binary.BigEndian.Uint64(b[2:]))
	}
	return nil
}

// countsOf returns the counts of posts, in the order of ids.
func (f *Feed) countsOf(ctx context.Context, ids []mayfly.ID) ([]Counts, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	keys := make([]store.Key, len(ids))
	for i, id := range ids {
		keys[i] = store.Key{Partition: string(id[:])}
	}
	found, err := f.o.Rows.Get(ctx, PostCounts, keys...)
	if err != nil {
		return nil, err
	}
	all := make([]Counts, len(ids))
	for i, value := range found {
		sums := map[counted]*int{countReplies: &all[i].Replies, countLikes: &all[i].Likes, countReposts: &all[i].Reposts}
		err := eachCount(value, func(head []byte, n uint64) {
			if sum := sums[counted(head[0])]; sum != nil {
				*sum += int(n)
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// fresh is what this node has changed and not counted yet.
type fresh struct {
	mu       sync.Mutex
	slices   map[sliceCount]bool
	counting atomic.Pointer[loop.Loop]
}

// maxFresh is how many slices wait at most; marks have the others counted.
const maxFresh = 1 << 16

// changed notes that rows of a slice have changed.
func (f *Feed) changed(post mayfly.ID, what counted, slice int) {
	f.fresh.mu.Lock()
	defer f.fresh.mu.Unlock()
	if len(f.fresh.slices) < maxFresh {
		f.fresh.slices[sliceCount{post, what, uint8(slice)}] = true
	}
}

// CountChanged counts what this node has changed since the last call.
func (f *Feed) CountChanged(ctx context.Context, now mayfly.Instant) error {
	f.fresh.mu.Lock()
	changed := f.fresh.slices
	f.fresh.slices = map[sliceCount]bool{}
	f.fresh.mu.Unlock()
	var errs []error
	for s := range changed {
		if err := f.recount(ctx, s, now); err != nil && len(errs) < 3 {
			errs = append(errs, err) // its mark has it counted
		}
	}
	return errors.Join(errs...)
}

// Start begins to count what this node changes, until Stop. now reads the node's clock.
func (f *Feed) Start(ctx context.Context, now func() mayfly.Instant) {
	f.fresh.counting.Store(loop.Start(ctx, loop.Options{
		Name: "counts of posts", Every: recountEvery, Failed: func(err error, _ int) { f.o.Problem(err) },
	}, func(ctx context.Context) error {
		took := loop.Stopwatch()
		err := f.CountChanged(ctx, now())
		select {
		case <-time.After(recountShare * took()):
		case <-ctx.Done():
		}
		return err
	}))
}

// Stop ends the counting. What is not counted has marks.
func (f *Feed) Stop(ctx context.Context) error {
	if counting := f.fresh.counting.Load(); counting != nil {
		return counting.Stop(ctx)
	}
	return nil
}

// VerifyCounts compares the counts of posts with their rows, and returns the
// differences. When no row changes and every mark was followed, there are none.
func (f *Feed) VerifyCounts(ctx context.Context, now mayfly.Instant, posts ...mayfly.ID) (differences []string, err error) {
	counts, err := f.countsOf(ctx, posts)
	if err != nil {
		return nil, err
	}
	for i, id := range posts {
		for what, has := range map[counted]int{countReplies: counts[i].Replies, countLikes: counts[i].Likes, countReposts: counts[i].Reposts} {
			rows := 0
			for slice := range Slices {
				n, _, err := f.countSlice(ctx, sliceCount{id, what, uint8(slice)}, false, now)
				if err != nil {
					return differences, err
				}
				rows += n
			}
			if rows != has {
				differences = append(differences, fmt.Sprintf("%s: %d %s, and there are rows of %d", id, has, what, rows))
			}
		}
	}
	return differences, nil
}

// VerifyAll verifies the counts of the next posts of the store, about limit of them, as
// VerifyCounts does. It begins at a cursor, "" at first, and returns where to go on, ""
// at the end.
func (f *Feed) VerifyAll(ctx context.Context, cursor string, limit int, now mayfly.Instant) (checked int, differences []string, next string, err error) {
	t, partitions, next, err := store.PartitionsOf(ctx, f.o.Rows, []store.Table{PostCounts, Replies, Likes, Reposts}, cursor, limit)
	if err != nil {
		return 0, nil, "", err
	}
	var posts []mayfly.ID
	var keys []store.Key
	for _, name := range partitions {
		slices := 0
		if t != PostCounts {
			slices = 1
		}
		if len(name) != len(mayfly.ID{})+slices {
			return 0, nil, "", mayfly.Errorf(mayfly.Corrupt, "table %s has the partition %x", t, name)
		}
		post := mayfly.ID([]byte(name[:len(mayfly.ID{})]))
		posts, keys = append(posts, post), append(keys, store.Key{Partition: string(post[:])})
	}
	if t != PostCounts { // those with a row of counts came before
		found, err := f.o.Rows.Get(ctx, PostCounts, keys...)
		if err != nil {
			return 0, nil, "", err
		}
		others := posts[:0]
		for i, post := range posts {
			if found[i] == nil {
				others = append(others, post)
			}
		}
		posts = others
	}
	differences, err = f.VerifyCounts(ctx, now, posts...)
	return len(posts), differences, next, err
}
