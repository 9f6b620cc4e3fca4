package e2e

import (
	"bytes"
	"encoding/json"
	"image"
	"image/png"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
)

// slowly is a reader of answers that takes the first bytes before an instant and
// all others after it.
type slowly struct {
	*httptest.ResponseRecorder
	until  time.Time
	writes int
}

func (s *slowly) Write(p []byte) (int, error) {
	if s.writes++; s.writes == 2 {
		time.Sleep(time.Until(s.until))
	}
	return s.ResponseRecorder.Write(p)
}

// noise is a picture of about a megabyte, which no encoding makes smaller.
func noise() []byte {
	img := image.NewNRGBA(image.Rect(0, 0, 600, 450))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range img.Pix {
		img.Pix[i] = byte(r.Uint32()) | byte(i%4/3)*255
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic(err) // into memory
	}
	return out.Bytes()
}

// ST13: no cut in the middle; the next load is refused.
func TestADownloadThatBeganBeforeTheDeadlineFinishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMatrix(t, "everyone")
		defer m.close()
		photo := noise()
		body, typ, err := multipartStory(wire.NewStory{Audience: "everyone", Lifetime: "6h"}, [][]byte{photo})
		if err != nil {
			t.Fatal(err)
		}
		header := m.as("ana", "user")
		header.Set("Content-Type", typ)
		var story wire.Story
		a := m.must(request{method: http.MethodPost, target: "/v1/stories", header: header, body: body}, http.StatusCreated)
		if err := json.Unmarshal(a.body, &story); err != nil {
			t.Fatal(err)
		}
		target := "/v1/stories/" + story.ID.String()
		m.sleepUntil(story.ExpiresAt - 1)
		a = m.must(request{method: http.MethodGet, target: target}, http.StatusOK)
		if err := json.Unmarshal(a.body, &story); err != nil {
			t.Fatal(err)
		}
		loads := []request{ // by its URL, and by a token
			{method: http.MethodGet, target: story.Media[0].URL},
			{method: http.MethodGet, target: "/v1/media/" + story.ID.String() + "/0", header: m.as("ben", "user")},
		}
		readers := make([]*slowly, len(loads))
		for i, r := range loads {
			begun := httptest.NewRequest(r.method, r.target, nil)
			begun.Header = r.header
			readers[i] = &slowly{ResponseRecorder: httptest.NewRecorder(), until: story.ExpiresAt.Time().Add(5 * time.Second)}
			go m.public.ServeHTTP(readers[i], begun)
		}
		synctest.Wait() // they have taken the first bytes
		for i, w := range readers {
			if w.writes != 2 || w.Body.Len() == 0 || w.Body.Len() == len(photo) || m.now() != story.ExpiresAt-1 {
				t.Fatalf("%s: %d bytes in %d writes at %s", loads[i].target, w.Body.Len(), w.writes, m.now())
			}
		}
		m.sleepUntil(story.ExpiresAt.Add(10 * time.Second))
		synctest.Wait()
		for i, w := range readers {
			if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), photo) {
				t.Errorf("%s: %d, %d bytes of %d", loads[i].target, w.Code, w.Body.Len(), len(photo))
			}
			m.must(loads[i], http.StatusGone)
		}
	})
}
