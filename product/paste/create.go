package paste

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/upload"
)

// Draft is a paste to be created. The zero value of a field is its default.
type Draft struct {
	Author   mayfly.UserID // zero: anonymous
	Content  io.Reader     // stored byte for byte
	Title    string
	Language string // for highlighting; the caller knows which there are
	Lifetime string
	Password string
	Reads    int  // how often it can be read; 0: as often as one likes
	Private  bool // only its author may read it
	Key      string

	// Rest is called when the content was read, and completes the draft with what
	// followed the content. May be nil.
	Rest func(*Draft) error
}

// maxTitle is how many characters a title may have, and maxLanguage how many bytes a
// language.
const (
	maxTitle    = 200
	maxLanguage = 32
)

// check returns the lifetime of the draft, and the draft with its title cleaned.
// Errors: Invalid, Unauthenticated.
func (o Options) check(d Draft) (Draft, mayfly.Lifetime, error) {
	bad := func(hint, format string, args ...any) error {
		return mayfly.Errorf(mayfly.Invalid, format, args...).WithHint(hint)
	}
	switch {
	case d.Author.IsZero() && !o.Anonymous:
		return d, 0, mayfly.Errorf(mayfly.Unauthenticated, "pastes need a user here")
	case d.Author.IsZero() && d.Private:
		return d, 0, bad("send a token, or leave private out", "a private paste belongs to a user")
	case d.Author.IsZero() && d.Key != "":
		return d, 0, bad("send a token, or leave the key out", "an idempotency key belongs to a user")
	case d.Reads < 0 || d.Reads > MaxReads:
		return d, 0, bad(fmt.Sprintf("send a number from 1 to %d, or none", MaxReads), "reads is %d", d.Reads)
	case len(d.Password) > maxPassword:
		return d, 0, bad("choose a shorter one", "the password has %d bytes, at most %d", len(d.Password), maxPassword)
	case len(d.Language) > maxLanguage:
		return d, 0, bad("choose one of the list on the start page", "there is no language %.40q", d.Language)
	}
	var err error
	if d.Title, err = cleanTitle(d.Title); err != nil {
		return d, 0, err
	}
	lifetime, err := o.lifetimeOf(d.Lifetime)
	return d, lifetime, err
}

// cleanTitle returns a title without control characters and those that change the
// direction of the text around it. Errors: Invalid.
func cleanTitle(title string) (string, error) {
	if !utf8.ValidString(title) {
		return "", mayfly.Errorf(mayfly.Invalid, "the title is not UTF-8 text").WithHint("send plain text")
	}
	title = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return -1
		}
		return r
	}, title))
	if n := utf8.RuneCountInString(title); n > maxTitle {
		return "", mayfly.Errorf(mayfly.Invalid, "the title has %d characters, at most %d", n, maxTitle).WithHint("make it shorter")
	}
	return title, nil
}

// lifetimeOf reads a lifetime, rounds it up to what an id can express (L2), and
// checks that the operator allows it. Errors: Invalid.
func (o Options) lifetimeOf(text string) (mayfly.Lifetime, error) {
	if text == "" {
		return o.Default, nil
	}
	l, err := mayfly.ParseLifetime(text)
	if err != nil {
		return 0, err
	}
	hint := fmt.Sprintf("choose one from %s to %s", o.Shortest, o.Longest)
	if o.Never {
		hint += ", or never"
	}
	switch {
	case l == mayfly.Never && !o.Never:
		return 0, mayfly.Errorf(mayfly.Invalid, "pastes expire here").WithHint(hint)
	case l == mayfly.Never:
	case l.Duration() < o.Shortest.Duration(), l.Duration() > o.Longest.Duration():
		return 0, mayfly.Errorf(mayfly.Invalid, "a paste cannot have the lifetime %s here", l).WithHint(hint)
	}
	return l, nil
}

// Create stores the content and makes a paste of it. now reads the node's clock:
// content may take a while to come, and the paste is born when it has. A repeated
// idempotency key returns the same paste with Again.
//
// Errors: Invalid, TooLarge, Unauthenticated, Denied, Conflict (the key was used for
// another paste), Gone, Full, Unavailable, and what reading the content returned.
func (p *Pastes) Create(ctx context.Context, d Draft, now func() mayfly.Instant) (Paste, error) {
	d, lifetime, err := p.o.check(d)
	if err != nil {
		return Paste{}, fmt.Errorf("create paste: %w", err)
	}
	admission, err := p.o.Intake.Admit(ctx, d.Author) // before anything is read
	if err != nil {
		return Paste{}, fmt.Errorf("create paste: %w", err)
	}
	u, err := p.receive(ctx, d, now())
	if err != nil {
		return Paste{}, fmt.Errorf("create paste: %w", err)
	}
	if d.Rest != nil {
		if err = d.Rest(&d); err == nil {
			d, lifetime, err = p.o.check(d)
		}
	}
	var paste Paste
	if err == nil {
		paste, err = p.birth(ctx, d, lifetime, u, admission, now)
	}
	if err != nil {
		return Paste{}, fmt.Errorf("create paste: %w", errors.Join(err, u.Drop(ctx))) // an assigned upload stays: the row may land (L4)
	}
	return paste, nil
}

// receive stores the content. After an error nothing is left of it.
func (p *Pastes) receive(ctx context.Context, d Draft, now mayfly.Instant) (*upload.Upload, error) {
	in := bufio.NewReader(&limited{r: d.Content, left: p.o.MaxSize, most: p.o.MaxSize})
	switch _, err := in.Peek(1); {
	case err == io.EOF: // not wrapped: a wrapped EOF is a content without its end
		return nil, mayfly.Errorf(mayfly.Invalid, "the paste is empty").WithHint("send some bytes, such as: curl --data-binary @file")
	case err != nil: // the next read may not return it again
		return nil, err
	}
	u, err := p.o.Uploads.Begin(d.Author, now)
	if err != nil {
		return nil, err
	}
	if _, err := u.Add(ctx, in); err != nil {
		return nil, errors.Join(err, u.Drop(ctx))
	}
	return u, nil
}

func (p *Pastes) birth(ctx context.Context, d Draft, lifetime mayfly.Lifetime, u *upload.Upload, admission intake.Admission, now func() mayfly.Instant) (Paste, error) {
	password, err := p.newPassword(ctx, d)
	if err != nil {
		return Paste{}, err
	}
	draft := intake.Draft{
		Owner: d.Author, Product: mayfly.Paste, Fate: mayfly.Purge, Audience: mayfly.Everyone, Lifetime: lifetime,
		Text: d.Title, Data: settings{reads: d.Reads, language: d.Language, password: password}.bytes(), Upload: u, Key: d.Key, Admission: admission,
	}
	if d.Private {
		draft.Audience = mayfly.OnlyAuthor
	}
	born, err := p.o.Intake.Publish(ctx, draft, now())
	if err != nil {
		return Paste{}, err
	}
	paste := Paste{
		Item: born.Item, Title: d.Title, Language: d.Language, Content: u.Media()[0], Reads: d.Reads, Left: d.Reads,
		Locked: d.Password != "", password: password, body: born.Body, Again: born.Again,
	}
	if born.Again { // it may have been read, deleted or expired since
		at := now()
		if paste, err = p.open(ctx, born.Item.ID, mayfly.ViewerOf(d.Author), at); err != nil {
			return Paste{}, err
		}
		paste.Again = true
	}
	return paste, nil
}

// limited reads at most left bytes and refuses more.
type limited struct {
	r          io.Reader
	left, most int64
}

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, mayfly.Errorf(mayfly.TooLarge, "the paste has more than %d bytes", l.most).WithHint("send less")
	}
	return n, err
}
