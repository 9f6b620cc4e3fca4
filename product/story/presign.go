package story

import (
	"context"
	"errors"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/media"
)

// PutURL is where a medium of a reservation can be put without us.
type PutURL struct {
	URL   string // empty: there is none
	Until mayfly.Instant
	Most  int64 // bytes
}

// PresignPuts makes presigned URLs for the media of a reservation, empty for those
// that have arrived, and for all where hot storage has none (ST1).
func (s *Stories) PresignPuts(ctx context.Context, r Reservation, now mayfly.Instant) ([]PutURL, error) {
	all := make([]PutURL, len(r.Media))
	for n, m := range r.Media {
		if m.Done {
			continue
		}
		url, until, err := s.o.Intake.PresignRaw(ctx, r.Upload, n, now)
		if errors.Is(err, mayfly.Unsupported) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all[n] = PutURL{URL: url, Until: until, Most: s.largest()}
	}
	return all, nil
}

func (s *Stories) largest() int64 { return max(s.o.Media.Image, s.o.Media.Video) }

// ReadURLs are presigned URLs of a story's objects.
type ReadURLs struct {
	URLs  map[Object]string // without those that have none
	Until mayfly.Instant
}

// PresignReads makes presigned URLs of the objects of stories that viewer was
// shown, as far as they may have any: for whole seconds, most at most, and not
// past the end of a story that serves (ST3). Whoever has one is asked nothing, so
// that it must not last longer than what was handed out may outlive a delete, a
// hold or a block (ST5), also from cold. An error is told beside what was made.
func (s *Stories) PresignReads(ctx context.Context, shown []Story, viewer mayfly.Viewer, most time.Duration, now func() mayfly.Instant) ([]ReadURLs, error) {
	all := make([]ReadURLs, len(shown))
	at := now()
	var wanted []hydrate.Wanted
	var whose []int
	for i, story := range shown {
		tier, lasts := story.presigned(viewer, at, most)
		if lasts < time.Second {
			continue
		}
		all[i] = ReadURLs{URLs: map[Object]string{}, Until: at.Add(lasts) / 1000 * 1000} // they are dated in whole seconds
		for n, medium := range story.Body.Media {
			for _, longest := range append([]int{0}, Sizes()...) {
				if longest == 0 || media.HasPicture(medium.Type) {
					wanted = append(wanted, hydrate.Wanted{Item: story.Item, Body: story.Body, Medium: n, Longest: longest, Tier: tier, Lasts: lasts})
					whose = append(whose, i)
				}
			}
		}
	}
	if len(wanted) == 0 {
		return all, nil
	}
	urls, err := s.o.Hydrate.Presign(ctx, wanted)
	signed := now()
	for j, url := range urls {
		story, w := shown[whose[j]], wanted[j]
		// Signed a little later it lasts a little longer: not past the end (I4).
		if end := story.Item.End(); url == "" || w.Tier == hydrate.Hot && end != 0 && signed.Add(w.Lasts) > end {
			continue
		}
		all[whose[j]].URLs[Object{Medium: w.Medium, Longest: w.Longest}] = url
	}
	return all, err
}

// presigned says from which tier viewer may read the story's media without being
// judged, and for how long from now; 0: not at all. What everyone may see is hot;
// what has ended is its author's alone, and has URLs when it lies in cold storage
// (ST6). All others, and whatever is held, are judged at each request.
func (s Story) presigned(viewer mayfly.Viewer, now mayfly.Instant, most time.Duration) (hydrate.Tier, time.Duration) {
	switch {
	case s.Item.Held:
		return 0, 0
	case s.Archived && viewer.Wrote(s.Item):
		return hydrate.Cold, most.Truncate(time.Second)
	case s.Archived || s.Item.Audience != mayfly.Everyone:
		return 0, 0
	}
	if end := s.Item.End(); end != 0 {
		most = min(most, end.Sub(now))
	}
	return hydrate.Hot, most.Truncate(time.Second)
}
