package store

import (
	"fmt"

	"github.com/mayflyhq/mayfly"
)

// Batch is what one Commit writes: stages that are written in order. The writes of a
// stage have no order. The zero Batch is ready to use.
type Batch struct {
	stages []Stage
}

// Stage is one stage of a batch.
type Stage struct {
	Inserts []Birth
	Puts    []Put
	Deletes []Delete
	Drops   []Drop
	Events  []mayfly.Event
}

// Birth is a row with its body, written together for the first time.
type Birth struct {
	Item mayfly.Item
	Body mayfly.Body
}

// Put writes a row of a plain table.
type Put struct {
	Table     Table
	Key       Key
	Value     []byte
	ReclaimAt mayfly.Instant // after which the driver may remove the row; 0 means never
}

// Delete removes a row of a plain table.
type Delete struct {
	Table Table
	Key   Key
}

// Drop removes a whole partition of a plain table.
type Drop struct {
	Table     Table
	Partition string
}

func (b *Batch) last() *Stage {
	if len(b.stages) == 0 {
		b.stages = append(b.stages, Stage{})
	}
	return &b.stages[len(b.stages)-1]
}

// Insert writes births. An existing row is kept: ids are never reused, so it is the
// same birth from an earlier try.
func (b *Batch) Insert(births ...Birth) {
	s := b.last()
	s.Inserts = append(s.Inserts, births...)
}

// Put writes a row of a plain table; the last write wins.
func (b *Batch) Put(t Table, key Key, value []byte, reclaimAt mayfly.Instant) {
	s := b.last()
	s.Puts = append(s.Puts, Put{Table: t, Key: key, Value: value, ReclaimAt: reclaimAt})
}

// Delete removes a row of a plain table; an absent row is no error.
func (b *Batch) Delete(t Table, key Key) {
	s := b.last()
	s.Deletes = append(s.Deletes, Delete{Table: t, Key: key})
}

// DeletePartition removes a whole partition of a plain table.
func (b *Batch) DeletePartition(t Table, partition string) {
	s := b.last()
	s.Drops = append(s.Drops, Drop{Table: t, Partition: partition})
}

// Append adds events to the log.
func (b *Batch) Append(events ...mayfly.Event) {
	s := b.last()
	s.Events = append(s.Events, events...)
}

// Then starts the next stage, which is written only when all stages before it are
// durable.
func (b *Batch) Then() {
	if !b.last().empty() {
		b.stages = append(b.stages, Stage{})
	}
}

// Stages returns the stages that are not empty.
func (b *Batch) Stages() []Stage {
	n := len(b.stages)
	if n > 0 && b.stages[n-1].empty() {
		n--
	}
	return b.stages[:n]
}

func (s Stage) empty() bool {
	return len(s.Inserts)+len(s.Puts)+len(s.Deletes)+len(s.Drops)+len(s.Events) == 0
}

// Validate returns an error if the batch may not be written. Every driver calls it
// first, so that an invalid batch writes nothing.
func (b *Batch) Validate() error {
	for n, s := range b.Stages() {
		if err := s.validate(); err != nil {
			return fmt.Errorf("batch: stage %d: %w", n+1, err)
		}
	}
	return nil
}

func (s Stage) validate() error {
	for _, birth := range s.Inserts {
		if err := birth.Item.Validate(); err != nil {
			return err
		}
	}
	for _, p := range s.Puts {
		if err := p.Table.check(Plain, p.Key); err != nil {
			return err
		}
	}
	for _, d := range s.Deletes {
		if err := d.Table.check(Plain, d.Key); err != nil {
			return err
		}
	}
	for _, d := range s.Drops {
		if err := d.Table.check(Plain, Key{Partition: d.Partition}); err != nil {
			return err
		}
	}
	for _, e := range s.Events {
		if err := e.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// StageError reports how far a Commit came: the stages before Stage (counted from 0)
// are durable; any subset of Stage is written, now or later.
type StageError struct {
	Stage int
	Err   error
}

// Error names the stage.
func (e *StageError) Error() string { return fmt.Sprintf("commit: stage %d: %v", e.Stage+1, e.Err) }

// Unwrap returns the cause.
func (e *StageError) Unwrap() error { return e.Err }
