package story

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/store"
)

// Object names one of a story's objects: a medium, or a smaller picture of it.
type Object struct {
	Medium  int
	Longest int // side in pixels; 0: the medium itself
}

// String returns the object's name in URLs: 0, or 0-320.
func (o Object) String() string {
	if o.Longest == 0 {
		return strconv.Itoa(o.Medium)
	}
	return fmt.Sprintf("%d-%d", o.Medium, o.Longest)
}

// ParseObject reads the one spelling that String writes. Errors: NotFound, because
// it is the last part of a URL.
func ParseObject(text string) (Object, error) {
	medium, longest, smaller := strings.Cut(text, "-")
	var o Object
	var errs [2]error
	o.Medium, errs[0] = strconv.Atoi(medium)
	if smaller {
		o.Longest, errs[1] = strconv.Atoi(longest)
	}
	if _, made := mayfly.RenditionOf(o.Medium, o.Longest); smaller && !made {
		return Object{}, mayfly.NotFound
	}
	if errs[0] != nil || errs[1] != nil || o.Medium < 0 || o.Medium >= mayfly.MaxMedia || o.String() != text {
		return Object{}, mayfly.NotFound
	}
	return o, nil
}

// Sizes returns the longest sides of the smaller pictures of a medium.
func Sizes() []int { return []int{mayfly.SmallRendition, mayfly.LargeRendition} }

// Medium is an open object of a story, to be read from its beginning or from
// anywhere. Read whole, its bytes are checked against their hash and end in an
// error where they differ (I14). Not safe for concurrent use. Close it.
type Medium struct {
	*upload.Seeker
	Story  Story
	Object Object
	Type   string
	Size   int64
	SHA256 [32]byte
	Tier   hydrate.Tier
}

// Medium opens an object of a story for viewer. The gate judges at now; an object
// that was opened before the deadline may be read to its end (ST13). Errors: the
// gate's, NotFound (no such object), Corrupt, Unavailable.
func (s *Stories) Medium(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, object Object, now mayfly.Instant) (*Medium, error) {
	opened, err := s.open(ctx, id, viewer, now)
	if err != nil {
		return nil, err
	}
	story, err := shown(opened)
	if err != nil {
		return nil, err
	}
	open, err := s.opener(ctx, opened, object, now)
	if err != nil {
		return nil, err
	}
	first, err := open(0)
	if errors.Is(err, mayfly.NotFound) { // deleted since the gate has judged it
		return nil, gate.Refusal(id, now)
	}
	if err != nil {
		return nil, fmt.Errorf("medium %s of %s: %w", object, id, err)
	}
	read := upload.NewSeeker(first, first.Size, func(offset int64) (io.ReadCloser, error) { return open(offset) })
	return &Medium{Seeker: read, Story: story, Object: object, Type: first.Type, Size: first.Size, SHA256: first.SHA256, Tier: first.Tier}, nil
}

// opener returns what opens an object at an offset.
func (s *Stories) opener(ctx context.Context, o gate.Opened, object Object, now mayfly.Instant) (func(offset int64) (*hydrate.Medium, error), error) {
	if object.Medium < 0 || object.Medium >= len(o.Body.Media) {
		return nil, mayfly.NotFound
	}
	if object.Longest == 0 {
		return func(offset int64) (*hydrate.Medium, error) {
			return s.o.Hydrate.Open(ctx, o.Item, o.Body, object.Medium, store.Span{Offset: offset})
		}, nil
	}
	if _, made := mayfly.RenditionOf(object.Medium, object.Longest); !made || !media.HasPicture(o.Body.Media[object.Medium].Type) {
		return nil, mayfly.NotFound
	}
	return func(offset int64) (*hydrate.Medium, error) { // small enough to skip to the offset
		m, err := s.o.Hydrate.Rendition(ctx, o.Item, o.Body, object.Medium, object.Longest, now)
		if err != nil {
			return nil, err
		}
		if _, err := io.CopyN(io.Discard, m, offset); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	}, nil
}

// ReadURLs are presigned URLs of a story's objects.
type ReadURLs struct {
	URLs  map[Object]string // without those that have none
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
