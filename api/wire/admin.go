package wire

import "github.com/mayflyhq/mayfly"

// Reason says why an operator does something; the token says who does it.
type Reason struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1000"`
}

// RestoreRequest asks for one story, or for everything that a run of a walk did.
type RestoreRequest struct {
	ID     *mayfly.ID      `json:"id,omitempty" format:"uuid"`
	Run    string          `json:"run,omitempty" maxLength:"32" doc:"A run of a walk, to be undone."`
	Until  *mayfly.Instant `json:"until,omitempty" format:"date-time" doc:"How long it serves then; 24 h unless it is said."`
	DryRun bool            `json:"dry_run,omitempty" doc:"With run: count only."`
	Max    int             `json:"max,omitempty" minimum:"0" doc:"With run: restore at most so many; 10,000 unless it is said."`
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
	Ahead       int             `json:"ahead,omitempty" doc:"Of those found: whose deadline lies ahead."`
	Held        int             `json:"held,omitempty"`
	Deleted     int             `json:"deleted,omitempty"`
	Back        int             `json:"back,omitempty" doc:"Watermarks that were moved back."`
	Why         []string        `json:"why,omitempty" doc:"Of the first that were refused or failed."`
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
	Reason   string         `json:"reason" doc:"Why it was to be done; may be empty."`
	Attempts int            `json:"attempts"`
	Since    mayfly.Instant `json:"since" format:"date-time"`
	Tries    []Try          `json:"tries" doc:"The last of the attempts, oldest first."`
}

// Health is how a node stands.
type Health struct {
	Ready    bool              `json:"ready"`
	Degraded bool              `json:"degraded" doc:"It serves, and something needs looking at: a walk lags, the clock is in doubt."`
	Roles    map[string]string `json:"roles" doc:"Each role: ready, or why not."`
	Version  string            `json:"version"`
}

// Readiness is all that users are told of a node's health.
type Readiness struct {
	Ready bool `json:"ready" doc:"Users are answered here. If not, ask another node."`
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

// Try is one try of a step that failed.
type Try struct {
	At     mayfly.Instant `json:"at" format:"date-time"`
	Reason string         `json:"reason" doc:"What it met."`
}

// Runs is a page of runs of walks, oldest first by the hour.
type Runs struct {
	Runs []Run  `json:"runs"`
	Next string `json:"next,omitempty"`
}

// Run is what one node did by one walk in one hour, in one shard: what a restore
// can undo (L14).
type Run struct {
	Run   string         `json:"run" doc:"16 hexadecimal digits, the same in all shards."`
	Walk  string         `json:"walk"`
	Shard int            `json:"shard"`
	Began mayfly.Instant `json:"began" format:"date-time"`
	From  mayfly.Instant `json:"from" format:"date-time" doc:"Nothing due before that was touched by it."`
}

// Orphans is what a look for media that no item owns has found (L12).
type Orphans struct {
	Looked   int      `json:"looked" doc:"Objects that were looked at."`
	Orphans  int      `json:"orphans"`
	Erased   int      `json:"erased"`
	Strange  int      `json:"strange,omitempty" doc:"Objects whose keys are not mayfly's; they are left alone."`
	Capped   bool     `json:"capped,omitempty" doc:"There are more than one run may erase."`
	Whole    bool     `json:"whole" doc:"It came to the end; else the next run that erases goes on from there."`
	Examples []string `json:"examples" doc:"Keys of the first of them."`
}

// Scrub is what reading cold copies again has found (L9).
type Scrub struct {
	At       *mayfly.Instant `json:"at,omitempty" format:"date-time" doc:"When it last looked; nothing if it has not."`
	Items    int64           `json:"items"`
	Objects  int64           `json:"objects"`
	Bytes    int64           `json:"bytes"`
	Mismatch int64           `json:"mismatch" doc:"Copies that are not what was uploaded."`
	Again    int64           `json:"again" doc:"Items that are copied again from hot."`
	Bad      []BadCopy       `json:"bad" doc:"The first of the copies that do not match."`
}

// BadCopy is a cold copy that is not what was uploaded.
type BadCopy struct {
	Item mayfly.ID `json:"item" format:"uuid"`
	Key  string    `json:"key"`
	Why  string    `json:"why"`
}

// AuditRecords is a page of what support and operators did, newest first (C6).
type AuditRecords struct {
	Records []AuditRecord `json:"records"`
	Next    string        `json:"next,omitempty"`
}

// AuditRecord is one deed: its intent, or what came of it.
type AuditRecord struct {
	At      mayfly.Instant `json:"at" format:"date-time"`
	Chain   string         `json:"chain"`
	Number  int64          `json:"number" doc:"Its place in the chain."`
	Actor   string         `json:"actor"`
	Verb    string         `json:"verb"`
	Outcome string         `json:"outcome" enum:"intended,done,refused,failed"`
	Item    *mayfly.ID     `json:"item,omitempty" format:"uuid"`
	User    *mayfly.UserID `json:"user,omitempty" format:"uuid"`
	Run     string         `json:"run,omitempty"`
	Reason  string         `json:"reason"`
	Detail  string         `json:"detail,omitempty"`
}

// AuditCheck asks for the audit log to be verified.
type AuditCheck struct {
	Heads []string `json:"heads,omitempty" doc:"Heads of an earlier report, kept elsewhere: each chain must still contain them."`
}

// AuditReport is what a verification of the audit log saw.
type AuditReport struct {
	Sound    bool     `json:"sound"`
	Records  int      `json:"records" doc:"That are whole and in their place."`
	Chains   int      `json:"chains"`
	Compared int      `json:"compared" doc:"Heads that other chains, or the caller, had kept."`
	Findings []string `json:"findings" doc:"The first of what is wrong."`
	More     int      `json:"more,omitempty" doc:"How much more is wrong."`
	Heads    []string `json:"heads" doc:"The ends of all chains: keep them elsewhere."`
}
