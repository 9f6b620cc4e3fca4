package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// postForm publishes a post by a form.
func (h *testNode) postForm(as string, status int, parts ...string) wire.Post {
	h.Helper()
	body, typ := nodetest.Form(h, parts...)
	w := h.Want(nodetest.Request{As: as, Method: "POST", Path: "/v1/posts", Type: typ, Body: body}, status)
	if status >= 300 {
		return wire.Post{}
	}
	return nodetest.ReadJSON[wire.Post](h, w)
}

// reservePost reserves an upload for a post and puts what is given of its media.
func (h *testNode) reservePost(as string, media int, put ...string) wire.Upload {
	h.Helper()
	in := strings.Replace(announced(media), "{", `{"for":"post",`, 1)
	u := nodetest.ReadJSON[wire.Upload](h, h.Want(nodetest.Request{As: as, Method: "POST", Path: "/v1/uploads", Body: in}, http.StatusCreated))
	for n, medium := range put {
		h.Want(nodetest.Request{As: as, Method: "PUT", Path: u.Put[n].URL, Type: "image/jpeg", Body: medium}, http.StatusCreated)
	}
	return u
}

// The media of a post are sent with it, are served at URLs that end with it, to those
// whom the gate lets see it, and are gone with it.
func TestAPostHasTheMediaThatWereSentWithIt(t *testing.T) {
	h := newTestNode(t)
	photos := []string{picture(t, 1), picture(t, 2)}
	p := h.postForm("ana", http.StatusCreated, "post", `{"text":"at the sea","lifetime":"90m"}`, "media", photos[0], "media", photos[1])
	if len(p.Media) != 2 || p.Media[0].SHA256 == p.Media[1].SHA256 || len(p.Media[0].Renditions) != 2 || p.Text != "at the sea" {
		t.Fatalf("%+v", p)
	}
	h.Machine.Advance(time.Millisecond)
	bare := h.postForm("ana", http.StatusCreated, "media", photos[0]) // without a text
	seen := nodetest.ReadJSON[wire.Post](t, h.Get("ben", "/v1/posts/"+p.ID.String(), http.StatusOK))
	for _, m := range seen.Media {
		w := h.Get("anonymous", m.URL, http.StatusOK)
		if int64(w.Body.Len()) != m.Size || w.Header().Get("Content-Type") != "image/jpeg" || !strings.Contains(w.Header().Get("Cache-Control"), "s-maxage=") {
			t.Errorf("%d bytes, %v", w.Body.Len(), w.Header())
		}
		h.Get("anonymous", m.Renditions[0].URL, http.StatusOK)
		h.Get("anonymous", strings.Replace(m.URL, "sig=", "sig=A", 1), http.StatusNotFound)
	}
	list := nodetest.ReadJSON[wire.Posts](t, h.Get("ben", "/v1/users/~ana/posts", http.StatusOK))
	if len(list.Posts) != 2 || len(list.Posts[0].Media) != 1 || list.Posts[0].ID != bare.ID || len(list.Posts[1].Media) != 2 {
		t.Errorf("%+v", list)
	}
	h.Want(nodetest.Request{As: "ana", Method: "PATCH", Path: "/v1/me/profile", Body: `{"private":true}`}, http.StatusOK)
	h.Get("anonymous", seen.Media[0].URL, http.StatusNotFound) // the URL is good, and its viewer is not
	h.Follow("ana", "ben")
	own := nodetest.ReadJSON[wire.Post](t, h.Get("ben", "/v1/posts/"+p.ID.String(), http.StatusOK)).Media[0].URL
	if w := h.Get("anonymous", own, http.StatusOK); !strings.Contains(own, "viewer=") || !strings.Contains(w.Header().Get("Cache-Control"), "no-store") {
		t.Errorf("%s: %v", own, w.Header())
	}
	h.Want(nodetest.Request{As: "ana", Method: "PUT", Path: "/v1/me/blocks/~ben"}, http.StatusNoContent)
	h.Get("anonymous", own, http.StatusNotFound)
	h.Want(nodetest.Request{As: "ana", Method: "DELETE", Path: "/v1/posts/" + bare.ID.String()}, http.StatusNoContent)
	h.Get("ana", bare.Media[0].URL, http.StatusNotFound)
	mine := nodetest.ReadJSON[wire.Post](t, h.Get("ana", "/v1/posts/"+p.ID.String(), http.StatusOK)).Media[0].URL
	h.Machine.Advance(p.ID.Deadline().Sub(h.Now()) - time.Millisecond)
	h.Get("ana", "/v1/media/"+p.ID.String()+"/0", http.StatusOK)
	h.Machine.Advance(time.Millisecond)
	for _, url := range []string{mine, "/v1/media/" + p.ID.String() + "/0"} { // of fate purge: gone for its author too
		h.Get("ana", url, http.StatusGone)
	}
}

func TestMediaThatAreNoneOfAPostAreRefused(t *testing.T) {
	h := newTestNode(t)
	photo := picture(t, 1)
	four := []string{"media", photo, "media", photo, "media", photo, "media", photo}
	h.postForm("ana", http.StatusCreated, append([]string{"post", `{"text":"x"}`}, four...)...)
	h.postForm("ana", http.StatusBadRequest, append(four, "media", photo)...)
	h.postForm("ana", http.StatusUnsupportedMediaType, "post", `{"text":"x"}`, "media", "no picture")
	h.postForm("ana", http.StatusBadRequest, "post", `{"text":"x"}`, "media", photo[:len(photo)/2])
	h.postForm("ana", http.StatusBadRequest, "media", photo, "post", `{"text":"x"}`)
	h.postForm("ana", http.StatusBadRequest, "post", `{"text":"x","colour":"red"}`, "media", photo)
	h.postForm("ana", http.StatusBadRequest, "post", `{}`)
	h.postForm("ana", http.StatusRequestEntityTooLarge, "post", `{"text":"`+strings.Repeat("x", 64<<10)+`"}`, "media", photo)
	u := h.reservePost("ana", 1, padded(t, 1))
	h.postForm("ana", http.StatusBadRequest, "post", `{"upload":"`+u.ID.String()+`"}`, "media", photo)
	h.postForm("anonymous", http.StatusUnauthorized, "media", photo)
	for typ, status := range map[string]int{"multipart/form-data": http.StatusBadRequest, "image/jpeg": http.StatusUnsupportedMediaType} {
		h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/posts", Type: typ, Body: photo}, status)
	}
	if list := nodetest.ReadJSON[wire.Posts](t, h.Get("ana", "/v1/users/~ana/posts", http.StatusOK)); len(list.Posts) != 1 {
		t.Errorf("%d posts", len(list.Posts))
	}
}

// A reserved upload is published once, by its owner, when all of its media have arrived;
// a retry is the same post.
func TestAPostHasTheMediaOfAReservedUpload(t *testing.T) {
	h := newTestNode(t)
	publish := func(as, fields, key string, status int) wire.Post {
		t.Helper()
		q := nodetest.Request{As: as, Method: "POST", Path: "/v1/posts", Body: fields}
		if key != "" {
			q.Header = map[string]string{"Idempotency-Key": key}
		}
		w := h.Want(q, status)
		if status >= 300 {
			return wire.Post{}
		}
		return nodetest.ReadJSON[wire.Post](t, w)
	}
	five := strings.Replace(announced(5), "{", `{"for":"post",`, 1)
	h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Body: five}, http.StatusBadRequest)
	other := strings.Replace(announced(1), "{", `{"for":"paste",`, 1)
	h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Body: other}, http.StatusBadRequest)

	u := h.reservePost("ana", 2, padded(t, 1))
	named := `"upload":"` + u.ID.String() + `"}`
	publish("ana", `{"text":"x",`+named, "", http.StatusConflict) // one has not arrived
	h.Want(nodetest.Request{As: "ana", Method: "PUT", Path: u.Put[1].URL, Type: "image/jpeg", Body: padded(t, 2)}, http.StatusCreated)
	publish("ben", `{"text":"x",`+named, "", http.StatusNotFound)
	first := publish("ana", `{"text":"x",`+named, "", http.StatusCreated)
	if len(first.Media) != 2 {
		t.Fatalf("%+v", first)
	}
	h.Get("anonymous", first.Media[1].URL, http.StatusOK)
	if again := publish("ana", `{"text":"x",`+named, "", http.StatusOK); again.ID != first.ID || len(again.Media) != 2 {
		t.Errorf("%+v", again)
	}
	publish("ana", `{"text":"y",`+named, "", http.StatusConflict)
	publish("ana", `{"text":"x",`+named, "k", http.StatusConflict) // it belongs to another key

	u = h.reservePost("ana", 1, padded(t, 3))
	named = `"upload":"` + u.ID.String() + `"}`
	keyed := publish("ana", `{`+named, "k", http.StatusCreated)
	if again := publish("ana", `{`+named, "k", http.StatusOK); again.ID != keyed.ID {
		t.Errorf("%+v", again)
	}
	wide := nodetest.ReadJSON[wire.Upload](t, h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Body: announced(5)}, http.StatusCreated)) // for a story
	publish("ana", `{"upload":"`+wide.ID.String()+`"}`, "", http.StatusBadRequest)
}

// Without stories posts still have uploads and media, and media of stories are not
// served.
func TestPostsHaveMediaWithoutStories(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Stories.Off = true })
	h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/uploads", Body: announced(1)}, http.StatusBadRequest)
	u := h.reservePost("ana", 1, padded(t, 1))
	p := nodetest.ReadJSON[wire.Post](t, h.Want(nodetest.Request{As: "ana", Method: "POST", Path: "/v1/posts", Body: `{"upload":"` + u.ID.String() + `"}`}, http.StatusCreated))
	h.Get("ben", p.Media[0].URL, http.StatusOK)
	h.Get("ben", "/v1/media/"+never(t, h.Now(), 24*time.Hour).String()+"/0", http.StatusNotFound)
}
