package kill

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store"
)

// seesWhatIsPlanted damages the folder and the expected state on purpose, one thing of each
// sort, and looks again: zeros of an audit that sees nothing are worth nothing.
func (a *killAudit) seesWhatIsPlanted(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	a.expected.count = verify.Tally{}
	var live []*killItem
	for _, i := range a.expected.items {
		row, found := a.rows[i.id]
		if found && row.Media > 0 && !row.Held && i.deleted == no && i.held == no && a.now < i.sure() {
			live = append(live, i)
		}
	}
	if len(live) < 6 {
		t.Fatalf("%d items are too few to plant faults in", len(live))
	}
	var want []string
	plant := func(w verify.Word, format string, args ...any) {
		want = append(want, w.String()+": "+fmt.Sprintf(format, args...))
	}

	gone := a.rows[live[0].id]
	objects, key := a.copyOf(gone)
	if err := objects.Delete(ctx, key); err != nil {
		t.Fatal(err)
	}
	plant(verify.Lost, "%s  medium 0 has no whole copy", gone.ID)

	wrong := a.rows[live[1].id]
	objects, key = a.copyOf(wrong)
	if _, err := objects.Put(ctx, key, strings.NewReader("something else")); err != nil {
		t.Fatal(err)
	}
	plant(verify.Lost, "%s  medium 0 has no whole copy", wrong.ID)

	live[2].deleted = yes
	plant(verify.Resurrected, "%s  it was deleted", live[2].id)

	live[3].held = yes
	plant(verify.Lost, "%s  its hold was acknowledged and is gone", live[3].id)

	delete(a.expected.items, live[4].id)
	plant(verify.Double, "%s  no client published it", live[4].id)

	stray := a.rows[live[5].id].MediaKey(1_000, 0)
	if _, err := a.set.Hot.Put(ctx, stray, strings.NewReader("unowned")); err != nil {
		t.Fatal(err)
	}
	plant(verify.Orphan, "%s  %s in hot is not named by its row", live[5].id, stray)

	a.look(t)
	for _, fault := range want {
		if !strings.Contains(strings.Join(a.expected.count.Faults(), "\n"), fault) {
			t.Errorf("the audit does not see what was planted: %s", fault)
		}
	}
}

// copyOf returns where the only copy of the first medium of an item at rest is.
func (a *killAudit) copyOf(row mayfly.Item) (store.Blobs, mayfly.BlobKey) {
	if row.State == mayfly.Active {
		return a.set.Hot, row.MediaKey(row.Keys.Hot, 0)
	}
	return a.set.Cold, row.MediaKey(row.Keys.Cold, 0)
}
