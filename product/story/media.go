package story

import (
	"context"
	"errors"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/media"
)

// Medium is an open object of a story. Close it.
type Medium struct {
	*hydrate.Opened
	Story  Story
	Object hydrate.Object
}

// Medium opens an object of a story for viewer. The gate judges at now; an object
// that was opened before the deadline may be read to its end (ST13). Errors: the
// gate's, NotFound (no such object), Corrupt, Unavailable.
func (s *Stories) Medium(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, object hydrate.Object, now mayfly.Instant) (*Medium, error) {
	opened, err := s.open(ctx, id, viewer, now)
	if err != nil {
		return nil, err
	}
	story, err := shown(opened)
	if err != nil {
		return nil, err
	}
	m, err := s.o.Hydrate.OpenObject(ctx, opened.Item, opened.Body, object, now)
	if errors.Is(err, mayfly.NotFound) { // deleted since the gate has judged it, or no such object
		return nil, gate.Refusal(id, now)
	}
	if err != nil {
		return nil, err
	}
	return &Medium{Opened: m, Story: story, Object: object}, nil
}

// ReadURLs are presigned URLs of a story's objects.
type ReadURLs struct {
	URLs  map[hydrate.Object]string // without those that have none
	Until mayfly.Instant
}

// PresignReads makes presigned URLs of the objects of stories that viewer was
// shown, as far as they may have any: for whole seconds, most at most, and not
// past the end of a story that serves (ST3). No request through such a URL is
// judged, so most must not be longer than a medium may outlive a delete, a hold or
// a block (ST5), also from cold. An error is returned with the URLs that were made.
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
		all[i] = ReadURLs{URLs: map[hydrate.Object]string{}, Until: at.Add(lasts) / 1000 * 1000} // they are dated in whole seconds
		for n, medium := range story.Body.Media {
			for _, longest := range append([]int{0}, hydrate.Sizes()...) {
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
		all[whose[j]].URLs[hydrate.Object{Medium: w.Medium, Longest: w.Longest}] = url
	}
	return all, err
}

// presigned returns from which tier viewer may read the story's media without
// being judged, and for how long from now; 0: not at all. A live story for
// everyone has URLs in hot storage; an ended one has them in cold storage for its
// author (ST6). All other requests, and all for held stories, are judged.
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
