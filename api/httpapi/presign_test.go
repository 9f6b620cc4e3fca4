package httpapi_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

func (p *presignedNode) reserve(media int) wire.Upload {
	p.Helper()
	return nodetest.ReadJSON[wire.Upload](p, p.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Body: announced(media)}, http.StatusCreated))
}

func (p *presignedNode) publishUpload(upload mayfly.ID, status int) wire.Story {
	p.Helper()
	return nodetest.ReadJSON[wire.Story](p, p.Want(nodetest.Request{
		As: "ana", Method: "POST", Path: "/v1/stories", Body: `{"audience":"everyone","upload":"` + upload.String() + `"}`,
	}, status))
}

func (p *presignedNode) open(as string, id mayfly.ID) wire.Medium {
	p.Helper()
	return nodetest.ReadJSON[wire.Story](p, p.Get(as, "/v1/stories/"+id.String(), http.StatusOK)).Media[0]
}

// loads checks that a URL returns the bytes of the medium.
func (p *presignedNode) loads(url string, m wire.Medium) {
	p.Helper()
	status, body := p.send(http.MethodGet, url, "")
	if sum := sha256.Sum256([]byte(body)); status != http.StatusOK || hex.EncodeToString(sum[:]) != m.SHA256 {
		p.Errorf("%d, %d bytes, want %d", status, len(body), m.Size)
	}
}

func TestAStoryIsPutToTheStorageAndReadFromItDirectly(t *testing.T) {
	p := newPresignedNode(t, true)
	upload := p.reserve(2)
	for n, target := range upload.Put {
		at := target.Presigned
		if at == nil || target.Length != int64(len(padded(t, 1))) || at.Until != p.Now().Add(15*time.Minute) || !strings.HasPrefix(at.URL, p.hot.server.URL) {
			t.Fatalf("%+v", target)
		}
		if status, _ := p.send(http.MethodPut, at.URL, padded(t, byte(n))); status != http.StatusOK {
			t.Errorf("put: %d", status)
		}
	}
	s := p.publishUpload(upload.ID, http.StatusCreated)
	if again := p.publishUpload(upload.ID, http.StatusOK); again.ID != s.ID {
		t.Errorf("again: %s, want %s", again.ID, s.ID)
	}
	for n, m := range nodetest.ReadJSON[wire.Story](t, p.Get("anonymous", "/v1/stories/"+s.ID.String(), 200)).Media {
		if !strings.HasPrefix(m.URL, p.hot.server.URL) || m.URLUntil != p.Now().Add(time.Minute) {
			t.Errorf("medium %d: %s until %s", n, m.URL, m.URLUntil)
		}
		p.loads(m.URL, m)
		for _, r := range m.Renditions { // the renditions of a small picture are the picture itself
			p.loads(r.URL, m)
		}
	}
	ring := nodetest.ReadJSON[wire.Ring](t, p.Get("ben", "/v1/users/~ana/ring", 200))
	if len(ring.Stories) != 1 || !strings.HasPrefix(ring.Stories[0].Media[0].URL, p.hot.server.URL) {
		t.Errorf("%+v", ring)
	}
}

func TestAPresignedURLIsValidUntilURLUntilAndNotPastTheDeadline(t *testing.T) {
	p := newPresignedNode(t, true)
	p.Machine.Advance(345 * time.Millisecond)
	s := p.Publish("ana", `{"audience":"everyone"}`)
	for _, left := range []time.Duration{10 * time.Minute, 61 * time.Second, 60 * time.Second, 30500 * time.Millisecond, 1500 * time.Millisecond} {
		p.advanceTo(s.ExpiresAt.Add(-left))
		m := p.open("ben", s.ID)
		if !strings.HasPrefix(m.URL, p.hot.server.URL) || m.URLUntil > s.ExpiresAt || m.URLUntil.Sub(p.Now()) > time.Minute {
			t.Errorf("%s before the deadline: %s until %s", left, m.URL, m.URLUntil)
		}
		p.loads(m.URL, m)
		p.advanceTo(max(p.Now(), m.URLUntil))
		p.loads(m.URL, m)
		p.Machine.Advance(time.Millisecond)
		if status, _ := p.send(http.MethodGet, m.URL, ""); status != http.StatusForbidden {
			t.Errorf("%s before the deadline: %d after it expired", left, status)
		}
	}
	s = p.Publish("ana", `{"audience":"everyone","caption":"another"}`)
	p.advanceTo(s.ExpiresAt.Add(-900 * time.Millisecond)) // less than a whole second is left
	m := p.open("ben", s.ID)
	if !strings.HasPrefix(m.URL, "/v1/media/") || m.URLUntil != s.ExpiresAt {
		t.Errorf("%s until %s", m.URL, m.URLUntil)
	}
	p.loads(m.URL, m)
	p.advanceTo(s.ExpiresAt)
	p.Get("ben", "/v1/stories/"+s.ID.String(), http.StatusGone)
	if status, _ := p.send(http.MethodGet, m.URL, ""); status != http.StatusGone {
		t.Errorf("%d at the deadline", status)
	}
}

func TestStoriesForOtherAudiencesAreReadFromTheServer(t *testing.T) {
	p := newPresignedNode(t, true)
	p.Follow("ana", "ben")
	own := func(as string, s wire.Story) {
		t.Helper()
		for _, one := range []wire.Medium{p.open(as, s.ID), nodetest.ReadJSON[wire.Ring](t, p.Get(as, "/v1/users/~ana/ring", 200)).Stories[0].Media[0]} {
			if !strings.HasPrefix(one.URL, "/v1/media/") || !strings.HasPrefix(one.Renditions[0].URL, "/v1/media/") {
				t.Errorf("%s: %+v", as, one)
			}
		}
	}
	s := p.Publish("ana", `{"audience":"followers"}`)
	own("ben", s)
	own("ana", s)
}

func TestAURLFromBeforeADeleteExpiresWithinAMinute(t *testing.T) {
	p := newPresignedNode(t, true)
	s := p.Publish("ana", `{"audience":"everyone"}`)
	m := p.open("ben", s.ID)
	p.Want(nodetest.Request{As: "ana", Method: "DELETE", Path: "/v1/stories/" + s.ID.String()}, http.StatusNoContent)
	p.Get("ben", "/v1/stories/"+s.ID.String(), http.StatusNotFound)
	p.Machine.Advance(time.Minute + time.Millisecond)
	if status, _ := p.send(http.MethodGet, m.URL, ""); status == http.StatusOK {
		t.Error("the medium can still be read")
	}
}

func TestAnAuthorReadsTheArchiveFromColdStorage(t *testing.T) {
	p := newPresignedNode(t, true)
	s := p.Publish("ana", `{"audience":"close_friends"}`)
	p.advanceTo(s.ExpiresAt)
	hot := p.open("ana", s.ID)
	if !strings.HasPrefix(hot.URL, "/v1/media/") {
		t.Errorf("before it was archived: %s", hot.URL)
	}
	p.Machine.Advance(2 * time.Hour)
	p.toCold(s.ID)
	listed := nodetest.ReadJSON[wire.Archive](t, p.Get("ana", "/v1/me/archive", 200)).Stories[0].Media[0]
	for _, m := range []wire.Medium{p.open("ana", s.ID), listed} {
		if !strings.HasPrefix(m.URL, p.cold.server.URL) || m.URLUntil.Sub(p.Now()) > time.Hour {
			t.Errorf("%s until %s", m.URL, m.URLUntil)
		}
		p.loads(m.URL, m)
	}
	if m := p.open("moderator", s.ID); !strings.HasPrefix(m.URL, "/v1/media/") {
		t.Errorf("for a moderator: %s", m.URL)
	}
	p.Get("ben", "/v1/stories/"+s.ID.String(), http.StatusGone)
}

func TestUploadedBytesAreServedByNoRouteBeforeTheyArePublished(t *testing.T) {
	p := newPresignedNode(t, true)
	upload := p.reserve(1)
	put := upload.Put[0].Presigned.URL
	p.send(http.MethodPut, put, padded(t, 1))
	if status, _ := p.send(http.MethodGet, put, ""); status != http.StatusForbidden {
		t.Errorf("GET of the URL for PUT: %d", status)
	}
	for _, path := range []string{
		"/v1/media/" + upload.ID.String() + "/raw-0", "/v1/media/" + upload.ID.String() + "/0", "/v1/uploads/" + upload.ID.String() + "/raw-0",
	} {
		for _, as := range []string{"ana", "anonymous", "moderator"} {
			if w := p.Do(nodetest.Request{As: as, Method: "GET", Path: path}); w.Code < 400 {
				t.Errorf("%s as %s: %d", path, as, w.Code)
			}
		}
	}
	if got := nodetest.ReadJSON[wire.Upload](t, p.Get("ana", "/v1/uploads/"+upload.ID.String(), 200)); got.Put[0].Done || got.Put[0].Presigned == nil {
		t.Errorf("%+v", got)
	}
}

func TestAnInvalidMediumInTheStorageIsRefusedWhenItIsPublished(t *testing.T) {
	p := newPresignedNode(t, true)
	upload := p.reserve(1)
	put := upload.Put[0].Presigned.URL
	p.publishUpload(upload.ID, http.StatusConflict) // nothing was put
	for _, bad := range []struct {
		body   string
		status int
	}{{"a page", http.StatusUnsupportedMediaType}, {picture(t, 1)[:200], http.StatusBadRequest}} {
		p.send(http.MethodPut, put, string(fixture.Padded([]byte(bad.body))))
		p.publishUpload(upload.ID, bad.status)
	}
	p.send(http.MethodPut, put, padded(t, 2))
	p.Machine.Advance(20 * time.Minute) // the URL has expired; the uploaded bytes remain
	if status, _ := p.send(http.MethodPut, put, padded(t, 3)); status != http.StatusForbidden {
		t.Errorf("put after the URL expired: %d", status)
	}
	p.publishUpload(upload.ID, http.StatusCreated)
}

func TestURLsArePresignedOnlyIfPresigningIsEnabled(t *testing.T) {
	p := newPresignedNode(t, false)
	if upload := p.reserve(1); upload.Put[0].Presigned != nil {
		t.Errorf("%+v", upload)
	}
	s := p.Publish("ana", `{"audience":"everyone"}`)
	if m := p.open("ben", s.ID); !strings.HasPrefix(m.URL, "/v1/media/") {
		t.Errorf("%+v", m)
	}
	if len(p.hot.grants) != 0 {
		t.Errorf("%v", p.hot.grants)
	}
}
