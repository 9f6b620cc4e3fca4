package audit

import (
	"errors"
	"slices"
	"testing"

	"github.com/mayflyhq/mayfly"
)

// listed reads all pages and returns their records.
func listed(t testing.TB, list func(before Place) (Page, error)) (all []Record, pages int) {
	t.Helper()
	for before := (Place{}); ; pages++ {
		p, err := list(before)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p.Records...)
		if !p.More {
			return all, pages + 1
		}
		if pages > 1000 {
			t.Fatalf("the list does not end: at %v", p.Next)
		}
		before = p.Next
	}
}

func TestPagesShowTheRecordsOfAllChainsNewestFirst(t *testing.T) {
	r := seeded(t)
	rows := mem(t)
	logs := []*Log{begin(t, rows, "one"), begin(t, rows, "two"), begin(t, rows, "three")}
	verbs := []Verb{Restore, Hold, Release}
	for n := range 150 {
		e := restore(t, n%7)
		e.Verb, e.Actor = verbs[r.IntN(3)], []Actor{{"home", "ana", mayfly.UserID{}}, {"home", "ben", mayfly.UserID{}}, {"shop", "ben", mayfly.UserID{}}}[r.IntN(3)]
		record(t, logs[r.IntN(3)], e, start+mayfly.Instant(n/4)) // several in one millisecond
	}
	_, by := sound(t, rows)
	for name, f := range map[string]Filter{
		"all": {}, "actor": {Actor: Actor{Issuer: "home", Subject: "ben"}}, "verb": {Verb: Hold}, "item": {Item: itemID(t, 3)},
		"user": {User: mayfly.UserOf("home", "ben")}, "another user": {User: mayfly.UserOf("home", "eve")}, "run": {Run: 4},
		"a while": {From: start + 5, To: start + 20}, "since": {From: start + 30}, "until": {To: start + 8}, "all of it": {Actor: Actor{Issuer: "home", Subject: "ana"}, Verb: Restore, From: start + 3},
	} {
		var want []Ref
		for _, r := range by {
			if f.Matches(r) {
				want = append(want, r.Ref)
			}
		}
		slices.SortFunc(want, func(a, b Ref) int { return PlaceOf(by[b]).compare(PlaceOf(by[a])) })
		for _, limit := range []int{1, 7, 1000} {
			all, _ := listed(t, func(before Place) (Page, error) { return List(t.Context(), rows, f, before, limit) })
			var got []Ref
			for _, r := range all {
				got = append(got, r.Ref)
				if r.Entry != by[r.Ref].Entry {
					t.Errorf("%s is shown as %+v", r.Ref, r.Entry)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s by %d: got %d, want %d\n got %v\nwant %v", name, limit, len(got), len(want), got, want)
			}
		}
	}
}

func TestAPageReadsALimitedNumberOfRecords(t *testing.T) {
	rows := mem(t)
	write(t, rows, "one", scanned+10)
	all, pages := listed(t, func(before Place) (Page, error) {
		return List(t.Context(), rows, Filter{Item: itemID(t, 3)}, before, 5)
	})
	if len(all) != 1 || pages != 2 {
		t.Errorf("%d records on %d pages", len(all), pages)
	}
	all, pages = listed(t, func(before Place) (Page, error) {
		return List(t.Context(), rows, Filter{From: start + scanned}, before, 20)
	})
	if len(all) != 10 || pages != 1 {
		t.Errorf("%d records on %d pages; older records must not be read", len(all), pages)
	}
}

func TestAListWithADamagedRecordIsCorrupt(t *testing.T) {
	rows := mem(t)
	l := write(t, rows, "one", 5)
	put(t, rows, recordKey(Ref{l.Chain(), 2}), []byte("x"))
	if _, err := List(t.Context(), rows, Filter{}, Place{}, 10); !errors.Is(err, mayfly.Corrupt) {
		t.Error(err)
	}
	if _, err := List(t.Context(), rows, Filter{}, Place{}, 0); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
}
