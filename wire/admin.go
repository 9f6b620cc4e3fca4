package wire

import "github.com/mayflyhq/mayfly"

// Deed is something that an operator does to an item: who is in the token, why is here.
type Deed struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1000"`
}

// RestoreRequest asks for one story, or for everything that a run of a walk did.
type RestoreRequest struct {
	ID     *mayfly.ID      `json:"id,omitempty" format:"uuid"`
	Run    string          `json:"run,omitempty" maxLength:"32" doc:"A run of a walk, to be undone."`
	Until  *mayfly.Instant `json:"until,omitempty" format:"date-time" doc:"How long it serves then; 24 h unless it is said."`
	DryRun bool            `json:"dry_run,omitempty" doc:"With run: count only."`
	Reason string          `json:"reason" minLength:"1" maxLength:"1000"`
}

// Restored is what came of a RestoreRequest.
type Restored struct {
	ID          *mayfly.ID      `json:"id,omitempty" format:"uuid"`
	ServesUntil *mayfly.Instant `json:"serves_until,omitempty" format:"date-time"`
	Found       int             `json:"found,omitempty"`
	Restored    int             `json:"restored,omitempty"`
	Refused     int             `json:"refused,omitempty"`
	Failed      int             `json:"failed,omitempty"`
}

// DeadLetters is a page of steps that were given up after their last try (L10).
type DeadLetters struct {
	Letters []DeadLetter `json:"letters"`
	Next    string       `json:"next,omitempty"`
}

// DeadLetter is one of them.
type DeadLetter struct {
	Item     mayfly.ID      `json:"item" format:"uuid"`
	Step     string         `json:"step"`
	Reason   string         `json:"reason"`
	Attempts int            `json:"attempts"`
	Since    mayfly.Instant `json:"since" format:"date-time"`
}

// Health is how a node stands.
type Health struct {
	Ready    bool              `json:"ready"`
	Degraded bool              `json:"degraded" doc:"It serves, and something needs looking at: a walk lags, the clock is in doubt."`
	Roles    map[string]string `json:"roles" doc:"Each role: ready, or why not."`
	Version  string            `json:"version"`
}

// Walks is how every walk stands.
type Walks struct {
	Walks []Walk `json:"walks"`
}

// Walk is one walk in one shard.
type Walk struct {
	Name      string         `json:"name"`
	Shard     int            `json:"shard"`
	Watermark mayfly.Instant `json:"watermark" format:"date-time"`
	LagMS     int64          `json:"lag_ms"`
	Backlog   bool           `json:"backlog"`
	ETASecs   float64        `json:"eta_s,omitempty"`
}

// Explanation answers why a story is visible, or not (ST12).
type Explanation struct {
	ID        mayfly.ID      `json:"id" format:"uuid"`
	Sentences []string       `json:"sentences" doc:"The answer for people, most important first."`
	Verdict   string         `json:"verdict" enum:"serve,archived,gone,hidden"`
	At        mayfly.Instant `json:"at" format:"date-time"`
	Viewer    string         `json:"viewer"`
	Facts     []Fact         `json:"facts" doc:"Everything that it rests on."`
}

// Fact is one thing that is known about an item.
type Fact struct {
	About string `json:"about" doc:"id, row, pigeonhole, walk, lease, reminder, event, media, verdict …"`
	Name  string `json:"name"`
	Value string `json:"value"`
}
