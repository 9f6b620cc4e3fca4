package media

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

// I17: no more media are parsed at the same time than allowed.
func TestAMediumIsParsedWhenItsTurnComes(t *testing.T) {
	cl, err := NewCleaner(CleanerOptions{Work: 2, Wait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	gif := []byte("GIF89a\x01\x00\x01\x00\x00\x00\x00\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x00;")
	try := func() error {
		c, err := cl.Clean(bytes.NewReader(gif))
		if err == nil {
			_, err = io.ReadAll(c)
		}
		return err
	}
	var others [2]*Cleaned
	for n := range others {
		if err := try(); err != nil {
			t.Errorf("beside %d others: %v", n, err)
		}
		others[n] = &Cleaned{cleaner: cl}
		if err := others[n].turn(); err != nil {
			t.Fatal(err)
		}
	}
	if err := try(); !errors.Is(err, mayfly.Unavailable) {
		t.Errorf("beside %d others: %v", len(others), err)
	}
	_ = others[0].Close()
	if err := try(); err != nil {
		t.Errorf("after one has ended: %v", err)
	}
}
