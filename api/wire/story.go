package wire

import (
	"encoding/json"

	"github.com/mayflyhq/mayfly"
)

// NewStory is what an author wants to publish (ST1): the part "story" of a
// multipart upload, or the whole body when the media were uploaded before.
type NewStory struct {
	Caption  string          `json:"caption,omitempty" maxLength:"2200" doc:"Text below the story."`
	Audience string          `json:"audience,omitempty" enum:"everyone,followers,close_friends" doc:"Who may see it while it serves. followers unless it is said."`
	Lifetime string          `json:"lifetime,omitempty" maxLength:"32" example:"24h" doc:"How long it serves; the server's default unless it is said."`
	Overlays json.RawMessage `json:"overlays,omitempty" items:"Overlay" maxItems:"50" doc:"Stickers: a list of overlays, archived with the story."`
	Upload   *mayfly.ID      `json:"upload,omitempty" format:"uuid" doc:"The reserved upload whose media it has; only without media parts."`
}

// Story is a story as its viewer may see it.
type Story struct {
	ID        mayfly.ID       `json:"id" format:"uuid"`
	Short     string          `json:"short" doc:"The same id in 22 characters."`
	Author    mayfly.UserID   `json:"author" format:"uuid"`
	Caption   string          `json:"caption,omitempty"`
	Audience  string          `json:"audience" enum:"everyone,followers,close_friends"`
	BornAt    mayfly.Instant  `json:"born_at" format:"date-time"`
	ExpiresAt mayfly.Instant  `json:"expires_at" format:"date-time" doc:"The deadline: from this instant on it is gone for everyone but its author."`
	Lifetime  mayfly.Lifetime `json:"lifetime" example:"24h"`
	// ServesUntil is set on a story that support has put back.
	ServesUntil *mayfly.Instant `json:"serves_until,omitempty" format:"date-time" doc:"Until when a restored story serves."`
	Overlays    json.RawMessage `json:"overlays,omitempty" items:"Overlay" maxItems:"50"`
	Media       []Medium        `json:"media"`
	// State and Tier are for its author and moderators only.
	State string `json:"state,omitempty" doc:"Where it is in its life; for its author and moderators."`
	Tier  string `json:"tier,omitempty" enum:"hot,cold" doc:"Where its media lie; for its author and moderators."`
	Held  bool   `json:"held,omitempty" doc:"Under legal hold; moderators only."`
	Seen  *bool  `json:"seen,omitempty" doc:"Whether the viewer has seen it; in rings."`
}

// Medium is one medium of a story, with a URL that dies with it (ST3).
type Medium struct {
	Type       string         `json:"type" example:"image/jpeg"`
	Size       int64          `json:"size"`
	Width      uint32         `json:"width,omitempty"`
	Height     uint32         `json:"height,omitempty"`
	SHA256     string         `json:"sha256" doc:"Of the bytes, in hex."`
	URL        string         `json:"url" format:"uri-reference" doc:"Signed, or presigned by the storage; for at most 60 s and never past the deadline; for the archive an hour at most."`
	URLUntil   mayfly.Instant `json:"url_until" format:"date-time" doc:"Until when all of its URLs are good."`
	Renditions []Rendition    `json:"renditions,omitempty" doc:"Smaller pictures of an image."`
}

// Rendition is a smaller picture of a medium.
type Rendition struct {
	Longest int    `json:"longest" enum:"320,1080" doc:"Its longest side in pixels."`
	URL     string `json:"url" format:"uri-reference"`
}

// Ring is a user's live stories, oldest first (ST4).
type Ring struct {
	User    mayfly.UserID `json:"user" format:"uuid"`
	Stories []Story       `json:"stories"`
}

// Archive is a page of the author's own expired stories, newest first (ST6).
type Archive struct {
	Stories []Story `json:"stories"`
	Next    string  `json:"next,omitempty" doc:"Cursor of the next page; absent on the last."`
}

// Viewers is a page of who has seen a story, for its author (ST8).
type Viewers struct {
	Count   int      `json:"count" doc:"How many have seen it."`
	Viewers []Viewer `json:"viewers"`
	Next    string   `json:"next,omitempty"`
}

// Viewer is one who has seen a story.
type Viewer struct {
	User mayfly.UserID  `json:"user" format:"uuid"`
	At   mayfly.Instant `json:"at" format:"date-time"`
}

// Reshare makes a new story from an archived one, without uploading again (ST6).
type Reshare struct {
	Caption  *string `json:"caption,omitempty" maxLength:"2200" doc:"A new caption; the old one unless it is said."`
	Audience string  `json:"audience,omitempty" enum:"everyone,followers,close_friends" doc:"The old one unless it is said."`
	Lifetime string  `json:"lifetime,omitempty" maxLength:"32"`
}

// Preflight says whether the author could publish now, and by which rules.
type Preflight struct {
	MayPublish bool              `json:"may_publish"`
	Reason     string            `json:"reason,omitempty" doc:"Why not."`
	Live       int               `json:"live" doc:"Own stories that serve now."`
	LiveLimit  int               `json:"live_limit"`
	NextAt     *mayfly.Instant   `json:"next_at,omitempty" format:"date-time" doc:"When the oldest of them ends."`
	Lifetimes  []mayfly.Lifetime `json:"lifetimes" doc:"Those to choose from; the first is the default."`
	MaxMedia   int               `json:"max_media"`
	MaxImage   int64             `json:"max_image_bytes"`
	MaxVideo   int64             `json:"max_video_bytes"`
	MaxPixels  int64             `json:"max_pixels"`
	Types      []string          `json:"types"`
}

// NewUpload reserves room for media that are put one by one.
type NewUpload struct {
	Media int `json:"media" minimum:"1" maximum:"10" doc:"How many media there will be."`
}

// Upload is a reservation: put each medium to its URL, then publish.
type Upload struct {
	ID        mayfly.ID      `json:"id" format:"uuid"`
	ExpiresAt mayfly.Instant `json:"expires_at" format:"date-time" doc:"Publish before then."`
	Put       []PutTarget    `json:"put"`
}

// PutTarget is where one medium goes.
type PutTarget struct {
	Method    string  `json:"method" enum:"PUT"`
	URL       string  `json:"url" format:"uri-reference"`
	Done      bool    `json:"done" doc:"Whether it has arrived; what was put by a presigned URL has when it is published."`
	Presigned *PutURL `json:"presigned,omitempty" doc:"Where the storage takes it instead, without a token; absent where it does not."`
}

// PutURL is a presigned URL that a medium can be put to (L11). What is put there
// is read, judged and cleaned when the upload is published, and can be put again
// until then.
type PutURL struct {
	URL      string         `json:"url" format:"uri" doc:"PUT the bytes there, with Content-Length and without Authorization."`
	Until    mayfly.Instant `json:"url_until" format:"date-time" doc:"Ask for the upload again to get another."`
	MaxBytes int64          `json:"max_bytes" doc:"More is refused when the upload is published."`
}

// Uploaded is a medium that has arrived.
type Uploaded struct {
	Type   string `json:"type"`
	Size   int64  `json:"size"`
	Width  uint32 `json:"width,omitempty"`
	Height uint32 `json:"height,omitempty"`
	SHA256 string `json:"sha256"`
}
