package account

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/store"
)

// A count is never added to: it is counted again from the rows, off the request path.
// The mark that asks for it is written before the edge, so that no edge changes
// unnoticed. A mark is followed twice: soon, and once more when no write of the change
// can land any more.

const (
	// recountAfter is how long after a mark the edges are counted. A mark younger than
	// half of it stands for further changes too, so a popular author costs few marks.
	recountAfter = 10 * time.Second
	// recountAgain is how long after a mark they are counted for the last time.
	recountAgain = fades
	// recountPage is how many rows are read at once, and recountRows about how many in
	// one pass: the rest of a backlog is counted by the next passes (I17).
	recountPage = 1000
	recountRows = 2_000_000
)

// recount is the value of a row of Recounts.
type recount struct {
	counted bool // once, since the mark was written
	at      mayfly.Instant
}

const recountFormat = 1

func (r recount) bytes() ([]byte, error) {
	head := []byte{recountFormat, 0}
	if r.counted {
		head[1] = 1
	}
	return numbered(binary.BigEndian.AppendUint64(head, uint64(r.at))...)
}

func readRecount(b []byte) (recount, error) {
	if len(b) != 2+8+numberBytes || b[0] != recountFormat || b[1] > 1 {
		return recount{}, mayfly.Errorf(mayfly.Corrupt, "a mark to count again of %d bytes cannot be read", len(b))
	}
	return recount{b[1] == 1, mayfly.Instant(binary.BigEndian.Uint64(b[2:]))}, nil
}

// due reports whether the edges are to be counted at now. A mark from the future is
// of a clock that was set back.
func (r recount) due(now mayfly.Instant) bool {
	after := recountAfter
	if r.counted {
		after = recountAgain
	}
	return now.Sub(r.at).Abs() >= after
}

// mark notes that a count of the user is about to be out of date.
func (a *Accounts) mark(ctx context.Context, user mayfly.UserID, p Place, now mayfly.Instant) error {
	key := recountKey(user, p)
	for range rounds {
		found, err := a.o.Rows.Get(ctx, Recounts, key)
		if err != nil {
			return err
		}
		if found[0] != nil {
			old, err := readRecount(found[0])
			if err != nil {
				return err
			}
			if !old.counted && now.Sub(old.at).Abs() < recountAfter/2 {
				return nil
			}
		}
		value, err := recount{at: now}.bytes()
		if err != nil {
			return err
		}
		if err = store.Replace(ctx, a.o.Rows, Recounts, key, found[0], value, 0); !errors.Is(err, mayfly.Conflict) {
			return err
		}
	}
	return mayfly.Errorf(mayfly.Unavailable, "the mark of a count keeps changing").WithHint("try again")
}

// Recounted is what a pass of Recount did.
type Recounted struct {
	Counts  int // brought up to date
	Rows    int // read for it
	Settled int // edges whose change had stopped half-way
	Left    int // marks that are not due yet, or that wait for the next pass
}

// Recount counts the edges that marks ask for, and settles changes that stopped
// half-way. Several nodes may call it: a count that another one has changed meanwhile
// is not written. It goes on after an error, and returns the errors joined.
func (a *Accounts) Recount(ctx context.Context, now mayfly.Instant) (done Recounted, err error) {
	var errs []error
	first := int(uint64(now.Time().Unix()) % recountShards) // so that no shard always comes last
	for n := range recountShards {
		partition := recountPartition((first + n) % recountShards)
		err := eachRow(ctx, a.o.Rows, Recounts, partition, func(row store.Row) error {
			mark, err := readRecount(row.Value)
			if err == nil && len(row.Clustering) != len(mayfly.UserID{})+1 {
				err = mayfly.Errorf(mayfly.Corrupt, "a mark to count again has a key of %d bytes", len(row.Clustering))
			}
			if err != nil {
				errs = append(errs, err)
				return nil
			}
			if !mark.due(now) || done.Rows >= recountRows {
				done.Left++
				return nil
			}
			user, place := mayfly.UserID([]byte(row.Clustering[:16])), Place(row.Clustering[16])
			if err := a.recount(ctx, store.Key{Partition: partition, Clustering: row.Clustering}, mark, row.Value, user, place, now, &done); err != nil {
				errs, done.Left = append(errs, fmt.Errorf("count the edges of %s: %w", user, err)), done.Left+1
			}
			return ctx.Err()
		})
		if err != nil {
			return done, errors.Join(append(errs, err)...)
		}
	}
	return done, errors.Join(errs...)
}

// recount does what a mark asks for, and notes it.
func (a *Accounts) recount(ctx context.Context, key store.Key, mark recount, value []byte, user mayfly.UserID, p Place, now mayfly.Instant, done *Recounted) error {
	erased, err := accounterase.Tombstones(ctx, a.o.Rows, user)
	if err != nil {
		return err
	}
	if erased[0] {
		if _, err := eraseEdges(ctx, a.o.Rows, user, p, nil); err != nil {
			return err
		}
		return removeRow(ctx, a.o.Rows, Recounts, key)
	}
	// The profile is read before the rows are counted: a count that is older than
	// another one finds it changed.
	found, err := a.o.Rows.Get(ctx, Profiles, profileKey(user))
	if err != nil {
		return err
	}
	count, unsettled, err := a.countRows(ctx, user, p, done)
	if err != nil {
		return err
	}
	for _, reader := range unsettled {
		if err := a.settle(ctx, reader, user, p, now); err != nil {
			return err
		}
		done.Settled++
	}
	if len(unsettled) > 0 { // settling has marked the count anew
		done.Left++
		return nil
	}
	if err := a.saveCount(ctx, user, p, count, found[0]); err != nil {
		return ignoreConflict(err)
	}
	done.Counts++
	var next []byte
	if !mark.counted {
		done.Left++
		if next, err = (recount{counted: true, at: mark.at}).bytes(); err != nil {
			return err
		}
	}
	return ignoreConflict(store.Replace(ctx, a.o.Rows, Recounts, key, value, next, 0))
}

// ignoreConflict returns nil where another writer was first: the mark stays.
func ignoreConflict(err error) error {
	if errors.Is(err, mayfly.Conflict) {
		return nil
	}
	return err
}

// countRows counts the edges of a place, and returns the readers of those that are
// not settled.
func (a *Accounts) countRows(ctx context.Context, user mayfly.UserID, p Place, done *Recounted) (count int, unsettled []mayfly.UserID, err error) {
	if p == followingCount {
		err = eachRow(ctx, a.o.Rows, Follows, string(user[:]), func(row store.Row) error {
			done.Rows++
			e, err := readEdge(row.Value)
			if e.state == Following {
				count++
			}
			return err
		})
		return count, nil, err
	}
	err = eachRow(ctx, a.o.Rows, Followers, p.partition(user), func(row store.Row) error {
		done.Rows++
		reader, err := userIn(row)
		if err != nil {
			return err
		}
		m, err := readMirror(row.Value)
		switch m {
		case present:
			count++
		case pending:
			unsettled = append(unsettled, reader)
		}
		return err
	})
	return count, unsettled, err
}

// saveCount writes a count into the profile, if that is what it was before the rows
// were counted.
func (a *Accounts) saveCount(ctx context.Context, user mayfly.UserID, p Place, count int, old []byte) error {
	r, err := readProfile(old)
	if err != nil {
		return err
	}
	switch {
	case p == followingCount:
		r.Following = count
	case p < followerPlaces:
		for len(r.Followers) <= int(p) {
			r.Followers = append(r.Followers, 0)
		}
		r.Followers[p] = count
		if p == 0 && count > a.o.FollowersAbove {
			r.Places = int(followerPlaces)
		}
	default: // requests and mutes are not counted
		return nil
	}
	value, err := r.bytes()
	if err != nil {
		return err
	}
	return store.Replace(ctx, a.o.Rows, Profiles, profileKey(user), old, value, 0)
}

// eachRow calls do with every row of a partition.
func eachRow(ctx context.Context, rows store.Rows, t store.Table, partition string, do func(store.Row) error) error {
	return eachPage(ctx, rows, t, partition, func(page []store.Row) error {
		for _, row := range page {
			if err := do(row); err != nil {
				return err
			}
		}
		return nil
	})
}

func eachPage(ctx context.Context, rows store.Rows, t store.Table, partition string, do func([]store.Row) error) error {
	next := store.Range{Partition: partition, Limit: recountPage}
	for {
		page, err := rows.Range(ctx, t, next)
		if err != nil {
			return err
		}
		if err := do(page); err != nil {
			return err
		}
		if len(page) < recountPage {
			return nil
		}
		next.From = page[len(page)-1].Clustering + "\x00"
	}
}

// userIn returns the user that the clustering key of a row is.
func userIn(row store.Row) (mayfly.UserID, error) {
	if len(row.Clustering) != len(mayfly.UserID{}) {
		return mayfly.UserID{}, mayfly.Errorf(mayfly.Corrupt, "a row of users has a key of %d bytes", len(row.Clustering))
	}
	return mayfly.UserID([]byte(row.Clustering)), nil
}

// VerifyAll verifies the edges of the next users of the store, about limit of them, as
// VerifyEdges does. It begins at a cursor, "" at first, and returns where to go on, ""
// at the end.
func (a *Accounts) VerifyAll(ctx context.Context, cursor string, limit int) (checked int, differences []string, next string, err error) {
	t, partitions, next, err := store.PartitionsOf(ctx, a.o.Rows, []store.Table{Profiles, Follows, Followers}, cursor, limit)
	if err != nil {
		return 0, nil, "", err
	}
	var users []mayfly.UserID
	for _, name := range partitions {
		if len(name) != len(mayfly.UserID{}) && (t != Followers || len(name) != len(mayfly.UserID{})+1) {
			return 0, nil, "", mayfly.Errorf(mayfly.Corrupt, "table %s has the partition %x", t, name)
		}
		users = append(users, mayfly.UserID([]byte(name[:len(mayfly.UserID{})])))
	}
	if t != Profiles { // those with a profile came before
		keys := make([]store.Key, len(users))
		for i, user := range users {
			keys[i] = profileKey(user)
		}
		found, err := a.o.Rows.Get(ctx, Profiles, keys...)
		if err != nil {
			return 0, nil, "", err
		}
		others := users[:0]
		for i, user := range users {
			if found[i] == nil && !slices.Contains(others, user) {
				others = append(others, user)
			}
		}
		users = others
	}
	differences, err = a.VerifyEdges(ctx, users...)
	return len(users), differences, next, err
}

// VerifyEdges compares the edges of users with their other direction and with the
// counts, and returns the differences. When no edge changes and every mark was
// followed, there are none.
func (a *Accounts) VerifyEdges(ctx context.Context, users ...mayfly.UserID) (differences []string, err error) {
	for _, user := range users {
		found, err := a.verifyUser(ctx, user)
		if err != nil {
			return differences, fmt.Errorf("verify the edges of %s: %w", user, err)
		}
		differences = append(differences, found...)
	}
	return differences, nil
}

func (a *Accounts) verifyUser(ctx context.Context, user mayfly.UserID) (differences []string, err error) {
	differ := func(format string, args ...any) {
		differences = append(differences, fmt.Sprintf("%s: ", user)+fmt.Sprintf(format, args...))
	}
	p, err := a.profile(ctx, user)
	if err != nil {
		return nil, err
	}
	following := 0
	err = eachPage(ctx, a.o.Rows, Follows, string(user[:]), func(page []store.Row) error {
		var authors []mayfly.UserID
		var keys []store.Key
		for _, row := range page {
			author, err := userIn(row)
			if err != nil {
				return err
			}
			e, err := readEdge(row.Value)
			if err != nil {
				return err
			}
			if !e.live() {
				continue
			}
			if e.state == Following {
				following++
			}
			authors, keys = append(authors, author), append(keys, FollowerKey(author, e.place, user))
		}
		found, err := a.o.Rows.Get(ctx, Followers, keys...)
		if err != nil {
			return err
		}
		for i, author := range authors {
			if m, err := readMirror(found[i]); err != nil {
				return err
			} else if m != present {
				differ("the edge to %s has no other direction", author)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if following != p.Following {
		differ("follows %d, counted %d", following, p.Following)
	}
	for _, place := range append(p.places(), mutedPlace, requestPlace) {
		count := 0
		err := eachPage(ctx, a.o.Rows, Followers, place.partition(user), func(page []store.Row) error {
			var readers []mayfly.UserID
			var mirrors []mirror
			var keys []store.Key
			for _, row := range page {
				reader, err := userIn(row)
				if err != nil {
					return err
				}
				m, err := readMirror(row.Value)
				if err != nil {
					return err
				}
				if m == gone {
					continue
				}
				count++
				readers, mirrors, keys = append(readers, reader), append(mirrors, m), append(keys, FollowKey(reader, user))
			}
			found, err := a.o.Rows.Get(ctx, Follows, keys...)
			if err != nil {
				return err
			}
			for i, reader := range readers {
				e, err := readEdge(found[i])
				if err != nil {
					return err
				}
				if mirrors[i] != present || e.mirrorAt(place) != present {
					differ("the edge from %s is not what its other direction says", reader)
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if place < followerPlaces && count != p.count(place) {
			differ("place %d has %d followers, counted %d", place, count, p.count(place))
		}
	}
	return differences, nil
}
