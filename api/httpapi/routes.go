package httpapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

// Bounds of bodies that are no media.
const (
	smallBody = 16 << 10
	storyBody = 128 << 10 // overlays and caption
	roomMedia = 64 << 10  // around each medium of a multipart body
)

// publicRoutes is the table of everything that users can call. Document, page
// and tests are made from it.
func (a *API) publicRoutes() []route {
	user, service := []account.Scope{account.User}, []account.Scope{account.Service}
	item := []int{http.StatusNotFound, http.StatusGone}
	birth := []int{http.StatusConflict, http.StatusInsufficientStorage}
	one := max(a.o.Limits.Image, a.o.Limits.Video)
	routes := []route{
		{
			method: "POST", pattern: "/v1/token", id: "getToken", tag: "tokens", limit: readLimit, most: smallBody,
			summary: "Get tokens, with a refresh token or as a service for a user",
			about:   "A refresh token is used once; the answer has the next one. One that comes again ends all of its family.",
			body:    jsonOf[wire.TokenRequest](), answers: answers[wire.Tokens](http.StatusOK, "The tokens."),
			example: `-H 'Content-Type: application/json' -d '{"refresh_token":"…"}'`, do: getToken,
		},
		{
			method: "GET", pattern: "/v1/me/preflight", id: "preflight", tag: "stories", scopes: user, limit: readLimit,
			summary: "Could I publish now, and by which rules?", answers: answers[wire.Preflight](http.StatusOK, "Whether, and the rules."), do: preflight,
		},
		{
			method: "POST", pattern: "/v1/uploads", id: "reserveUpload", tag: "uploads", scopes: user, limit: writeLimit, most: smallBody,
			summary: "Reserve room for media that are put one by one", may: birth,
			about: "Put each medium to its url. Where presigned stands beside it the storage takes it instead, without a token; it is read, and refused if it is none, when the upload is published.",
			body:  jsonOf[wire.NewUpload](), answers: answers[wire.Upload](http.StatusCreated, "The reservation."),
			example: `-H 'Content-Type: application/json' -d '{"media":1}'`, do: reserveUpload,
		},
		{
			method: "GET", pattern: "/v1/uploads/{upload}", id: "getUpload", tag: "uploads", scopes: user, limit: readLimit, may: item,
			summary: "Which media of an upload have arrived?", answers: answers[wire.Upload](http.StatusOK, "The reservation."), do: getUpload,
		},
		{
			method: "PUT", pattern: "/v1/uploads/{upload}/{n}", id: "putMedium", tag: "uploads", scopes: user, limit: readLimit, most: one,
			summary: "Put one medium of an upload", may: append(birth, item...), body: mediaContent(),
			answers: answers[wire.Uploaded](http.StatusCreated, "It has arrived, without its metadata."),
			example: `--data-binary @photo.jpg -H 'Content-Type: image/jpeg'`, do: putMedium,
		},
		{
			method: "POST", pattern: "/v1/stories", id: "publishStory", tag: "stories", scopes: user, limit: writeLimit,
			most:    10*(one+roomMedia) + storyBody,
			summary: "Publish a story", may: append(birth, item...), params: append(publishParams(), idempotencyKey()), body: publishContent(),
			about: "Media are sent with it (multipart, or one medium as the whole body with the fields in the query), or were put to an upload before (JSON). Type is told by content; metadata such as places are taken out. The same Idempotency-Key again answers the same story.",
			answers: []reply{
				{status: http.StatusCreated, about: "It is published, and durable.", content: jsonOf[wire.Story](), headers: []string{"Location", "ETag"}},
				{status: http.StatusOK, about: "It was published before, by a request with the same Idempotency-Key.", content: jsonOf[wire.Story](), headers: []string{"Location", "ETag"}},
			},
			example: `-F 'story={"audience":"everyone","caption":"sea"};type=application/json' -F media=@photo.jpg`, do: publishStory,
		},
		{
			method: "GET", pattern: "/v1/stories/{id}", id: "openStory", tag: "stories", limit: readLimit, may: item,
			summary: "Open a story", about: "Until its deadline for its audience; then for its author and moderators only. Whoever may not see it is told 404 before the deadline and 410 after it, in the same bytes whether it ever was or not.",
			params: []param{ifNoneMatch()}, answers: conditional[wire.Story]("The story."), do: openStory,
		},
		{
			method: "DELETE", pattern: "/v1/stories/{id}", id: "deleteStory", tag: "stories", scopes: user, limit: writeLimit, may: append(item, http.StatusConflict),
			summary: "Delete an own story, in whatever state it is", answers: []reply{{status: http.StatusNoContent, about: "It is gone from every route. Its author, asking again, is answered the same as long as its tombstone stands (`ends.tombstone`)."}}, do: deleteStory,
		},
		{
			method: "POST", pattern: "/v1/stories/{id}/view", id: "viewStory", tag: "stories", scopes: user, limit: readLimit, may: item,
			summary: "Say that I have seen a story", answers: []reply{{status: http.StatusNoContent, about: "Noted; the first time counts."}}, do: viewStory,
		},
		{
			method: "GET", pattern: "/v1/stories/{id}/viewers", id: "listViewers", tag: "stories", scopes: []account.Scope{account.User, account.Moderator}, limit: readLimit, may: item,
			summary: "Who has seen my story?", params: paging(), answers: answers[wire.Viewers](http.StatusOK, "A page of viewers."), do: listViewers,
		},
		{
			method: "POST", pattern: "/v1/stories/{id}/reshare", id: "reshareStory", tag: "stories", scopes: user, limit: writeLimit, may: append(birth, item...), most: smallBody,
			summary: "Make a new story of an own one, without uploading again", params: []param{idempotencyKey()}, body: jsonOf[wire.Reshare](), bodyOptional: true,
			answers: []reply{
				{status: http.StatusCreated, about: "The new story.", content: jsonOf[wire.Story](), headers: []string{"Location", "ETag"}},
				{status: http.StatusOK, about: "It was reshared before, by a request with the same Idempotency-Key.", content: jsonOf[wire.Story](), headers: []string{"Location", "ETag"}},
			},
			example: `-H 'Content-Type: application/json' -d '{"audience":"followers"}'`, do: reshareStory,
		},
		{
			method: "GET", pattern: "/v1/users/{user}/ring", id: "getRing", tag: "stories", limit: readLimit,
			summary: "A user's live stories that I may see, oldest first", params: []param{ifNoneMatch()}, answers: conditional[wire.Ring]("The ring."), do: getRing,
		},
		{
			method: "GET", pattern: "/v1/me/archive", id: "listArchive", tag: "stories", scopes: user, limit: readLimit,
			summary: "My stories that have ended, newest first", params: append(archiveParams(), paging()...), answers: answers[wire.Archive](http.StatusOK, "A page of stories."), do: listArchive,
		},
	}
	routes = append(routes, mediaRoute(http.MethodGet), mediaRoute(http.MethodHead))
	for _, l := range relationLists() {
		routes = append(routes, l.routes(user)...)
	}
	routes = append(routes, followerRoutes(service)...)
	routes = append(routes, readinessRoute(http.MethodGet), readinessRoute(http.MethodHead))
	routes = append(routes, a.pageRoutes(routes)...)
	for i := range routes {
		if routes[i].tag != healthTag { // which says itself that nothing is answered
			routes[i].open = a.o.Open
		}
	}
	return routes
}

// healthTag is the tag of routes that tell how the node stands.
const healthTag = "health"

func readinessRoute(method string) route {
	rt := route{
		method: method, pattern: "/readyz", id: "getReadiness", tag: healthTag,
		summary: "Are users answered here?", about: "For a load balancer, which sends users to another node while the answer is no.",
		answers: append(answers[wire.Readiness](http.StatusOK, "They are.", "Cache-Control"),
			answers[wire.Readiness](http.StatusServiceUnavailable, "They are not: ask another node.", "Cache-Control", "Retry-After")...),
		do: getReadiness,
	}
	if method == http.MethodHead {
		return rt.bodiless("headReadiness", "Are users answered here? Without a body")
	}
	return rt
}

func mediaRoute(method string) route {
	rt := route{
		method: method, pattern: "/v1/media/{id}/{object}", id: "getMedium", tag: "media",
		summary: "The bytes of a medium, or of a smaller picture of it",
		about:   "The URL stands in the story and dies with it. A request with a user's token needs no signature. A download that was begun before the deadline may finish.",
		params:  mediaParams(), may: []int{http.StatusNotFound, http.StatusGone, http.StatusRequestedRangeNotSatisfiable},
		answers: []reply{
			{status: http.StatusOK, about: "The bytes.", content: mediaContent(), headers: []string{"ETag", "Accept-Ranges", "Cache-Control"}},
			{status: http.StatusPartialContent, about: "The range that was asked for.", content: mediaContent(), headers: []string{"ETag", "Content-Range", "Cache-Control"}},
			{status: http.StatusNotModified, about: "What you have is current."},
		},
		do: getMedium,
	}
	if method == http.MethodHead {
		return rt.bodiless("headMedium", "What a medium is, without its bytes")
	}
	return rt
}

// bodiless is the same route asked by HEAD: its answers have no content.
func (r route) bodiless(id, summary string) route {
	r.id, r.summary = id, summary
	for i := range r.answers {
		r.answers[i].content = nil
	}
	return r
}
