package store

import (
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
)

// Mode is how a table is written. The two never mix in one table.
type Mode uint8

// The write modes.
const (
	Plain   Mode = iota + 1 // written through a Batch: views that hold ids and are judged again at read
	Swapped                 // written by compare-and-set only: anything where order matters
)

// Erasure is the rule by which the rows about a user are removed when the account
// is erased (ST14). A table without a rule is refused.
type Erasure uint8

// The erasure rules.
const (
	PartitionIsUser Erasure = iota + 1 // the partition is the user's 16 bytes: account erasure removes it
	PartitionIsItem                    // the partition begins with an item's 16 bytes: removed with the item
	NoUser                             // holds nothing about any user
	NamesItems                         // names items by id only: its owner removes the rows, and nothing of a user is in them
	Kept                               // outlives the account: the record of what was done, or of the erasure itself
)

// Declaration says what a table is. The package that owns the rows declares it.
type Declaration struct {
	Name    string
	Number  uint8 // part of the stored format: never reused
	Purpose string
	Mode    Mode
	Erasure Erasure

	// TimeToLive is set when every row is written with a reclaim time: about how
	// long rows live. 0: rows live until they are removed.
	TimeToLive time.Duration
	// WrittenOnce is set when a row with a time to live is never written again.
	WrittenOnce bool
	// ByUsers is set when users write rows as often as they like: new ones are refused
	// while the disk is nearly full, before writes that end items would fail.
	ByUsers bool
	// ErasedByPart is set when a part of a product removes the rows of a user with what
	// they name (accounterase.Part): account erasure itself leaves them to it.
	ErasedByPart bool
	// NotByServer is set when only the owner may remove rows: a server that expires
	// rows by itself ignores the reclaim time (L13).
	NotByServer bool

	// Slices is into how many partitions the rows of an item are split: the item's
	// bytes and one byte for the slice. 0: one partition, the item's bytes alone.
	Slices int
	// MayHave reports whether an item can have rows in a table of items; nil: any.
	MayHave func(mayfly.Item) bool

	// Mirror names the table that holds the same fact from the other side, and
	// MirrorKey returns the key of a row's mirror. A row is erased after its mirror.
	Mirror    string
	MirrorKey func(Key) (Key, error)
	// Changed returns the signal to publish when a row was erased; nil: none.
	Changed func(Key) Signal
}

// Table is a declared table. Two tables are equal when they come from the same
// declaration.
type Table struct{ d *Declaration }

// DeclareTable declares a table; it is called for package variables.
func DeclareTable(d Declaration) Table { return Table{&d} }

// Declared returns the declaration of t; the zero Declaration for the zero Table.
func (t Table) Declared() Declaration {
	if t.d == nil {
		return Declaration{}
	}
	return *t.d
}

// Number returns the table's number; 0 for the zero Table.
func (t Table) Number() uint8 {
	if t.d == nil {
		return 0
	}
	return t.d.Number
}

// ByUsers reports whether users write rows of t as often as they like.
func (t Table) ByUsers() bool { return t.d != nil && t.d.ByUsers }

// String returns the table's name.
func (t Table) String() string {
	if t.d == nil {
		return "undeclared table"
	}
	return t.d.Name
}

// ItemPartitions returns the partitions that hold rows of an item.
func (t Table) ItemPartitions(id mayfly.ID) []string {
	if t.d == nil || t.d.Slices == 0 {
		return []string{string(id[:])}
	}
	all := make([]string, t.d.Slices)
	for n := range all {
		all[n] = SlicePartition(id, n)
	}
	return all
}

// SlicePartition returns the partition of slice n of an item's rows.
func SlicePartition(id mayfly.ID, n int) string { return string(append(id[:], byte(n))) }

func (t Table) check(mode Mode, key Key) error {
	switch {
	case t.d == nil:
		return mayfly.Errorf(mayfly.Invalid, "the table is not declared")
	case t.d.Mode != mode:
		return mayfly.Errorf(mayfly.Invalid, "table %s is not written that way: plain tables by batch, swapped tables by Swap", t)
	case key.Partition == "" || len(key.Partition) > MaxPartition || len(key.Clustering) > MaxClustering:
		return mayfly.Errorf(mayfly.Invalid, "table %s: a key has 1 to %d bytes of partition and at most %d of clustering key", t, MaxPartition, MaxClustering)
	}
	return nil
}

// TableSet is the tables that a driver was opened with. A driver refuses every
// other one.
type TableSet struct {
	list     []Table
	byNumber [256]Table
}

// NewTableSet checks declarations. Errors: Invalid, for an incomplete declaration,
// one without an erasure rule, or two with the same name or number.
func NewTableSet(tables []Table) (*TableSet, error) {
	s := &TableSet{list: slices.Clone(tables)}
	names := map[string]Table{}
	for _, t := range tables {
		d := t.Declared()
		switch {
		case d.Name == "" || d.Purpose == "" || d.Number == 0 || d.Mode != Plain && d.Mode != Swapped:
			return nil, mayfly.Errorf(mayfly.Invalid, "table %q: the declaration is incomplete", d.Name).WithHint("give it a name, a number, a purpose and a write mode")
		case d.Erasure < PartitionIsUser || d.Erasure > Kept:
			return nil, mayfly.Errorf(mayfly.Invalid, "table %s has no erasure rule", t).WithHint("declare how its rows go with an account")
		case s.byNumber[d.Number] != Table{}:
			return nil, mayfly.Errorf(mayfly.Invalid, "tables %s and %s have the same number %d", s.byNumber[d.Number], t, d.Number)
		case names[d.Name] != Table{}:
			return nil, mayfly.Errorf(mayfly.Invalid, "two tables are called %s", t)
		}
		s.byNumber[d.Number], names[d.Name] = t, t
	}
	for _, t := range tables {
		if d := t.Declared(); d.Mirror != "" && (names[d.Mirror] == Table{} || d.MirrorKey == nil) {
			return nil, mayfly.Errorf(mayfly.Invalid, "table %s: its mirror %s is not declared, or has no key", t, d.Mirror)
		}
	}
	return s, nil
}

// List returns the tables in the order they were given.
func (s *TableSet) List() []Table { return slices.Clone(s.list) }

func (s *TableSet) has(t Table) error {
	if t.d == nil || s.byNumber[t.d.Number] != t {
		return mayfly.Errorf(mayfly.Invalid, "the store was not opened with table %s", t).WithHint("add it to the list of tables")
	}
	return nil
}

// CheckSwap returns an error if Swap may not change the row; every driver calls it
// first.
func (s *TableSet) CheckSwap(t Table, key Key) error {
	if err := s.has(t); err != nil {
		return err
	}
	return t.check(Swapped, key)
}

// CheckRead returns an error if the key or partition may not be read.
func (s *TableSet) CheckRead(t Table, key Key) error {
	if err := s.has(t); err != nil {
		return err
	}
	return t.check(t.d.Mode, key)
}

// CheckBatch returns an error if the batch may not be written; every driver calls it
// first, so that an invalid batch writes nothing.
func (s *TableSet) CheckBatch(b *Batch) error {
	if err := b.Validate(); err != nil {
		return err
	}
	for _, stage := range b.Stages() {
		for _, p := range stage.Puts {
			if err := s.has(p.Table); err != nil {
				return err
			}
		}
		for _, d := range stage.Deletes {
			if err := s.has(d.Table); err != nil {
				return err
			}
		}
		for _, d := range stage.Drops {
			if err := s.has(d.Table); err != nil {
				return err
			}
		}
	}
	return nil
}

// TableNamed returns the table with a name from a list; false if there is none.
func TableNamed(tables []Table, name string) (Table, bool) {
	i := slices.IndexFunc(tables, func(t Table) bool { return t.String() == name })
	if i < 0 {
		return Table{}, false
	}
	return tables[i], true
}
