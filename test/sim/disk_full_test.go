package sim

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/mayflyhq/mayfly"
)

func TestNoSpaceForAMediumRefusesItAndNothingElse(t *testing.T) {
	n, b := seed(t), newRecord()
	sab := &saboteur{ruin: ruin{match: func(kind, p string) bool { return kind == "write" && matches("hot/files/*/*", p) }, err: syscall.ENOSPC}}
	h := mustOpen(t, plan{fs: errorfs.Wrap(vfs.NewMem(), sab), random: randomBits(n), wrap: b.witnessed}, genesis)
	s := newScenario(h, b, seeded(n), genesis)
	big := b.wishFor(wish{owner: s.owners[0], key: "big", lifetime: 60_000, fate: mayfly.Archive, audience: mayfly.Everyone, media: [][]byte{randomBytes(s.rng, 100_000)}}, 0)
	plain := b.wishFor(wish{owner: s.owners[0], lifetime: 60_000, fate: mayfly.Archive, audience: mayfly.Everyone}, 0)

	sab.arm(1)
	if _, err := b.publish(t.Context(), h.uploads, h.intake, big, s.at()); !errors.Is(err, mayfly.Full) {
		t.Errorf("a medium without room answers %v, want Full", err)
	}
	if _, err := b.publish(t.Context(), h.uploads, h.intake, plain, s.at()); err != nil {
		t.Errorf("one without media: %v", err)
	}
	if err := h.raw.Fuse.Err(); err != nil {
		t.Fatalf("the fuse has blown: %v", err)
	}
	sab.arm(0)
	if _, err := b.publish(t.Context(), h.uploads, h.intake, big, s.at()); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if err := s.finish(t.Context(), b.known()); err != nil {
		t.Fatal(err)
	}
	found, _, err := inspect(t.Context(), h, b, s.at(), true)
	if err != nil {
		t.Fatal(err)
	}
	found.zero(t, "no space for a medium")
}

func TestNoSpaceForTablesIsWaitedOut(t *testing.T) {
	n, b := seed(t), newRecord()
	sab := &saboteur{ruin: ruin{match: func(_, p string) bool { return strings.HasSuffix(p, ".sst") }, err: syscall.ENOSPC}}
	h := mustOpen(t, plan{fs: errorfs.Wrap(vfs.NewMem(), sab), random: randomBits(n), wrap: b.witnessed}, genesis)
	s := newScenario(h, b, seeded(n), genesis)
	sab.arm(1)
	t.Cleanup(func() { sab.arm(0) }) // before the engine is closed
	for more := 4; more > 0; {       // until a flush has failed, and a little longer
		if sab.done() {
			more--
		}
		if err := s.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sab.arm(0)
	if err := s.finish(t.Context(), b.known()); err != nil {
		t.Fatal(err)
	}
	found, _, err := inspect(t.Context(), h, b, s.at(), true)
	if err != nil {
		t.Fatal(err)
	}
	found.zero(t, "no space for tables")
}

func TestReadOnlyDiskIsRefusedAtTheStartWithAHint(t *testing.T) {
	disk := vfs.NewCrashableMem()
	sab := &saboteur{ruin: ruin{match: func(kind, _ string) bool { return kind != "" }, err: syscall.EROFS}}
	h, err := openEngine(t.Context(), plan{fs: errorfs.Wrap(disk, sab)}, genesis)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	sab.arm(1)
	_, err = openEngine(t.Context(), plan{fs: errorfs.Wrap(disk, sab)}, genesis)
	var e *mayfly.Error
	if !errors.Is(err, mayfly.Unavailable) || !errors.As(err, &e) || e.Hint == "" {
		t.Fatalf("a read-only disk answers %v, want Unavailable with a hint", err)
	}
}
