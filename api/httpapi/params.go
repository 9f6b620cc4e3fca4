package httpapi

import (
	"net/http"
	"strconv"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/media"
)

func query(name, about string, s schema) param {
	return param{in: "query", name: name, about: about, schema: s}
}

func header(name, about string) param {
	return param{in: "header", name: name, about: about, schema: schema{"type": "string"}}
}

func idempotencyKey() param {
	p := header("Idempotency-Key", "The same key again answers the same story: send one, such as a UUID, to be able to try again.")
	p.schema["minLength"], p.schema["maxLength"] = 1, maxKey
	return p
}

func ifNoneMatch() param {
	return header("If-None-Match", "The ETag of what you have; 304 if that is current.")
}

const (
	defaultPage = 50
	maxPage     = 200
	maxCursor   = 512
	maxKey      = 255 // bytes of an idempotency key
)

func paging() []param {
	return []param{
		query("cursor", "Where the next page begins: next of the page before.", schema{"type": "string", "maxLength": maxCursor}),
		query("limit", "How many at most.", schema{"type": "integer", "minimum": 1, "maximum": maxPage, "default": defaultPage}),
	}
}

func archiveParams() []param {
	instant := schema{"type": "string", "format": "date-time"}
	return []param{
		query("day", "Only those born on this day, in UTC.", schema{"type": "string", "format": "date"}),
		query("from", "Only those born at or after this instant.", instant),
		query("to", "Only those born before this instant.", instant),
	}
}

func publishParams() []param {
	return []param{
		query("caption", "With one medium as the whole body: text below the story.", schema{"type": "string", "maxLength": 2200}),
		query("audience", "With one medium as the whole body: who may see it.", schema{"type": "string", "enum": []string{"everyone", "followers", "close_friends"}}),
		query("lifetime", "With one medium as the whole body: how long it serves.", schema{"type": "string", "maxLength": 32}),
	}
}

func mediaParams() []param {
	text := func(most int) schema { return schema{"type": "string", "maxLength": most} }
	return []param{
		query("until", "Of the signed URL.", text(64)), query("viewer", "Of the signed URL.", text(64)),
		query("moderator", "Of the signed URL.", text(8)), query("sig", "Of the signed URL.", text(128)),
		header("Range", "Which bytes, such as bytes=0-1023."), header("If-Range", "Only if the ETag still is this one; else the whole."), ifNoneMatch(),
	}
}

// mediaContent are the media that are taken and served (ST3).
func mediaContent() content {
	var all content
	for _, typ := range media.Types() {
		all = append(all, typed{typ: typ, schema: schema{"type": "string", "contentMediaType": typ}})
	}
	return all
}

func publishContent() content {
	form := typed{typ: formType, schema: schema{
		"type": "object", "required": []string{"media"},
		"properties": schema{
			"story": schema{"$ref": "#/components/schemas/NewStory"},
			"media": schema{"type": "array", "minItems": 1, "maxItems": mayfly.MaxMedia, "items": schema{"type": "string", "contentMediaType": "application/octet-stream"}},
		},
	}}
	return append(content{form, {typ: jsonType, shape: shape[wire.NewStory]()}}, mediaContent()...)
}

// conditional are the answers of what can be asked for with If-None-Match.
func conditional[T any](about string) []reply {
	return append(answers[T](http.StatusOK, about, "ETag"), reply{status: http.StatusNotModified, about: "What you have is current."})
}

// page reads cursor and limit.
func (c *call) page() (cursor string, limit int, err error) {
	q := c.r.URL.Query()
	limit = defaultPage
	if text := q.Get("limit"); q.Has("limit") {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxPage {
			return "", 0, mayfly.Errorf(mayfly.Invalid, "limit %.20q", text).WithHint("a number from 1 to " + strconv.Itoa(maxPage))
		}
	}
	if cursor = q.Get("cursor"); len(cursor) > maxCursor {
		return "", 0, mayfly.Errorf(mayfly.Invalid, "the cursor is too long").WithHint("take next of the page before as it is")
	}
	return cursor, limit, nil
}

// span reads day, or from and to; zero where nothing is said.
func (c *call) span() (from, to mayfly.Instant, err error) {
	q := c.r.URL.Query()
	if day := q.Get("day"); q.Has("day") {
		if q.Has("from") || q.Has("to") {
			return 0, 0, mayfly.Errorf(mayfly.Invalid, "day together with from or to").WithHint("say one or the other")
		}
		t, err := time.Parse(time.DateOnly, day)
		if err != nil {
			return 0, 0, mayfly.Errorf(mayfly.Invalid, "day %.20q cannot be read", day).WithHint("write it like 2026-01-31")
		}
		from = mayfly.InstantOf(t)
		return from, from.Add(24 * time.Hour), nil
	}
	for name, at := range map[string]*mayfly.Instant{"from": &from, "to": &to} {
		if !q.Has(name) {
			continue
		}
		if err := at.UnmarshalText([]byte(q.Get(name))); err != nil {
			return 0, 0, err
		}
		if *at <= 0 {
			return 0, 0, mayfly.Errorf(mayfly.Invalid, "%s is no instant", name).WithHint("write it like 2026-01-31T18:00:00.000Z")
		}
	}
	if from != 0 && to != 0 && to < from {
		return 0, 0, mayfly.Errorf(mayfly.Invalid, "to lies before from").WithHint("say the earlier instant first")
	}
	return from, to, nil
}

// item is the id that the path names.
func (c *call) item() (mayfly.ID, error) { return mayfly.ParseID(c.r.PathValue("id")) }

// key is the idempotency key, if one came.
func (c *call) key() (string, error) {
	switch keys := c.r.Header["Idempotency-Key"]; {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1 || keys[0] == "" || len(keys[0]) > maxKey:
		return "", mayfly.Errorf(mayfly.Invalid, "the Idempotency-Key cannot be used").WithHint("send one of at most 255 bytes, such as a UUID")
	default:
		return keys[0], nil
	}
}
