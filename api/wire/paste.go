package wire

import "github.com/mayflyhq/mayfly"

// NewPaste is a paste to be created as JSON (P2).
type NewPaste struct {
	Content  string `json:"content" minLength:"1" doc:"The text. Send bytes that are not UTF-8 as the body of POST / instead."`
	Title    string `json:"title,omitempty" maxLength:"200"`
	Language string `json:"language,omitempty" maxLength:"32" example:"go" doc:"For highlighting; default: found out."`
	Lifetime string `json:"lifetime,omitempty" maxLength:"32" example:"2h" doc:"How long it is served, such as 10m, 2h, 30d or 1y; never if the operator allows it."`
	Password string `json:"password,omitempty" maxLength:"128" doc:"Readers must send it."`
	Burn     bool   `json:"burn,omitempty" doc:"Delete it when it is read for the first time."`
	Reads    int    `json:"reads,omitempty" minimum:"1" maximum:"1000" doc:"Delete it when it has been read so often."`
	Private  bool   `json:"private,omitempty" doc:"Only you may read it."`
}

// Paste describes a paste to one viewer, without its content.
type Paste struct {
	ID        mayfly.ID       `json:"id" format:"uuid"`
	Short     string          `json:"short" doc:"The same id in 22 characters."`
	URL       string          `json:"url" format:"uri" doc:"A page for browsers, the content for programs."`
	RawURL    string          `json:"raw_url" format:"uri" doc:"The content as it was sent."`
	Title     string          `json:"title,omitempty"`
	Language  string          `json:"language,omitempty" doc:"That the author chose."`
	Type      string          `json:"type" example:"text/plain; charset=utf-8" doc:"Of the content, as detected."`
	Size      int64           `json:"size"`
	SHA256    string          `json:"sha256,omitempty" doc:"SHA-256 of the content in hexadecimal. Absent where the reads are limited: a short content can be guessed by it. Its creation answers with it."`
	BornAt    mayfly.Instant  `json:"born_at" format:"date-time"`
	ExpiresAt *mayfly.Instant `json:"expires_at,omitempty" format:"date-time" doc:"The deadline: from this instant on it is gone for everyone. Absent: it never expires."`
	Lifetime  mayfly.Lifetime `json:"lifetime" example:"2h"`
	Locked    bool            `json:"locked,omitempty" doc:"It has a password."`
	Reads     int             `json:"reads,omitempty" doc:"How often it can be read; absent: as often as one likes."`
	ReadsLeft int             `json:"reads_left,omitempty" doc:"How many of these reads are left."`
	Private   bool            `json:"private,omitempty" doc:"Only its author may read it."`
	Held      bool            `json:"held,omitempty" doc:"Whether it is under legal hold; only for moderators."`
	// DeleteToken is sent once, to the caller who created the paste.
	DeleteToken string `json:"delete_token,omitempty" doc:"Deletes the paste, in the header Mayfly-Delete-Token; only in the answer to its creation."`
}

// Pastes is a page of a user's own pastes, newest first.
type Pastes struct {
	Pastes []Paste `json:"pastes"`
	Next   string  `json:"next,omitempty" doc:"Cursor of the next page; absent on the last."`
}
