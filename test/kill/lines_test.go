package kill

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/mayflyhq/mayfly"
)

// What a worker does, as its lines call it.
const (
	workerPublish   = "publish"
	workerRead      = "read"
	workerDelete    = "delete"
	workerBringBack = "restore"
	workerHold      = "hold"
	workerRelease   = "release"
)

// workerLine is one line that a worker writes: an intent, or the answer to one.
type workerLine struct {
	Intent *workerIntent `json:"intent,omitempty"`
	Answer *workerAnswer `json:"answer,omitempty"`
}

// workerIntent is an operation that is about to begin.
type workerIntent struct {
	N        int64          `json:"n"`
	Verb     string         `json:"verb"`
	At       mayfly.Instant `json:"at"`
	ID       mayfly.ID      `json:"id,omitzero"`
	Until    mayfly.Instant `json:"until,omitzero"`    // of a restore
	Stranger bool           `json:"stranger,omitzero"` // reads, and not the author
	Draft    *workerDraft   `json:"draft,omitempty"`   // of a publish
	Upload   mayfly.ID      `json:"upload,omitzero"`   // that a publish puts its media under
}

// workerAnswer is what came of it.
type workerAnswer struct {
	N     int64          `json:"n"`
	At    mayfly.Instant `json:"at"` // when it had ended
	Kind  string         `json:"kind,omitempty"`
	Error string         `json:"error,omitempty"`
	ID    mayfly.ID      `json:"id,omitzero"`
	// Upload is the one that a published item owns.
	Upload mayfly.ID `json:"upload,omitzero"`
	Media  []string  `json:"media,omitempty"` // hashes of what was read
}

// workerKnown is one line of what a worker reads at its start.
type workerKnown struct {
	ID    mayfly.ID    `json:"id,omitzero"`
	Owner int          `json:"owner,omitzero"`
	Held  bool         `json:"held,omitzero"`
	Again *workerDraft `json:"again,omitempty"` // publish this again, by its key
}

// workerDraft is what is published, down to the last byte, so that a process that has
// it can publish it again and knows what must be read.
type workerDraft struct {
	Text    string `json:"text"`
	Owner   int    `json:"owner"`
	Seconds int    `json:"seconds"`
	Purge   bool   `json:"purge,omitzero"`
	Key     string `json:"key,omitempty"`
	Seed    uint64 `json:"seed"`
	Sizes   []int  `json:"sizes,omitempty"`
}

// medium are the bytes of medium n.
func (d workerDraft) medium(n int) []byte {
	var seed [32]byte
	for i := range 8 {
		seed[i], seed[8+i] = byte(d.Seed>>(8*i)), byte(n>>(8*i))
	}
	content := make([]byte, d.Sizes[n])
	_, _ = rand.NewChaCha8(seed).Read(content) // never fails
	return content
}

// hashes are those of its media, as a reader answers them.
func (d workerDraft) hashes() []string {
	var all []string
	for n := range d.Sizes {
		all = append(all, hashText(sha256.Sum256(d.medium(n))))
	}
	return all
}

func hashText(hash [32]byte) string { return hex.EncodeToString(hash[:]) }

// workerOwner is user n of a worker.
func workerOwner(n int) mayfly.UserID { return mayfly.UserOf("worker", fmt.Sprintf("user %d", n)) }

// kindWord is the word of err's kind; "other" for one that has none.
func kindWord(err error) string {
	for _, kind := range mayfly.Kinds() {
		if errors.Is(err, kind) {
			return kind.String()
		}
	}
	return "other"
}
