package cassandrastore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

var _ store.Rows = rows{}

// Tables implements store.Rows.
func (s rows) Tables() []store.Table { return s.declared.List() }

// Get implements store.Rows.
func (s rows) Get(ctx context.Context, t store.Table, keys ...store.Key) ([][]byte, error) {
	for _, key := range keys {
		if err := s.declared.CheckRead(t, key); err != nil {
			return nil, err
		}
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	err := each(ctx, len(keys), func(ctx context.Context, i int) (err error) {
		values[i], err = s.value(ctx, readRows, t, keys[i])
		return err
	})
	if err != nil {
		return nil, readError("row of "+t.String(), err)
	}
	return values, nil
}

// value reads one row; nil means absent.
func (s *Store) value(ctx context.Context, d operation, t store.Table, key store.Key) ([]byte, error) {
	value := []byte{} // an empty value is scanned into it; an absent one sets nil
	err := s.query(d, s.tables[t].get, partitionKey(t, key.Partition), []byte(key.Clustering)).ScanContext(ctx, &value)
	if errors.Is(err, gocql.ErrNotFound) {
		return nil, nil
	}
	return value, err
}

// Range implements store.Rows.
func (s rows) Range(ctx context.Context, t store.Table, r store.Range) ([]store.Row, error) {
	if err := s.declared.CheckRead(t, store.Key{Partition: r.Partition}); err != nil {
		return nil, err
	}
	if r.Limit <= 0 || r.To != "" && r.From >= r.To {
		return nil, nil
	}
	if err := begin(ctx); err != nil {
		return nil, err
	}
	values := []any{partitionKey(t, r.Partition)}
	for _, bound := range []string{r.From, r.To} {
		if bound != "" {
			values = append(values, []byte(bound))
		}
	}
	values = append(values, r.Limit)
	iter := s.query(readRows, rangeText(t, r), values...).PageSize(min(r.Limit, pageSize)).IterContext(ctx)
	var found []store.Row
	for {
		sort, value := []byte{}, []byte{}
		if !iter.Scan(&sort, &value) {
			break
		}
		if value == nil {
			continue // a row without a value does not exist
		}
		found = append(found, store.Row{Clustering: string(sort), Value: value})
	}
	if err := iter.Close(); err != nil {
		return nil, readError("range of "+t.String(), err)
	}
	return found, nil
}

// Partitions implements store.Rows. It reads the partitions of all tables that share
// theirs; a cursor is the server's, behind its checksum: the server ends a connection
// over one that it does not know.
func (s rows) Partitions(ctx context.Context, t store.Table, cursor string, limit int) (partitions []string, next string, err error) {
	if err := s.declared.CheckRead(t, store.Key{Partition: "any"}); err != nil {
		return nil, "", err
	}
	var state []byte
	if cursor != "" {
		if state = []byte(cursor[min(len(cursor), crc32.Size):]); cursor != checked(state) {
			return nil, "", mayfly.Errorf(mayfly.Invalid, "the cursor is not one of table %s", t).WithHint("begin without a cursor")
		}
	}
	if err := begin(ctx); err != nil {
		return nil, "", err
	}
	iter := s.query(readRows, fmt.Sprintf("SELECT DISTINCT partition FROM %s", sharingOf(t))).
		PageSize(min(max(limit, 1), pageSize)).PageState(state).IterContext(ctx)
	next = checked(iter.PageState())
	var key []byte
	for iter.Scan(&key) {
		if len(key) > 0 && key[0] == t.Number() {
			partitions = append(partitions, string(key[1:]))
		}
	}
	if err := iter.Close(); err != nil {
		return nil, "", readError("partitions of "+t.String(), err)
	}
	return partitions, next, nil
}

// Ranges implements store.Rows: so many at once as Get reads rows.
func (s rows) Ranges(ctx context.Context, t store.Table, all ...store.Range) ([][]store.Row, error) {
	found := make([][]store.Row, len(all))
	err := each(ctx, len(all), func(ctx context.Context, i int) (err error) {
		found[i], err = s.Range(ctx, t, all[i])
		return err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// checked returns a cursor with its checksum; "" for none.
func checked(state []byte) string {
	if len(state) == 0 {
		return ""
	}
	return string(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(state))) + string(state)
}

// Swap implements store.Rows.
func (s rows) Swap(ctx context.Context, t store.Table, key store.Key, old, new []byte, reclaimAt mayfly.Instant) (bool, []byte, error) {
	if err := s.declared.CheckSwap(t, key); err != nil {
		return false, nil, err
	}
	if err := begin(ctx); err != nil {
		return false, nil, err
	}
	leave, err := s.swaps[t].enter(ctx, key.Partition)
	if err != nil {
		return false, nil, err
	}
	defer leave()
	if old == nil && new == nil { // nothing to write: is it absent?
		current, err := s.value(ctx, settleDoubt, t, key)
		if err != nil {
			return false, nil, readError("swap in "+t.String(), err)
		}
		return current == nil, current, nil
	}
	swapped, current, err := compared(s.swapQuery(t, key, old, new, reclaimAt).IterContext(ctx))
	if err != nil && !unsent(change, err) && s.landed(ctx, t, key, new) {
		return true, new, nil
	}
	switch {
	case err != nil:
		return false, nil, writeError(change, "swap in "+t.String(), err)
	case swapped:
		return true, new, nil
	default:
		return false, current, nil
	}
}

// landed reports whether a row is what a swap without an answer writes. The read
// completes a swap that the copies have accepted, whose commit was lost. A row that is
// something else shows nothing: the swap may still be under way.
func (s *Store) landed(ctx context.Context, t store.Table, key store.Key, new []byte) bool {
	var value []byte
	err := settling(ctx, func() (err error) {
		value, err = s.value(ctx, settleDoubt, t, key)
		return err
	})
	return err == nil && (value == nil) == (new == nil) && bytes.Equal(value, new)
}

func (s *Store) swapQuery(t store.Table, key store.Key, old, new []byte, reclaimAt mayfly.Instant) *gocql.Query {
	text, partition, sort := s.tables[t], partitionKey(t, key.Partition), []byte(key.Clustering)
	lasts := ttl(t, reclaimAt, s.opts.Now())
	switch {
	case old == nil:
		return s.query(change, text.begin, lasts, new, partition, sort)
	case new == nil:
		return s.query(change, text.end, partition, sort, old)
	default:
		return s.query(change, text.replace, lasts, new, partition, sort, old)
	}
}

// compared reads the response to a conditional write of one row: whether it was
// applied and, if not, the current value, which is nil if there is none.
func compared(iter *gocql.Iter) (applied bool, value []byte, err error) {
	value = []byte{}
	if len(iter.Columns()) == 1 {
		value = nil
		iter.Scan(&applied)
	} else {
		iter.Scan(&applied, &value)
	}
	return applied, value, iter.Close()
}

// tableText has the statements of one declared table.
type tableText struct {
	get string

	// of a plain table
	put, remove, drop string

	// of a swapped table. A row exists exactly when its value does: an update creates
	// no row marker that would outlive a value with a TTL.
	begin, replace, end string
}

func newTableText(t store.Table) *tableText {
	name := sharingOf(t)
	text := &tableText{get: fmt.Sprintf("SELECT value FROM %s WHERE partition = ? AND sort = ?", name)}
	if t.Declared().Mode == store.Plain {
		text.put = fmt.Sprintf("INSERT INTO %s (partition, sort, value) VALUES (?, ?, ?) USING TIMESTAMP ? AND TTL ?", name)
		text.remove = fmt.Sprintf("DELETE FROM %s USING TIMESTAMP ? WHERE partition = ? AND sort = ?", name)
		text.drop = fmt.Sprintf("DELETE FROM %s USING TIMESTAMP ? WHERE partition = ?", name)
		return text
	}
	update := fmt.Sprintf("UPDATE %s USING TTL ? SET value = ? WHERE partition = ? AND sort = ?", name)
	text.begin = update + " IF value = null" // a comparison with a value never matches absence (trap 2)
	text.replace = update + " IF value = ?"
	text.end = fmt.Sprintf("DELETE FROM %s WHERE partition = ? AND sort = ? IF value = ?", name)
	return text
}

// partitionKey returns the key of a partition of t in its shared table.
func partitionKey(t store.Table, partition string) []byte {
	return append([]byte{t.Number()}, partition...)
}

// rangeText returns the statement that reads r.
func rangeText(t store.Table, r store.Range) string {
	text := fmt.Sprintf("SELECT sort, value FROM %s WHERE partition = ?", sharingOf(t))
	if r.From != "" {
		text += " AND sort >= ?"
	}
	if r.To != "" {
		text += " AND sort < ?"
	}
	if r.Reverse {
		text += " ORDER BY sort DESC"
	}
	return text + " LIMIT ?"
}
