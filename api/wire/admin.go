package wire

import "github.com/mayflyhq/mayfly"

// Reason is the body of an operation that the audit log records: why it is done.
// The token identifies who does it.
type Reason struct {
	Reason string `json:"reason" minLength:"1" maxLength:"1000"`
}

// RestoreRequest asks to restore one story, or to undo a run of a walk.
type RestoreRequest struct {
	ID     *mayfly.ID      `json:"id,omitempty" format:"uuid"`
	Run    string          `json:"run,omitempty" maxLength:"32" doc:"The run of a walk to undo; see /v1/runs."`
	Until  *mayfly.Instant `json:"until,omitempty" format:"date-time" doc:"Until when it is served again; default 24 h from now."`
	DryRun bool            `json:"dry_run,omitempty" doc:"With run: only count."`
	Max    int             `json:"max,omitempty" minimum:"0" doc:"With run: the most items to restore; default 10,000."`
	Reason string          `json:"reason" minLength:"1" maxLength:"1000"`
}

// Restored is the result of a RestoreRequest.
type Restored struct {
	ID          *mayfly.ID      `json:"id,omitempty" format:"uuid"`
	ServesUntil *mayfly.Instant `json:"serves_until,omitempty" format:"date-time"`
	Found       int             `json:"found,omitempty"`
	Restored    int             `json:"restored,omitempty"`
	Refused     int             `json:"refused,omitempty"`
	Failed      int             `json:"failed,omitempty"`
	Ahead       int             `json:"ahead,omitempty" doc:"How many of those found have a deadline in the future."`
	Held        int             `json:"held,omitempty"`
	Deleted     int             `json:"deleted,omitempty"`
	Back        int             `json:"back,omitempty" doc:"How many watermarks were moved back."`
	Why         []string        `json:"why,omitempty" doc:"Why the first of them were refused or failed."`
}

// DeadLetters is a page of steps that were given up after their last try (L10).
type DeadLetters struct {
	Letters []DeadLetter `json:"letters"`
	Next    string       `json:"next,omitempty"`
}

// DeadLetter is a step of an item that was given up after its last try.
type DeadLetter struct {
	Item     mayfly.ID      `json:"item" format:"uuid"`
	Step     string         `json:"step"`
	Reason   string         `json:"reason" doc:"Why the step was scheduled; may be empty."`
	Attempts int            `json:"attempts"`
	Since    mayfly.Instant `json:"since" format:"date-time"`
	Tries    []Try          `json:"tries" doc:"The last attempts, oldest first."`
}

// Purges is a page of purges of the edge that are not verified (E1).
type Purges struct {
	Purges []Purge `json:"purges"`
	Next   string  `json:"next,omitempty"`
}

// Purge is a purge of the edge that is not verified.
type Purge struct {
	Key      string         `json:"key" doc:"The surrogate key: i-ID of an item, o-USER of everything of a user."`
	Cause    string         `json:"cause" doc:"The event that it follows, such as story.deleted."`
	Since    mayfly.Instant `json:"since" format:"date-time"`
	Next     mayfly.Instant `json:"next" format:"date-time" doc:"When the edge is asked again."`
	Attempts int            `json:"attempts"`
	Reason   string         `json:"reason" doc:"Why the last attempt did not verify it; empty: it was too early to tell."`
}

// Health is the state of a node and of its roles.
type Health struct {
	Ready    bool              `json:"ready"`
	Degraded bool              `json:"degraded" doc:"The node serves, but needs attention: a walk lags, or the clock is in doubt."`
	Roles    map[string]string `json:"roles" doc:"By role: ready, or why it is not."`
	Version  string            `json:"version"`
}

// Readiness is the only part of a node's health that users can see.
type Readiness struct {
	Ready bool `json:"ready" doc:"Whether this node serves users. If not, use another node."`
}

// Walks lists the progress of every walk.
type Walks struct {
	Walks []Walk `json:"walks"`
}

// Walk is the progress of one walk in one shard.
type Walk struct {
	Name      string         `json:"name"`
	Shard     int            `json:"shard"`
	Watermark mayfly.Instant `json:"watermark" format:"date-time"`
	LagMS     int64          `json:"lag_ms"`
	Backlog   bool           `json:"backlog"`
	ETASecs   float64        `json:"eta_s,omitempty"`
}

// Explanation explains why a story is visible to a viewer, or not (ST12).
type Explanation struct {
	ID        mayfly.ID      `json:"id" format:"uuid"`
	Sentences []string       `json:"sentences" doc:"The answer in sentences, the most important first."`
	Verdict   string         `json:"verdict" enum:"serve,archived,gone,hidden"`
	At        mayfly.Instant `json:"at" format:"date-time"`
	Viewer    string         `json:"viewer"`
	Facts     []Fact         `json:"facts" doc:"The facts behind the answer."`
}

// Fact is one thing that is known about an item.
type Fact struct {
	About string `json:"about" doc:"id, row, pigeonhole, walk, lease, reminder, event, media, verdict …"`
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Try is a failed attempt of a step.
type Try struct {
	At     mayfly.Instant `json:"at" format:"date-time"`
	Reason string         `json:"reason" doc:"The error."`
}

// Runs is a page of runs of walks, ordered by hour, oldest first.
type Runs struct {
	Runs []Run  `json:"runs"`
	Next string `json:"next,omitempty"`
}

// Run is the work of one walk on one node in one hour and one shard: the unit
// that a restore can undo (L14).
type Run struct {
	Run   string         `json:"run" doc:"16 hexadecimal digits, the same in all shards."`
	Walk  string         `json:"walk"`
	Shard int            `json:"shard"`
	Began mayfly.Instant `json:"began" format:"date-time"`
	From  mayfly.Instant `json:"from" format:"date-time" doc:"The run touched nothing that was due before this instant."`
}

// Orphans is the result of a search for media that no item owns (L12).
type Orphans struct {
	Looked   int      `json:"looked" doc:"How many objects were examined."`
	Orphans  int      `json:"orphans"`
	Erased   int      `json:"erased"`
	Strange  int      `json:"strange,omitempty" doc:"Objects whose keys Mayfly did not write; they are never erased."`
	Capped   bool     `json:"capped,omitempty" doc:"Whether there are more orphans than one run may erase."`
	Whole    bool     `json:"whole" doc:"Whether all objects were examined; if not, the next run that erases continues there."`
	Examples []string `json:"examples" doc:"Keys of the first orphans."`
}

// Scrub is what re-reading cold copies has found (L9).
type Scrub struct {
	At       *mayfly.Instant `json:"at,omitempty" format:"date-time" doc:"When copies were last read; absent if they were not yet."`
	Items    int64           `json:"items"`
	Objects  int64           `json:"objects"`
	Bytes    int64           `json:"bytes"`
	Mismatch int64           `json:"mismatch" doc:"Copies that are not what was uploaded."`
	Again    int64           `json:"again" doc:"Items that are copied again from hot storage."`
	Bad      []BadCopy       `json:"bad" doc:"The first copies that do not match."`
}

// BadCopy is a cold copy that is not what was uploaded.
type BadCopy struct {
	Item mayfly.ID `json:"item" format:"uuid"`
	Key  string    `json:"key"`
	Why  string    `json:"why"`
}

// Held is a page of items that are held (L16).
type Held struct {
	Items []HeldItem `json:"items"`
	Next  string     `json:"next,omitempty" doc:"Cursor of the next page; absent on the last. A page may be short without being the last."`
}

// HeldItem is an item that only moderators see.
type HeldItem struct {
	ID      mayfly.ID      `json:"id" format:"uuid"`
	Product string         `json:"product" enum:"story,entry,paste,post"`
	Author  *mayfly.UserID `json:"author,omitempty" format:"uuid" doc:"Absent of an anonymous paste."`
	State   string         `json:"state"`
	Since   mayfly.Instant `json:"since" format:"date-time" doc:"Since when it is held; its birth, if it waits for a moderator since then."`
	BornAt  mayfly.Instant `json:"born_at" format:"date-time"`
}

// AuditRecords is a page of the operations of support and operators, newest
// first (C6).
type AuditRecords struct {
	Records []AuditRecord `json:"records"`
	Next    string        `json:"next,omitempty"`
}

// AuditRecord is a record of the audit log: the intent of an operation, or its
// outcome.
type AuditRecord struct {
	At      mayfly.Instant `json:"at" format:"date-time"`
	Chain   string         `json:"chain"`
	Number  int64          `json:"number" doc:"The position in the chain."`
	Actor   string         `json:"actor" doc:"The subject of the actor's token, or the name of the node that did it by itself."`
	Issuer  string         `json:"issuer,omitempty" doc:"The issuer of the actor's token."`
	For     *mayfly.UserID `json:"for,omitempty" format:"uuid" doc:"The user for whom a service acted."`
	Verb    string         `json:"verb"`
	Outcome string         `json:"outcome" enum:"intended,done,refused,failed"`
	Item    *mayfly.ID     `json:"item,omitempty" format:"uuid"`
	User    *mayfly.UserID `json:"user,omitempty" format:"uuid"`
	Run     string         `json:"run,omitempty"`
	Reason  string         `json:"reason"`
	Detail  string         `json:"detail,omitempty"`
}

// AuditCheck asks to verify the audit log.
type AuditCheck struct {
	Heads []string `json:"heads,omitempty" doc:"Heads of an earlier report that were kept elsewhere: the chains must still contain them."`
}

// AuditReport is the result of verifying the audit log.
type AuditReport struct {
	Sound    bool     `json:"sound"`
	Records  int      `json:"records" doc:"How many records are intact and in their position."`
	Chains   int      `json:"chains"`
	Compared int      `json:"compared" doc:"How many heads, kept by other chains or by the caller, were compared."`
	Findings []string `json:"findings" doc:"The first findings."`
	More     int      `json:"more,omitempty" doc:"How many more findings there are."`
	Heads    []string `json:"heads" doc:"The last record of each chain: keep them elsewhere."`
}
