package accounterase

import (
	"context"

	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// eraseTable erases the user's rows of a table by the rule of its declaration.
func (e *Eraser) eraseTable(ctx context.Context, r *Receipt, tables []store.Table, t store.Table) error {
	d := t.Declared()
	switch {
	case d.Erasure != store.PartitionIsUser || t == engine.Owners: // the owner index goes with the items
		return nil
	case t == upload.Reservations:
		return e.eraseReservations(ctx, r)
	}
	mirror, _ := store.TableNamed(tables, d.Mirror)
	return e.partition(ctx, t, string(r.User[:]), func(page []store.Row) error {
		mirrors, err := erase.RemoveRows(ctx, e.set, tables, t, string(r.User[:]), page)
		if err != nil {
			return err
		}
		r.count(t, len(page))
		r.count(mirror, mirrors)
		return nil
	})
}

// eraseReservations removes the user's reserved uploads with the media that have
// arrived (ST14).
func (e *Eraser) eraseReservations(ctx context.Context, r *Receipt) error {
	rows, objects, err := upload.EraseOf(ctx, e.set, r.User)
	r.Objects += objects
	r.count(upload.Reservations, rows)
	return err
}
