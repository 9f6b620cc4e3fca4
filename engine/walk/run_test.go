package walk_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// A run is what one process did in one hour: whatever it touched is found by its
// number, from where it began (L14).
func TestARunIsWrittenDownBeforeItsFirstAct(t *testing.T) {
	set, k := open(t), &recorder{}
	var found []walk.Run
	k.then = func(ctx context.Context, b walk.Batch) ([]walk.Failure, error) {
		runs, err := walk.RunsOf(ctx, set.Rows, b.Run)
		found = append(found, runs...)
		return nil, err
	}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	pass(t, w, start)
	if len(k.batches) > 0 {
		t.Fatal("nothing was due")
	}
	ids := due(t, set, start.Add(time.Second))
	now := start.Add(2 * time.Second)
	pass(t, w, now)
	hour := mayfly.Instant(time.Hour.Milliseconds())
	want := walk.Run{Number: k.batches[0].Run, Walk: name, Shard: shard, Began: now, From: start.Add(-settle), To: (now/hour+1)*hour - 1}
	if len(found) != 1 || found[0] != want || ids[0].Deadline() <= want.From {
		t.Errorf("at the first act: %+v, want %+v", found, want)
	}
	pass(t, w, now.Add(time.Minute))
	in, err := walk.RunsIn(t.Context(), set.Rows, now, 10)
	if err != nil || len(in) != 1 || in[0] != want {
		t.Errorf("of the hour: %+v, %v", in, err)
	}
	due(t, set, now.Add(time.Hour))
	pass(t, w, now.Add(time.Hour))
	if last := k.batches[len(k.batches)-1]; last.Run == want.Number {
		t.Error("two hours have one run")
	}
}

func TestAShardTakenAgainWithinTheHourKeepsWhereItsRunBegan(t *testing.T) {
	set, k := open(t), &recorder{}
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true, Holder: "one"})
	due(t, set, spread(start, time.Second, 60)...)
	pass(t, w, start.Add(30*time.Second))
	pass(t, walker(t, set, (&recorder{}).walk(), walk.Options{Unpaced: true, Holder: "two"}), start.Add(40*time.Second))
	pass(t, w, start.Add(50*time.Second)) // notices that it has lost the shard
	pass(t, w, start.Add(51*time.Second))
	parts, err := walk.RunsOf(t.Context(), set.Rows, k.batches[0].Run)
	if err != nil || len(parts) != 2 || parts[0].From >= parts[1].From {
		t.Fatalf("%+v, %v", parts, err)
	}
}

func TestARunThatCannotBeWrittenDownDoesNothing(t *testing.T) {
	set, k := open(t), &recorder{}
	due(t, set, start)
	wr := &writes{Writer: set.Writer, err: mayfly.Errorf(mayfly.Unavailable, "away")}
	set.Writer = wr
	w := walker(t, set, k.walk(), walk.Options{Unpaced: true})
	if _, err := w.Pass(t.Context(), start.Add(time.Hour)); !errors.Is(err, mayfly.Unavailable) || len(k.batches) > 0 {
		t.Fatalf("%v, %d batches", err, len(k.batches))
	}
	wr.err = nil
	pass(t, w, start.Add(time.Hour))
	if len(k.done) == 0 {
		t.Error("not taken up")
	}
}

func TestARunThatIsUnknownHasNoParts(t *testing.T) {
	if runs, err := walk.RunsOf(t.Context(), open(t).Rows, 4711); len(runs) > 0 || err != nil {
		t.Errorf("%+v, %v", runs, err)
	}
}

// A walk that stays behind another is handed nothing that the other has not done
// for good, however late that one is; and lacks nothing when it has come.
func TestAWalkStaysBehindAnother(t *testing.T) {
	set, first, second := open(t), &recorder{}, &recorder{}
	ahead := walker(t, set, first.walk(), walk.Options{Unpaced: true})
	behind := second.walk()
	behind.Name, behind.Offset, behind.Behind = "behind", time.Minute, name
	w := walker(t, set, behind, walk.Options{Unpaced: true})
	ids := due(t, set, spread(start, time.Second, 120)...)
	pass(t, w, start.Add(time.Hour))
	if len(second.done) > 0 {
		t.Fatalf("%d items before the first walk had come", len(second.done))
	}
	pass(t, ahead, start.Add(30*time.Second+settle))
	pass(t, w, start.Add(time.Hour))
	same(t, "behind", second.done, ids[:31])
	pass(t, ahead, start.Add(time.Hour))
	pass(t, w, start.Add(time.Hour))
	same(t, "behind", distinct(second.done), ids)
	if len(second.done) != len(ids) {
		t.Errorf("%d items were handed out %d times: at an offset nothing needs a second look", len(ids), len(second.done))
	}
	if p := w.Progress(); p.Lag > 0 {
		t.Errorf("%+v", p)
	}
}

// What another has moved is not moved: an undo and a walker cannot both win.
func TestAWatermarkIsMovedByOneOnly(t *testing.T) {
	set := open(t)
	s := walk.NewShard(set.Rows, shard, "one", time.Second, start)
	a, err := walk.LoadWatermark(t.Context(), set.Rows, "w", s)
	if err != nil || a.At != start {
		t.Fatalf("%+v, %v", a, err)
	}
	b := a
	if err := a.Move(t.Context(), set.Rows, start.Add(time.Hour), 1); err != nil {
		t.Fatal(err)
	}
	if err := b.Move(t.Context(), set.Rows, start.Add(time.Minute), 2); !errors.Is(err, mayfly.Conflict) || b.At != start {
		t.Errorf("%+v, %v", b, err)
	}
	if err := a.Move(t.Context(), set.Rows, start.Add(time.Minute), 3); err != nil { // back
		t.Error(err)
	}
	if c, err := walk.LoadWatermark(t.Context(), set.Rows, "w", s); err != nil || c.At != start.Add(time.Minute) {
		t.Errorf("%+v, %v", c, err)
	}
}
