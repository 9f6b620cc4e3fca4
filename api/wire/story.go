package wire

import (
	"encoding"
	"encoding/json"

	"github.com/mayflyhq/mayfly"
)

// NewStory is a story to be published (ST1): the part "story" of a multipart
// body, or the whole body if the media were uploaded before.
type NewStory struct {
	Caption  string          `json:"caption,omitempty" maxLength:"2200" doc:"Text below the story."`
	Audience string          `json:"audience,omitempty" enum:"everyone,followers,close_friends" doc:"Who may see the story until it expires; default followers."`
	Lifetime string          `json:"lifetime,omitempty" maxLength:"32" example:"24h" doc:"How long the story is served; default: the first of lifetimes in the preflight."`
	Overlays json.RawMessage `json:"overlays,omitempty" items:"Overlay" maxItems:"50" doc:"Stickers on the media; archived with the story."`
	Upload   *mayfly.ID      `json:"upload,omitempty" format:"uuid" doc:"The id of an upload that has the media; only in a body without media."`
}

// Story is a story as one viewer may see it.
type Story struct {
	ID        mayfly.ID       `json:"id" format:"uuid"`
	Short     string          `json:"short" doc:"The same id in 22 characters."`
	Author    mayfly.UserID   `json:"author" format:"uuid"`
	Caption   string          `json:"caption,omitempty"`
	Audience  string          `json:"audience" enum:"everyone,followers,close_friends"`
	BornAt    mayfly.Instant  `json:"born_at" format:"date-time"`
	ExpiresAt mayfly.Instant  `json:"expires_at" format:"date-time" doc:"The deadline: from this instant on only its author and moderators can open it."`
	Lifetime  mayfly.Lifetime `json:"lifetime" example:"24h"`
	// ServesUntil is set on a story that support has restored.
	ServesUntil *mayfly.Instant `json:"serves_until,omitempty" format:"date-time" doc:"Until when a restored story is served."`
	Overlays    json.RawMessage `json:"overlays,omitempty" items:"Overlay" maxItems:"50"`
	Media       []Medium        `json:"media"`
	// State and Tier are sent to the author and to moderators only.
	State string `json:"state,omitempty" doc:"The state of the story; only for its author and moderators."`
	Tier  string `json:"tier,omitempty" enum:"hot,cold" doc:"Where its media are stored; only for its author and moderators."`
	Held  bool   `json:"held,omitempty" doc:"Whether it is under legal hold; only for moderators."`
	Seen  *bool  `json:"seen,omitempty" doc:"Whether the viewer has seen it; only in rings."`
}

// Medium is one medium of a story, with a URL that is never valid past the end of
// the story (ST3).
type Medium struct {
	Type       string         `json:"type" example:"image/jpeg"`
	Size       int64          `json:"size"`
	Width      uint32         `json:"width,omitempty"`
	Height     uint32         `json:"height,omitempty"`
	SHA256     string         `json:"sha256" doc:"SHA-256 of the bytes in hexadecimal."`
	URL        string         `json:"url" format:"uri-reference" doc:"Signed by the server or presigned by the storage. Valid for 60 s at most and never past the deadline; in the archive for an hour at most."`
	URLUntil   mayfly.Instant `json:"url_until" format:"date-time" doc:"Until when all URLs of this medium are valid."`
	Renditions []Rendition    `json:"renditions,omitempty" doc:"Smaller versions of an image."`
}

// Rendition is a smaller version of an image.
type Rendition struct {
	Longest int    `json:"longest" enum:"320,1080" doc:"The longest side in pixels."`
	URL     string `json:"url" format:"uri-reference"`
}

// Ring lists the live stories of a user, oldest first (ST4).
type Ring struct {
	User    mayfly.UserID `json:"user" format:"uuid"`
	Stories []Story       `json:"stories"`
}

// Tray lists who of the users whom the caller follows has live stories, one slot for
// each (ST4): those with something unseen first, then by their newest story, newest first.
type Tray struct {
	Slots   []TraySlot `json:"slots"`
	Partial bool       `json:"partial,omitempty" doc:"The caller follows more than 2000 users: the slots are of those whom the caller followed last."`
}

// AppendJSON appends the JSON of the tray, which has up to 2,000 slots, as encoding/json
// makes it.
func (t Tray) AppendJSON(b []byte) ([]byte, error) {
	var err error
	text := func(before string, of encoding.TextAppender) {
		if b = append(b, before...); err == nil {
			b, err = of.AppendText(b)
		}
	}
	b = append(b, `{"slots":[`...)
	for i, s := range t.Slots {
		if i > 0 {
			b = append(b, ',')
		}
		text(`{"user":"`, s.User)
		text(`","newest":"`, s.Newest)
		if s.Seen != nil {
			text(`","seen":"`, s.Seen)
		}
		text(`","ends_at":"`, s.EndsAt)
		b = append(b, `"}`...)
	}
	b = append(b, ']')
	if t.Partial {
		b = append(b, `,"partial":true`...)
	}
	return append(b, '}', '\n'), err
}

// TraySlot is a user with live stories that the caller may see.
type TraySlot struct {
	User   mayfly.UserID  `json:"user" format:"uuid"`
	Newest mayfly.ID      `json:"newest" format:"uuid" doc:"The newest of the stories."`
	Seen   *mayfly.ID     `json:"seen,omitempty" format:"uuid" doc:"The newest of the stories that I have seen; absent if I have seen none. The same as newest: nothing is unseen."`
	EndsAt mayfly.Instant `json:"ends_at" format:"date-time" doc:"When the last of the stories ends: hide the slot from then on."`
}

// Archive is a page of the author's own expired stories, newest first (ST6).
type Archive struct {
	Stories []Story `json:"stories"`
	Next    string  `json:"next,omitempty" doc:"Cursor of the next page; absent on the last."`
}

// Viewers is a page of the users who have seen a story, for its author (ST8).
type Viewers struct {
	Count   int      `json:"count" doc:"How many users have seen it."`
	Viewers []Viewer `json:"viewers"`
	Next    string   `json:"next,omitempty"`
}

// Viewer is a user who has seen a story, and when.
type Viewer struct {
	User mayfly.UserID  `json:"user" format:"uuid"`
	At   mayfly.Instant `json:"at" format:"date-time"`
}

// Reshare says what differs when an archived story is published again (ST6).
type Reshare struct {
	Caption  *string `json:"caption,omitempty" maxLength:"2200" doc:"The new caption; default: the old one."`
	Audience string  `json:"audience,omitempty" enum:"everyone,followers,close_friends" doc:"The new audience; default: the old one."`
	Lifetime string  `json:"lifetime,omitempty" maxLength:"32"`
}

// Preflight reports whether the author could publish now, and by which rules.
type Preflight struct {
	MayPublish bool              `json:"may_publish"`
	Reason     string            `json:"reason,omitempty" doc:"Why the author may not publish now."`
	Live       int               `json:"live" doc:"How many of the own stories are live."`
	LiveLimit  int               `json:"live_limit"`
	NextAt     *mayfly.Instant   `json:"next_at,omitempty" format:"date-time" doc:"When the oldest of them expires."`
	Lifetimes  []mayfly.Lifetime `json:"lifetimes" doc:"The lifetimes that are allowed; the first is the default."`
	MaxMedia   int               `json:"max_media"`
	MaxImage   int64             `json:"max_image_bytes"`
	MaxVideo   int64             `json:"max_video_bytes"`
	MaxPixels  int64             `json:"max_pixels"`
	Types      []string          `json:"types"`
}

// NewUpload reserves an upload for media that are put one by one.
type NewUpload struct {
	For   string      `json:"for,omitempty" enum:"story,post" doc:"What it will be published as; default story. A post has 4 media at most, and the limit of live stories does not matter to it."`
	Media []NewMedium `json:"media" minItems:"1" maxItems:"10"`
}

// NewMedium announces a medium that is going to be put.
type NewMedium struct {
	Type   string `json:"type,omitempty" doc:"What you take it for: a type that is not supported, or too large for its type, is refused at once. The bytes decide what it is."`
	Length int64  `json:"length" minimum:"1" doc:"How many bytes you will send. A medium with more or fewer is refused."`
}

// Upload is a reservation: put each medium to its URL, then publish.
type Upload struct {
	ID        mayfly.ID      `json:"id" format:"uuid"`
	ExpiresAt mayfly.Instant `json:"expires_at" format:"date-time" doc:"Publish before then."`
	Put       []PutTarget    `json:"put"`
}

// PutTarget is where one medium of an upload is put.
type PutTarget struct {
	Method    string  `json:"method" enum:"PUT"`
	URL       string  `json:"url" format:"uri-reference"`
	Length    int64   `json:"length" doc:"How many bytes the medium has, as reserved."`
	Done      bool    `json:"done" doc:"Whether the server has the medium. What was put to a presigned URL counts only when it is published."`
	Presigned *PutURL `json:"presigned,omitempty" doc:"Where the storage accepts the medium instead, without a token; absent if it does not."`
}

// PutURL is a presigned URL to which a medium can be put (L11). The medium is
// read, validated and cleaned when the upload is published; until then it can be
// put again.
type PutURL struct {
	URL   string         `json:"url" format:"uri" doc:"Send the bytes with PUT, without Authorization and with Content-Length, which is signed: the storage refuses any other length."`
	Until mayfly.Instant `json:"url_until" format:"date-time" doc:"Until when it is valid. Get the upload again for another one."`
}

// Uploaded describes a medium that was put to an upload.
type Uploaded struct {
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	Width  uint32 `json:"width,omitempty"`
	Height uint32 `json:"height,omitempty"`
	SHA256 string `json:"sha256"`
}
