package remind_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

const now = fixture.Start

func newID(t testing.TB, random uint64) mayfly.ID {
	t.Helper()
	id, err := mayfly.NewID(now, fixture.Lifetime(t, 24*time.Hour), 7, random)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestARemindersWayThroughTheStore(t *testing.T) {
	h := fixture.Open(t)
	minute := now.Minute()
	all := []remind.Reminder{ // of shard 5, in the order of their due
		{Due: minute.Start(), ID: newID(t, 0x15), Step: remind.Announce},
		{Due: minute.Start(), ID: newID(t, 0x25), Step: remind.Expire, Tries: 1, Reason: "the row keeps changing"},
		{Due: minute.Start() + 1, ID: newID(t, 0x05), Step: remind.Expire, Tries: 300, Reason: strings.Repeat("x", 256), History: []remind.Try{{At: 7, Reason: "away"}, {At: 9}}},
		{Due: (minute + 1).Start() - 1, ID: newID(t, 0x15), Step: remind.Announce, Tries: 1 << 31},
		{Due: (minute + 1).Start() - 1, ID: newID(t, 0x15), Step: remind.Expire},
		{Due: (minute + 1).Start() - 1, ID: newID(t, 0x25), Step: remind.Erase, Waits: now, Tries: 2, History: []remind.Try{{At: 7, Reason: "away"}}},
	}
	elsewhere := []remind.Reminder{
		{Due: (minute + 1).Start(), ID: newID(t, 0x15), Step: remind.Expire},
		{Due: now, ID: newID(t, 0x16), Step: remind.Expire},
	}
	var b store.Batch
	for _, r := range slices.Backward(append(slices.Clone(all), elsewhere...)) {
		remind.Write(&b, r)
	}
	if err := h.Real.Writer.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	rows, err := h.Real.Rows.Range(t.Context(), remind.Reminders, store.Range{Partition: remind.Partition(minute, 5), Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	var got []remind.Reminder
	for _, row := range rows {
		r, err := remind.Read(row)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r)
	}
	if !reflect.DeepEqual(got, all) {
		t.Errorf("read %+v\nwant %+v", got, all)
	}
}

func TestAReminderIsReclaimedByNoStoreAndNotOverwrittenByAnotherStep(t *testing.T) {
	var b store.Batch
	remind.Write(&b, remind.Reminder{Due: now, ID: newID(t, 1), Step: remind.Announce})
	remind.Write(&b, remind.Reminder{Due: now, ID: newID(t, 1), Step: remind.Expire})
	puts := b.Stages()[0].Puts
	if len(puts) != 2 || puts[0].Key == puts[1].Key {
		t.Fatalf("%+v", puts)
	}
	for _, p := range puts {
		if p.ReclaimAt != 0 { // who cannot know whether it is finished may not end it (L13)
			t.Errorf("may be taken away at %s", p.ReclaimAt)
		}
	}
}

func TestALongReasonIsCut(t *testing.T) {
	var b store.Batch
	remind.Write(&b, remind.Reminder{Due: now, ID: newID(t, 1), Step: remind.Expire, Reason: strings.Repeat("é", 400)})
	put := b.Stages()[0].Puts[0]
	r, err := remind.Read(store.Row{Clustering: put.Key.Clustering, Value: put.Value})
	if err != nil || len(r.Reason) > 256 || !strings.HasPrefix(r.Reason, "éé") {
		t.Errorf("%d bytes of reason, %v", len(r.Reason), err)
	}
}

func TestWhatIsNoReminderIsCorrupt(t *testing.T) {
	var b store.Batch
	remind.Write(&b, remind.Reminder{Due: now, ID: newID(t, 1), Step: remind.Expire})
	put := b.Stages()[0].Puts[0]
	good := store.Row{Clustering: put.Key.Clustering, Value: put.Value}
	for name, row := range map[string]store.Row{
		"a short key":             {Clustering: good.Clustering[1:], Value: good.Value},
		"no value":                {Clustering: good.Clustering},
		"one that waits, cut":     {Clustering: good.Clustering, Value: []byte{2, 0, 0, 0, 0, 0, 0, 0, 7}},
		"a format of the future":  {Clustering: good.Clustering, Value: append([]byte{99}, good.Value[1:]...)},
		"attempts that never end": {Clustering: good.Clustering, Value: append([]byte{1}, slices.Repeat([]byte{0xff}, 12)...)},
	} {
		if _, err := remind.Read(row); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestStepsHaveWords(t *testing.T) {
	for s, want := range map[remind.Step]string{
		remind.Announce: "announce", remind.Expire: "expire", remind.Archive: "archive",
		remind.Erase: "erase", remind.Tidy: "tidy", remind.Retire: "retire", remind.Count: "count", remind.Burn: "burn",
	} {
		if got, err := remind.ParseStep(want); s.String() != want || got != s || err != nil {
			t.Errorf("%d is %s; %s is %d, %v", s, s, want, got, err)
		}
	}
	if len(remind.Steps()) != 8 || remind.Step(99).String() != "step(99)" {
		t.Errorf("%v", remind.Steps())
	}
	if _, err := remind.ParseStep("nap"); !errors.Is(err, mayfly.Invalid) {
		t.Error(err)
	}
}
