package profile

import (
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/residue"
	"github.com/mayflyhq/mayfly/test/tables"
)

func TestDeletedRowsAreErasedByTheClockAndRestartsDoNotPutItOff(t *testing.T) {
	fs := memory(t)
	var s *Store
	open := func() {
		t.Helper()
		if s != nil {
			closed(t, s)
		}
		var err error
		if s, err = EmbeddedOn(fs, "data", small("data"), tables.All()); err != nil {
			t.Fatal(err)
		}
	}
	open()
	defer func() { closed(t, s) }()
	const secret = "SecretOfARow"
	left := func() bool {
		t.Helper()
		found, err := residue.In(fs, "data", secret, len(secret))
		if err != nil {
			t.Fatal(err)
		}
		return len(found.Found) > 0
	}
	key := store.Key{Partition: strings.Repeat("u", 16)}
	start := mayfly.Instant(1_800_000_000_000)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.EraseRows(t.Context(), start)) // never before: at once
	_, _, err := s.Set.Rows.Swap(t.Context(), intake.Idempotency, key, nil, []byte(secret), 0)
	must(err)
	_, _, err = s.Set.Rows.Swap(t.Context(), intake.Idempotency, key, []byte(secret), nil, 0)
	must(err)
	every := small("data").Disk.EraseRowsEvery
	must(s.EraseRows(t.Context(), start.Add(every-time.Minute)))
	if !left() {
		t.Fatal("it is gone before its time: this shows nothing")
	}
	must(s.EraseRows(t.Context(), start.Add(every)))
	if f, ok := s.Figures(); !ok || f.RowsErased != start.Add(every) {
		t.Errorf("figures are %+v, %t", f, ok)
	}
	if left() {
		t.Error("a deleted row is still in a file")
	}
	open() // the time is kept
	last, err := s.erase.last(t.Context())
	if err != nil || last != start.Add(every) {
		t.Errorf("after a restart the last time is %d, %v", last, err)
	}
}
