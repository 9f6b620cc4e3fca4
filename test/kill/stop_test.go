package kill

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/mayflyhq/mayfly"
)

// A worker whose input ends finishes what it has begun: every intent has its
// answer, and its folder can be opened at once.
func TestAWorkerStopsInGoodOrderWhenItsInputEnds(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	for seed := range uint64(2) {
		w := worker{data: data, seed: 1 + seed, hands: 16}
		in, say := io.Pipe()
		hear, out := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- errors.Join(w.run(t.Context(), in, out), out.Close()) }()
		go func() { _, _ = io.WriteString(say, "\n") }()
		state, lines := newExpected(), bufio.NewScanner(hear)
		for n := 0; lines.Scan(); n++ {
			if err := state.line(lines.Bytes()); err != nil {
				t.Fatal(err)
			}
			if n == 200 {
				if err := say.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		if state.acknowledged < 50 || len(state.flying) > 0 || len(state.count.Faults()) > 0 {
			t.Errorf("%d acknowledged, %d without an answer, %s", state.acknowledged, len(state.flying), &state.count)
		}
	}
}

// By a worker's windows the items of others would be erased within a minute.
func TestAWorkerTakesNoFolderThatIsNotItsOwn(t *testing.T) {
	data := t.TempDir()
	if err := os.WriteFile(filepath.Join(data, "FORMAT"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := worker{data: data}
	if err := w.run(t.Context(), new(bytes.Buffer), io.Discard); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("%v", err)
	}
}
