// Package storyapi serves stories over HTTP: publishing, reading, rings, the
// archive, uploads and media. It returns its routes to package httpapi.
//
// It decides nothing about visibility: every story and every medium comes from
// product/story, which asks the gate.
package storyapi

import (
	"context"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/media"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/story"
)

// Product is the name of the product in metrics.
const Product = "story"

// Options are the settings of the routes. Stories and Key are required.
type Options struct {
	Stories *story.Stories
	Key     *account.Key // signs media URLs

	URLs, ArchiveURLs time.Duration // how long a media URL is valid; default 1 min and 1 h
	Presign           bool          // return presigned URLs of the storage where it has any
	Limits            media.Limits  // of one medium
	ThumbnailPixels   int64         // the largest image of which smaller pictures are made; 0: any
	Registry          prometheus.Registerer

	Off    bool    // leaves the routes of uploads and media to the other products
	Others []Other // the other products that have media
}

// Other is a product whose items have media.
type Other struct {
	For string // its name in a reservation
	// Reserve makes room for the media of an item, as story.Stories.Reserve does, and Open
	// opens an object of an item with the errors of story.Stories.Medium.
	Reserve func(ctx context.Context, author mayfly.UserID, media []upload.Expected, now mayfly.Instant) (upload.Reservation, error)
	Open    func(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, object hydrate.Object, now mayfly.Instant) (mayfly.Item, *hydrate.Opened, error)
}

func (o Options) withDefaults() (Options, error) {
	if o.Stories == nil || o.Key == nil {
		return o, mayfly.Errorf(mayfly.Invalid, "storyapi: stories and key are required")
	}
	if o.URLs == 0 {
		o.URLs = time.Minute
	}
	if o.ArchiveURLs == 0 {
		o.ArchiveURLs = time.Hour
	}
	if o.URLs < 0 || o.URLs > time.Minute || o.ArchiveURLs < 0 || o.ArchiveURLs > time.Hour {
		return o, mayfly.Errorf(mayfly.Invalid, "storyapi: media URLs valid for %s, those of the archive for %s", o.URLs, o.ArchiveURLs).
			WithHint("media URLs are valid for 60 s at most, those of the archive for an hour (ST3, ST6)")
	}
	if o.Limits.Image == 0 {
		o.Limits.Image = 20 << 20
	}
	if o.Limits.Video == 0 {
		o.Limits.Video = 64 << 20
	}
	if o.Registry == nil {
		o.Registry = prometheus.NewRegistry()
	}
	return o, nil
}

// handlers are the handlers of the routes.
type handlers struct {
	o       Options
	stories *story.Stories
	views   prometheus.Counter
}

const (
	jsonType  = "application/json"
	formType  = "multipart/form-data"
	smallBody = 16 << 10
	storyBody = 128 << 10 // caption and overlays
	partRoom  = 64 << 10  // around each medium of a multipart body
)

// Routes returns the routes of stories.
func Routes(o Options) ([]httpapi.Route, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	h := &handlers{
		o: o, stories: o.Stories,
		views: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "mayfly", Name: "views_total", Help: "Views of stories that were recorded."}),
	}
	if o.Off {
		return ofProduct(h.mediaRoutes()), nil
	}
	if err := o.Registry.Register(h.views); err != nil {
		return nil, err
	}
	user := []account.Scope{account.User}
	absent := []int{http.StatusNotFound, http.StatusGone}
	publish := []int{http.StatusConflict, http.StatusInsufficientStorage}
	publishAbsent := append(publish, absent...)
	largest := max(o.Limits.Image, o.Limits.Video)
	stories := []httpapi.Route{
		{
			Method: "GET", Pattern: "/v1/me/preflight", ID: "preflight", Tag: "stories", Scopes: user, Limit: httpapi.ReadLimit,
			Summary: "Check whether I could publish now, and by which rules", Answers: httpapi.Answers[wire.Preflight](http.StatusOK, "Whether, and the rules."), Handle: h.preflight,
		},
		{
			Method: "POST", Pattern: "/v1/stories", ID: "publishStory", Tag: "stories", Scopes: user, Limit: httpapi.WriteLimit,
			MaxBody: mayfly.MaxMedia*(largest+partRoom) + storyBody,
			Summary: "Publish a story", Problems: publishAbsent, Params: publishParams(), Body: publishContent(), Schemas: overlaySchema(),
			About: "Media are sent with the story (multipart, or one medium as the whole body with the fields in the query), or were put to an upload before (JSON). The type of a medium is detected from its content; metadata such as places are removed. A request with the same Idempotency-Key returns the same story.",
			Answers: []httpapi.Answer{
				{Status: http.StatusCreated, About: "The story is published, and durable.", Content: httpapi.JSONOf[wire.Story](), Headers: []string{"Location", "ETag"}},
				{Status: http.StatusOK, About: "It was published before, by a request with the same Idempotency-Key.", Content: httpapi.JSONOf[wire.Story](), Headers: []string{"Location", "ETag"}},
			},
			Example: `-F 'story={"audience":"everyone","caption":"sea"};type=application/json' -F media=@photo.jpg`, Handle: h.publishStory,
		},
		{
			Method: "GET", Pattern: "/v1/stories/{id}", ID: "openStory", Tag: "stories", Limit: httpapi.ReadLimit, Problems: absent,
			Summary: "Open a story", About: "Until its deadline a story is visible to its audience, then to its author and moderators only. A caller who may not see it gets 404 before the deadline and 410 after it, in the same bytes as for a story that never existed.",
			Params: []httpapi.Param{httpapi.IfNoneMatch()}, Answers: httpapi.ConditionalAnswers[wire.Story]("The story."), Handle: h.openStory,
		},
		{
			Method: "DELETE", Pattern: "/v1/stories/{id}", ID: "deleteStory", Tag: "stories", Scopes: user, Limit: httpapi.WriteLimit, Problems: append(absent, http.StatusConflict),
			Summary: "Delete an own story, whatever its state",
			Answers: []httpapi.Answer{{Status: http.StatusNoContent, About: "No route shows it any more. Deleting it again returns the same while its tombstone is kept (`ends.tombstone`)."}}, Handle: h.deleteStory,
		},
		{
			Method: "POST", Pattern: "/v1/stories/{id}/view", ID: "viewStory", Tag: "stories", Scopes: user, Limit: httpapi.ReadLimit, Problems: absent,
			Summary: "Record that I have seen a story", Answers: []httpapi.Answer{{Status: http.StatusNoContent, About: "Recorded; only the first time counts."}}, Handle: h.viewStory,
		},
		{
			Method: "GET", Pattern: "/v1/stories/{id}/viewers", ID: "listViewers", Tag: "stories", Scopes: []account.Scope{account.User, account.Moderator}, Limit: httpapi.ReadLimit, Problems: absent,
			Summary: "List who has seen my story", Params: httpapi.Paging(), Answers: httpapi.Answers[wire.Viewers](http.StatusOK, "A page of viewers."), Handle: h.listViewers,
		},
		{
			Method: "POST", Pattern: "/v1/stories/{id}/reshare", ID: "reshareStory", Tag: "stories", Scopes: user, Limit: httpapi.WriteLimit, Problems: publishAbsent, MaxBody: smallBody,
			Summary: "Publish an own story again, without a new upload", Params: []httpapi.Param{httpapi.IdempotencyKey()}, Body: httpapi.JSONOf[wire.Reshare](), BodyOptional: true,
			Answers: []httpapi.Answer{
				{Status: http.StatusCreated, About: "The new story.", Content: httpapi.JSONOf[wire.Story](), Headers: []string{"Location", "ETag"}},
				{Status: http.StatusOK, About: "It was reshared before, by a request with the same Idempotency-Key.", Content: httpapi.JSONOf[wire.Story](), Headers: []string{"Location", "ETag"}},
			},
			Example: `-H 'Content-Type: application/json' -d '{"audience":"followers"}'`, Handle: h.reshareStory,
		},
		{
			Method: "GET", Pattern: "/v1/users/{user}/ring", ID: "getRing", Tag: "stories", Limit: httpapi.ReadLimit,
			Summary: "List a user's live stories that I may see, oldest first", Params: []httpapi.Param{httpapi.IfNoneMatch()}, Answers: httpapi.ConditionalAnswers[wire.Ring]("The ring."), Handle: h.getRing,
		},
		{
			Method: "GET", Pattern: "/v1/me/tray", ID: "getTray", Tag: "stories", Scopes: user, Limit: httpapi.ReadLimit,
			Summary: "List who of the users whom I follow has live stories, unseen first",
			About:   "All of them are in one answer, which is compressed for a client that accepts gzip. Users of whom I mute posts are left out, and my own stories; open a user's ring for the stories.",
			Params:  []httpapi.Param{httpapi.IfNoneMatch()}, Answers: httpapi.ConditionalAnswers[wire.Tray]("The tray."), Handle: h.getTray,
		},
		{
			Method: "GET", Pattern: "/v1/me/archive", ID: "listArchive", Tag: "stories", Scopes: user, Limit: httpapi.ReadLimit,
			Summary: "List my stories that have ended, newest first", Params: append(archiveParams(), httpapi.Paging()...), Answers: httpapi.Answers[wire.Archive](http.StatusOK, "A page of stories."), Handle: h.listArchive,
		},
	}
	return ofProduct(append(stories, h.mediaRoutes()...)), nil
}

func ofProduct(routes []httpapi.Route) []httpapi.Route {
	for i := range routes {
		routes[i].Product = Product
	}
	return routes
}

// mediaRoutes are the routes of uploads and media, which other products use too.
func (h *handlers) mediaRoutes() []httpapi.Route {
	user := []account.Scope{account.User}
	absent := []int{http.StatusNotFound, http.StatusGone}
	publish := []int{http.StatusConflict, http.StatusInsufficientStorage}
	return []httpapi.Route{
		{
			Method: "POST", Pattern: "/v1/uploads", ID: "reserveUpload", Tag: "uploads", Scopes: user, Limit: httpapi.WriteLimit, MaxBody: smallBody,
			Summary: "Reserve an upload for media that are put one by one", Problems: append(publish, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType),
			About: "What was reserved and not published is bounded in number and in bytes. Put each medium to its url. Where presigned is set, the storage accepts the medium instead, without a token; it is read, and refused if it is not valid, when the upload is published.",
			Body:  httpapi.JSONOf[wire.NewUpload](), Answers: httpapi.Answers[wire.Upload](http.StatusCreated, "The reservation."),
			Example: `-H 'Content-Type: application/json' -d '{"media":[{"type":"image/jpeg","length":48213}]}'`, Handle: h.reserveUpload,
		},
		{
			Method: "GET", Pattern: "/v1/uploads/{upload}", ID: "getUpload", Tag: "uploads", Scopes: user, Limit: httpapi.ReadLimit, Problems: absent, Params: uploadParams(),
			Summary: "List which media of an upload have arrived", Answers: httpapi.Answers[wire.Upload](http.StatusOK, "The reservation."), Handle: h.getUpload,
		},
		{
			Method: "PUT", Pattern: "/v1/uploads/{upload}/{n}", ID: "putMedium", Tag: "uploads", Scopes: user, Limit: httpapi.WriteLimit, MaxBody: max(h.o.Limits.Image, h.o.Limits.Video), Params: uploadParams(),
			Summary: "Put one medium of an upload", Problems: append(publish, absent...), Body: mediaContent(media.Taken()),
			Answers: httpapi.Answers[wire.Uploaded](http.StatusCreated, "It has arrived; its metadata were removed."),
			Example: `--data-binary @photo.jpg -H 'Content-Type: image/jpeg'`, Handle: h.putMedium,
		},
		h.mediaRoute(),
		h.mediaRoute().WithoutBody("headMedium", "Describe a medium, without its bytes"),
	}
}

func (h *handlers) mediaRoute() httpapi.Route {
	return httpapi.Route{
		Method: "GET", Pattern: "/v1/media/{id}/{object}", ID: "getMedium", Tag: "media",
		Summary: "Get the bytes of a medium, or of a smaller picture of it",
		About:   "The story or post contains the URL, which is valid no longer than that. A request with a user's token needs no signature. A download that began before the deadline may finish.",
		Params:  mediaParams(), Problems: []int{http.StatusNotFound, http.StatusGone, http.StatusRequestedRangeNotSatisfiable},
		Answers: []httpapi.Answer{
			{Status: http.StatusOK, About: "The bytes.", Content: mediaContent(media.Types()), Headers: []string{"ETag", "Accept-Ranges", "Cache-Control"}},
			{Status: http.StatusPartialContent, About: "The range that was asked for.", Content: mediaContent(media.Types()), Headers: []string{"ETag", "Content-Range", "Cache-Control"}},
			{Status: http.StatusNotModified, About: "What you have is current."},
		},
		Handle: h.getMedium,
	}
}

func uploadParams() []httpapi.Param {
	return []httpapi.Param{
		httpapi.PathParam("upload", "The id of the upload.", httpapi.IDPattern),
		{In: "path", Name: "n", About: "Which medium, from 0.", Required: true, Schema: httpapi.Schema{"type": "integer", "minimum": 0, "maximum": 9}},
	}
}

func archiveParams() []httpapi.Param {
	instant := httpapi.Schema{"type": "string", "format": "date-time"}
	return []httpapi.Param{
		httpapi.Query("day", "Only stories that were published on this day, in UTC.", httpapi.Schema{"type": "string", "format": "date"}),
		httpapi.Query("from", "Only stories that were published at or after this instant.", instant),
		httpapi.Query("to", "Only stories that were published before this instant.", instant),
	}
}

func publishParams() []httpapi.Param {
	return []httpapi.Param{
		httpapi.Query("caption", "With one medium as the whole body: text below the story.", httpapi.Schema{"type": "string", "maxLength": 2200}),
		httpapi.Query("audience", "With one medium as the whole body: who may see it.", httpapi.Schema{"type": "string", "enum": []string{"everyone", "followers", "close_friends"}}),
		httpapi.Query("lifetime", "With one medium as the whole body: how long it is served.", httpapi.Schema{"type": "string", "maxLength": 32}),
		httpapi.IdempotencyKey(),
	}
}

func mediaParams() []httpapi.Param {
	text := func(most int) httpapi.Schema { return httpapi.Schema{"type": "string", "maxLength": most} }
	return []httpapi.Param{
		{In: "path", Name: "object", Required: true, About: "Which medium, from 0; or a smaller picture of it.", Schema: httpapi.Schema{"type": "string", "pattern": `^[0-9](-(320|1080))?$`}},
		httpapi.Query("until", "Of the signed URL.", text(64)), httpapi.Query("viewer", "Of the signed URL.", text(64)),
		httpapi.Query("moderator", "Of the signed URL.", text(8)), httpapi.Query("sig", "Of the signed URL.", text(128)),
		httpapi.Header("Range", "Which bytes, such as bytes=0-1023."), httpapi.Header("If-Range", "Send the range only if the ETag still is this one, else the whole."), httpapi.IfNoneMatch(),
	}
}

// mediaContent lists media that are accepted or served (ST3).
func mediaContent(types []string) httpapi.Content {
	var all httpapi.Content
	for _, typ := range types {
		all = append(all, httpapi.Typed{Type: typ, Schema: httpapi.Schema{"type": "string", "contentMediaType": typ}})
	}
	return all
}

func publishContent() httpapi.Content {
	form := httpapi.Typed{Type: formType, Schema: httpapi.Schema{
		"type": "object", "required": []string{"media"},
		"properties": httpapi.Schema{
			"story": httpapi.Schema{"$ref": "#/components/schemas/NewStory"},
			"media": httpapi.Schema{"type": "array", "minItems": 1, "maxItems": mayfly.MaxMedia, "items": httpapi.Schema{"type": "string", "contentMediaType": "application/octet-stream"}},
		},
	}}
	return append(append(httpapi.Content{form}, httpapi.JSONOf[wire.NewStory]()...), mediaContent(media.Taken())...)
}

// overlaySchema describes a sticker as package story checks it.
func overlaySchema() httpapi.Schemas {
	text := func(most int) httpapi.Schema { return httpapi.Schema{"type": "string", "maxLength": most} }
	between := func(least, most int) httpapi.Schema {
		return httpapi.Schema{"type": "number", "minimum": least, "maximum": most}
	}
	return httpapi.Schemas{"Overlay": {
		"type": "object", "required": []string{"kind", "x", "y"}, "additionalProperties": false,
		"properties": httpapi.Schema{
			"kind":   httpapi.Schema{"type": "string", "enum": []string{"text", "mention", "hashtag", "link", "location", "poll", "question", "music", "emoji"}},
			"medium": httpapi.Schema{"type": "integer", "minimum": 0, "maximum": 9, "description": "Which of the story's media it is on."},
			"x":      between(0, 1), "y": between(0, 1), "scale": between(0, 100), "rotation": between(-360, 360),
			"text": text(500), "style": text(100),
			"target":  httpapi.Schema{"type": "string", "maxLength": 2048, "description": "A user, a place, a track; of a link a web address."},
			"options": httpapi.Schema{"type": "array", "maxItems": 10, "items": text(100), "description": "Of a poll."},
		},
	}}
}
