package intake_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/test/fixture"
)

// signing is a tier whose presigned URLs say what they are for.
type signing struct{ store.Blobs }

func (s signing) Presign(_ context.Context, what store.Access, key mayfly.BlobKey, lasts time.Duration) (string, error) {
	return fmt.Sprintf("%d %s %s", what, key, lasts), nil
}

func TestAPresignedPutLastsAQuarterOfAnHourAndNotPastItsUpload(t *testing.T) {
	e := fixture.Open(t)
	e.Set.Hot = signing{e.Set.Hot}
	in := e.Intake(intake.Options{UploadLife: fixture.Lifetime(t, time.Hour)})
	u, err := in.Begin(ana, start) // 345 ms into a second
	if err != nil {
		t.Fatal(err)
	}
	deadline := u.ID.Deadline()
	for _, c := range []struct {
		now   mayfly.Instant
		lasts time.Duration // 0: none
	}{
		{start, 15 * time.Minute},
		{deadline.Add(-15 * time.Minute), 15 * time.Minute},
		{deadline.Add(-15*time.Minute + time.Millisecond), 15*time.Minute - time.Second},
		{deadline.Add(-1999 * time.Millisecond), time.Second},
		{deadline.Add(-999 * time.Millisecond), 0},
		{deadline, 0},
		{deadline.Add(time.Hour), 0},
	} {
		url, until, err := in.PresignRaw(t.Context(), u.ID, 4, c.now)
		if c.lasts == 0 {
			if !errors.Is(err, mayfly.Unsupported) || url != "" {
				t.Errorf("at %s: %q, %v", c.now, url, err)
			}
			continue
		}
		if want := fmt.Sprintf("%d %s %s", store.Write, mayfly.RawKey(u.ID, 4), c.lasts); url != want || err != nil {
			t.Errorf("at %s: %q, %v; want %q", c.now, url, err, want)
		}
		if until%1000 != 0 || until > deadline || until > c.now.Add(c.lasts) || until <= c.now.Add(c.lasts-time.Second) {
			t.Errorf("at %s: good until %s", c.now, until)
		}
	}
}

func TestATierWithoutURLsHasNoneToPutTo(t *testing.T) {
	e := fixture.Open(t)
	in := e.Intake(intake.Options{})
	if url, _, err := in.PresignRaw(t.Context(), e.Upload(in, ana, start).ID, 0, start); !errors.Is(err, mayfly.Unsupported) || url != "" {
		t.Errorf("%q, %v", url, err)
	}
}
