package demo

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/store/loop"
)

// demoPaste is what the demo knows of a paste, and what the store must have of it.
type demoPaste struct {
	n      int
	id     mayfly.ID
	text   string
	stored verify.Expected
}

// pasteLasts is the lifetime of the paste that is followed to its deadline.
const pasteLasts = 6 * time.Second

// createPastes creates a paste that ends and one that burns, and reads the second.
func (d *demo) createPastes(ctx context.Context) (ends, burned *demoPaste, err error) {
	if ends, err = d.paste(ctx, "?lifetime="+pasteLasts.String(), pasteLasts); err != nil {
		return nil, nil, err
	}
	if burned, err = d.paste(ctx, "?burn=true", demoLifetimes()[0].Duration()); err != nil {
		return nil, nil, err
	}
	return ends, burned, d.burn(ctx, burned)
}

// paste creates a paste of ana as curl --data-binary does: the answer is its URL.
func (d *demo) paste(ctx context.Context, options string, lasts time.Duration) (*demoPaste, error) {
	token, err := d.host.token("ana", "user")
	if err != nil {
		return nil, err
	}
	p := &demoPaste{n: len(d.pastes) + 1, text: "a note of ana: " + rand.Text() + "\n"}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.host.api()+"/"+options, strings.NewReader(p.text))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // curl's
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	url, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if p.id, err = mayfly.ParseID(path.Base(strings.TrimSpace(string(url)))); err != nil || res.StatusCode != http.StatusCreated {
		return nil, fmt.Errorf("create a paste: status %d: %.300s", res.StatusCode, url)
	}
	p.stored = verify.Expected{Media: [][32]byte{sha256.Sum256([]byte(p.text))}, Until: p.id.Birth().Add(lasts), Moving: true}
	if p.id.Deadline() != p.stored.Until {
		d.count.Add(verify.Early, "%s ends %d ms after its deadline", p.id, p.id.Deadline()-p.stored.Until)
	}
	d.pastes = append(d.pastes, p)
	d.sayOf(p, "ana: curl --data-binary @note.txt '%s/%s' prints %s", d.host.api(), options, strings.TrimSpace(string(url)))
	return p, nil
}

// read reads a paste, and compares it with what was sent.
func (d *demo) read(ctx context.Context, p *demoPaste, c *client.Client, consume bool) error {
	in, err := c.ReadPaste(ctx, p.id, "", consume)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(in)
	if err = errors.Join(err, in.Close()); err == nil && string(text) != p.text {
		d.count.Add(verify.Lost, "%s is not what was sent: %.60q", p.id, text)
	}
	return err
}

// burn reads a paste that may be read once: a GET shows nothing, one POST does.
func (d *demo) burn(ctx context.Context, p *demoPaste) error {
	anyone := d.people.anonymous.ask
	if err := d.read(ctx, p, anyone, false); !errors.Is(err, mayfly.Conflict) {
		return fmt.Errorf("GET of a paste that burns: %w", err)
	}
	p.stored.Deleted = verify.Maybe
	if err := d.read(ctx, p, anyone, true); err != nil {
		return fmt.Errorf("read a paste that burns: %w", err)
	}
	p.stored.Deleted = verify.Yes
	if err := d.read(ctx, p, anyone, true); err == nil {
		d.count.Add(verify.Double, "%s burns after one read, and was read twice", p.id)
	} else if !errors.Is(err, mayfly.NotFound) {
		return fmt.Errorf("read a burned paste: %w", err)
	}
	d.sayOf(p, "it burns: a GET shows nothing, one POST reads it, the next gets 404")
	return nil
}

// eraseOf waits until a paste that ended is erased.
func (d *demo) eraseOf(ctx context.Context, p *demoPaste, end mayfly.Instant) error {
	took, err := d.awaitErased(ctx, p.id, end)
	if err == nil {
		p.stored.Moving = false
		d.sayOf(p, "its bytes are erased %.1f s after its end", took.Seconds())
	}
	return err
}

// seePaste asks for a paste around its deadline, as its author and as anyone, until
// its bytes are erased. The verifier judges the answers.
func (d *demo) seePaste(ctx context.Context, p *demoPaste) error {
	w := &window{end: p.stored.Until}
	for left := w.end.Sub(d.host.now()); left > -lookAfter; left = w.end.Sub(d.host.now()) {
		for _, who := range []person{d.people.anonymous, d.people.ana} {
			e, err := d.ask(func() error {
				err := d.read(ctx, p, who.ask, false)
				if errors.Is(err, mayfly.NotFound) {
					d.count.Add(verify.Lost, "%s got 404 for %s, which ended at its deadline", who.name, p.id)
				}
				return err
			})
			if err != nil {
				return err
			}
			if !e.answered {
				continue
			}
			w.note(e)
			d.reads = append(d.reads, verify.Read{ID: p.id, Asked: e.sent, Answered: e.received, Served: e.served})
		}
		if err := loop.Rest(ctx, pauseBefore(w.end.Sub(d.host.now()))); err != nil {
			return err
		}
	}
	d.sayOf(p, "200 for a request at %s, 410 first at %s, for ana too", offset(w.lastServed.Load(), w.end), offset(w.firstRefused.Load(), w.end))
	return d.eraseOf(ctx, p, w.end)
}

// sayOf says what happened to a paste.
func (d *demo) sayOf(p *demoPaste, format string, args ...any) {
	d.say("%5.1f s  paste %d: %s", time.Since(d.began).Seconds(), p.n, fmt.Sprintf(format, args...))
}
