package paste

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/store"
)

// Content is the open content of a paste, to be read from its beginning or from
// anywhere. Read whole, its bytes are checked against their hash (I14). Not safe for
// concurrent use. Close it.
type Content struct {
	io.ReadSeekCloser
	Paste Paste
}

// Read opens the content of a paste for viewer at now without consuming a read.
// Errors: those of Open, and ReadsLimited for a paste of which only Claim reads;
// moderators read any.
func (p *Pastes) Read(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, password string, now mayfly.Instant) (*Content, error) {
	paste, err := p.Open(ctx, id, viewer, password, now)
	if err != nil {
		return nil, err
	}
	return p.ReadOpened(ctx, paste, viewer, now)
}

// ReadOpened is Read for a paste that Open has returned for the same viewer and now.
func (p *Pastes) ReadOpened(ctx context.Context, paste Paste, viewer mayfly.Viewer, now mayfly.Instant) (*Content, error) {
	if paste.Reads > 0 && !viewer.Moderator() {
		return nil, mayfly.Wrap(mayfly.Conflict, ReadsLimited{paste}, "send a POST to read it: that uses up one read, a GET never does")
	}
	return p.content(ctx, paste, now)
}

// content opens the content of a paste that was opened.
func (p *Pastes) content(ctx context.Context, paste Paste, now mayfly.Instant) (*Content, error) {
	open := func(offset int64) (io.ReadCloser, error) {
		return p.o.Hydrate.Open(ctx, paste.Item, paste.body, 0, store.Span{Offset: offset})
	}
	first, err := open(0)
	if errors.Is(err, mayfly.NotFound) { // deleted since the gate has judged it
		return nil, gate.Refusal(paste.Item.ID, now)
	}
	if err != nil {
		return nil, fmt.Errorf("content of %s: %w", paste.Item.ID, err)
	}
	return &Content{upload.NewSeeker(first, paste.Content.Size, open), paste}, nil
}

// Claim opens a paste and, if its reads are limited, consumes one of them. Of any
// number of callers exactly as many succeed as the author allowed. The content is
// verified before the read is claimed; a claim that lands after the paste has ended,
// or was deleted or held, reads nothing. The last claim deletes the paste; what is open
// then can still be read to its end. now reads the node's clock. Errors: those
// of Open, Corrupt, Unavailable.
func (p *Pastes) Claim(ctx context.Context, id mayfly.ID, viewer mayfly.Viewer, password string, now func() mayfly.Instant) (*Content, error) {
	paste, err := p.Open(ctx, id, viewer, password, now())
	if err != nil {
		return nil, err
	}
	if paste.Reads == 0 || viewer.Moderator() {
		return p.content(ctx, paste, now())
	}
	unlock, err := p.claims.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if paste, err = p.open(ctx, id, viewer, now()); err != nil { // others may have claimed what was left while this request waited
		return nil, err
	}
	content, err := p.verified(ctx, paste, now())
	if err != nil {
		return nil, err
	}
	if content.Paste.Left, err = p.claim(ctx, paste, now); err != nil {
		return nil, errors.Join(err, content.Close())
	}
	return content, nil
}

// inMemory is the size up to which the content of a claim is kept in memory: the
// store may overwrite the bytes of small objects soon after the last claim has
// deleted the paste, while a larger object that is open can be read to its end.
const inMemory = 64 << 10

// verified opens the content of a paste after all of it was read and checked.
func (p *Pastes) verified(ctx context.Context, paste Paste, now mayfly.Instant) (*Content, error) {
	in, err := p.content(ctx, paste, now)
	if err != nil {
		return nil, err
	}
	var all bytes.Buffer
	into := io.Discard
	if paste.Content.Size <= inMemory {
		into = &all
	}
	_, err = io.Copy(into, in)
	if err := errors.Join(err, in.Close()); err != nil {
		return nil, fmt.Errorf("content of %s: %w", paste.Item.ID, err)
	}
	if into == io.Discard {
		return p.content(ctx, paste, now)
	}
	return &Content{inBytes{bytes.NewReader(all.Bytes())}, paste}, nil
}

// inBytes is content in memory.
type inBytes struct{ *bytes.Reader }

// Close does nothing.
func (inBytes) Close() error { return nil }

// used returns how many reads of a paste are claimed.
func (p *Pastes) used(ctx context.Context, paste Paste) (int, error) {
	rows, err := p.o.Rows.Range(ctx, Claims, store.Range{Partition: string(paste.Item.ID[:]), Limit: paste.Reads + 1})
	if err != nil {
		return 0, fmt.Errorf("claims of %s: %w", paste.Item.ID, err)
	}
	return len(rows), nil
}

// keptAfterEnd is how long claims are kept after the end of their paste, if nothing
// removes them: one that lands after the paste was erased has only this.
const keptAfterEnd = 24 * time.Hour

// claim takes the first read that is free and returns how many are left. The reads
// are taken in order, so that the claim of the last one is the last claim. Each
// claim is written with a token of its own: after a time-out the row shows whether
// it is ours. The row of the paste is read after the claim: a claim that lands after
// the paste was deleted and its claims were erased finds its read free. Errors: the
// gate's refusal if none is free, or the paste serves no more; Unavailable.
func (p *Pastes) claim(ctx context.Context, paste Paste, now func() mayfly.Instant) (left int, err error) {
	id, token, begun := paste.Item.ID, rand.Text(), now()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.o.RemindAfter/2) // a claim that has begun is finished
	defer cancel()
	for read := paste.Reads - paste.Left; read < paste.Reads; read++ {
		last := read == paste.Reads-1
		if last {
			if err := p.remindToBurn(ctx, id, begun.Add(p.o.RemindAfter), "its last read is being claimed"); err != nil {
				return 0, err
			}
		}
		err := store.Replace(ctx, p.o.Rows, Claims, claimKey(id, read), nil, []byte(token), reclaimAt(paste))
		if errors.Is(err, mayfly.Conflict) { // another reader has this one
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("claim read %d of %s: %w", read, id, err)
		}
		if err := p.confirm(ctx, paste, now); err != nil {
			if undo := store.Replace(ctx, p.o.Rows, Claims, claimKey(id, read), []byte(token), nil, 0); undo != nil {
				p.o.Problem(fmt.Errorf("give back read %d of %s: %w", read, id, undo))
			}
			return 0, err
		}
		if last {
			if err := p.readOut(ctx, paste, token, now()); err != nil {
				p.o.Problem(fmt.Errorf("delete %s after its last read: %w", id, err)) // the reminder does it; the claims refuse everyone until then
			}
		}
		return paste.Reads - 1 - read, nil
	}
	return 0, gate.Refusal(id, begun)
}

func reclaimAt(paste Paste) mayfly.Instant {
	if end := paste.Item.End(); end != 0 {
		return end.Add(keptAfterEnd)
	}
	return 0
}

// confirm returns nil if a claim that was just written has taken a read: the paste
// still serves, or the last of its readers has deleted it since. It reads the row from
// the ledger, not from a cache (I8). Errors: the gate's refusal, Unavailable.
func (p *Pastes) confirm(ctx context.Context, paste Paste, now func() mayfly.Instant) error {
	id := paste.Item.ID
	row, found, err := p.o.Erase.Row(ctx, id)
	at := now()
	switch {
	case err != nil:
		return err
	case !found || row.EndedAt(at) || row.Held:
		return gate.Refusal(id, at)
	case row.State != mayfly.Deleted:
		return nil
	case row.Cause != mayfly.ByReader || paste.Reads == 1:
		return gate.Refusal(id, at)
	}
	before, last, err := p.claimsOf(ctx, paste)
	if err != nil {
		return err
	}
	if !bytes.HasSuffix(last, before) { // the claim has landed later
		return gate.Refusal(id, at)
	}
	return nil
}

// claimsOf returns the digest of all claims but the last one, and the value of that.
func (p *Pastes) claimsOf(ctx context.Context, paste Paste) (before, last []byte, err error) {
	id := paste.Item.ID
	rows, err := p.o.Rows.Range(ctx, Claims, store.Range{Partition: string(id[:]), Limit: paste.Reads})
	if err != nil {
		return nil, nil, fmt.Errorf("claims of %s: %w", id, err)
	}
	sum := sha256.New()
	for _, row := range rows {
		if row.Clustering == claimKey(id, paste.Reads-1).Clustering {
			last = row.Value
			continue
		}
		_, _ = fmt.Fprintf(sum, "%d:%s%d:%s", len(row.Clustering), row.Clustering, len(row.Value), row.Value)
	}
	return sum.Sum(nil), last, nil
}

// readOut deletes a paste after its last read was claimed with a token. Other readers
// may have claimed theirs and not confirmed it yet: by the digest of their claims they
// know that these came before the last one. A paste that is held meanwhile is left to
// the reminder.
func (p *Pastes) readOut(ctx context.Context, paste Paste, token string, now mayfly.Instant) error {
	id := paste.Item.ID
	if paste.Reads > 1 {
		before, _, err := p.claimsOf(ctx, paste)
		if err == nil {
			err = store.Replace(ctx, p.o.Rows, Claims, claimKey(id, paste.Reads-1), []byte(token), append([]byte(token), before...), reclaimAt(paste))
		}
		if err != nil {
			return err
		}
	}
	_, err := p.o.Erase.Delete(ctx, id, mayfly.ByReader, now)
	if errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Conflict) {
		return nil
	}
	return err
}

// remindToBurn writes the reminder that deletes the paste if this process does not
// come to it. Racing readers write the same row.
func (p *Pastes) remindToBurn(ctx context.Context, id mayfly.ID, due mayfly.Instant, reason string) error {
	const together = 10_000 // ms
	var b store.Batch
	remind.Write(&b, remind.Reminder{Due: (due/together + 1) * together, ID: id, Step: remind.Burn, Reason: reason})
	if err := p.o.Writer.Commit(ctx, &b); err != nil {
		return fmt.Errorf("write the reminder to delete %s: %w", id, err)
	}
	return nil
}

// lookAgain is how long a used-up paste that is held waits until it is looked at again.
const lookAgain = time.Hour

// Burn deletes pastes whose reads are used up. Reminders call it. A held one is left as
// it is until it is released (L16).
func (p *Pastes) Burn(ctx context.Context, b walk.Batch) (failures []walk.Failure, err error) {
	for _, item := range b.Items {
		err := p.burn(ctx, item, b.Now)
		if errors.Is(err, mayfly.Corrupt) {
			failures = append(failures, walk.Failure{Item: item, Err: err})
		} else if err != nil {
			return nil, fmt.Errorf("burn %s: %w", item.ID, err)
		}
	}
	return failures, nil
}

func (p *Pastes) burn(ctx context.Context, item mayfly.Item, now mayfly.Instant) error {
	opened, err := p.o.Gate.Open(ctx, item.ID, mayfly.ModeratorOf(mayfly.UserID{}), now)
	if errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Gone) { // it has ended otherwise
		return nil
	}
	if err != nil {
		return err
	}
	paste, err := pasteOf(opened)
	if err != nil || paste.Reads == 0 {
		return err
	}
	used, err := p.used(ctx, paste)
	if err != nil || used < paste.Reads {
		return err
	}
	_, err = p.o.Erase.Delete(ctx, item.ID, mayfly.ByReader, now)
	switch {
	case errors.Is(err, mayfly.NotFound):
		return nil
	case errors.Is(err, mayfly.Conflict):
		return p.remindToBurn(ctx, item.ID, now.Add(lookAgain), "its reads are used up, and it was held")
	}
	return err
}

// claimLocks let one request of this node at a time read and claim a paste, so that
// a thousand readers of one paste do not each load its content in vain. They are
// channels, so that a context can end the wait. They decide nothing: the claim does.
type claimLocks [256]chan struct{}

func newClaimLocks() (l claimLocks) {
	for i := range l {
		l[i] = make(chan struct{}, 1)
	}
	return l
}

func (l *claimLocks) lock(ctx context.Context, id mayfly.ID) (unlock func(), err error) {
	stripe := l[id[len(id)-1]]
	select {
	case stripe <- struct{}{}:
		return func() { <-stripe }, nil
	case <-ctx.Done():
		return nil, mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("wait for other readers: %w", ctx.Err()), "try again")
	}
}
