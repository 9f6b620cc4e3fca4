package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"net/url"
	"strconv"

	"github.com/mayflyhq/mayfly"
)

// Pass lets the holder of a URL ask for one object as a given viewer, for a limited
// time. The gate still judges the viewer at every request, so that a block or the
// deadline ends it at once (ST10, I4).
type Pass struct {
	ID        mayfly.ID
	Object    string // as the route names it: "0", "0-320"
	Viewer    mayfly.UserID
	Moderator bool
	Holder    string // of a moderator's pass: who may use it, see Principal.Holder; not part of the query
	Until     mayfly.Instant
}

// Eyes returns the viewer that the gate judges.
func (p Pass) Eyes() mayfly.Viewer {
	switch {
	case p.Moderator:
		return mayfly.ModeratorOf(p.Viewer)
	case p.Viewer.IsZero():
		return mayfly.Viewer{}
	default:
		return mayfly.ViewerOf(p.Viewer)
	}
}

// The parameters of a pass in a query.
const (
	passUntil     = "until"
	passViewer    = "viewer"
	passModerator = "moderator"
	passSignature = "sig"
)

// passBytes is the length of the truncated MAC: 128 bits cannot be guessed.
const passBytes = 16

// SignPass returns the URL query that carries the pass.
func (k *Key) SignPass(p Pass) (query string) {
	b := make([]byte, 0, 128)
	if p.Moderator {
		b = append(b, passModerator+"=1&"...)
	}
	b = base64.RawURLEncoding.AppendEncode(append(b, passSignature+"="...), k.passMAC(p))
	b = strconv.AppendInt(append(b, "&"+passUntil+"="...), int64(p.Until), 10)
	if !p.Viewer.IsZero() {
		b = append(append(b, "&"+passViewer+"="...), p.Viewer.String()...)
	}
	return string(b)
}

// CheckPass returns the pass that a query carries for an object of an item. A pass
// that is forged, changed, expired or for another object is Denied, always with the
// same text; the HTTP handler answers as if the object did not exist. A moderator's
// pass is good only with the token of the same moderator: it opens everything, and
// URLs end up in logs and chats.
func (k *Key) CheckPass(id mayfly.ID, object string, query url.Values, caller Principal, now mayfly.Instant) (Pass, error) {
	p, signature, ok := readPass(id, object, query)
	if p.Moderator {
		p.Holder = caller.Holder()
		ok = ok && caller.Viewer().Moderator()
	}
	if !ok || !hmac.Equal(signature, k.passMAC(p)) || now >= p.Until {
		return Pass{}, mayfly.Errorf(mayfly.Denied, "the media URL is invalid or expired").WithHint("open the story again to get new URLs")
	}
	return p, nil
}

func readPass(id mayfly.ID, object string, query url.Values) (p Pass, signature []byte, ok bool) {
	for _, name := range []string{passUntil, passViewer, passModerator, passSignature} {
		if len(query[name]) > 1 {
			return Pass{}, nil, false
		}
	}
	p = Pass{ID: id, Object: object}
	until, err := strconv.ParseInt(query.Get(passUntil), 10, 64)
	if err != nil {
		return Pass{}, nil, false
	}
	p.Until = mayfly.Instant(until)
	if query.Has(passViewer) {
		if p.Viewer, err = mayfly.ParseUserID(query.Get(passViewer)); err != nil {
			return Pass{}, nil, false
		}
	}
	if query.Has(passModerator) {
		if p.Moderator = query.Get(passModerator) == "1"; !p.Moderator {
			return Pass{}, nil, false
		}
	}
	signature, err = base64.RawURLEncoding.Strict().DecodeString(query.Get(passSignature))
	return p, signature, err == nil
}

// passMAC covers every field of the pass. The object is last, because it is the only
// one of variable length.
func (k *Key) passMAC(p Pass) []byte {
	b := append([]byte{1}, p.ID[:]...)
	b = append(b, p.Viewer[:]...)
	if p.Moderator {
		holder := sha256.Sum256([]byte(p.Holder))
		b = append(append(b, 1), holder[:]...)
	} else {
		b = append(b, 0)
	}
	b = binary.BigEndian.AppendUint64(b, uint64(p.Until))
	b = append(b, p.Object...)
	mac := k.passes.Get().(hash.Hash)
	defer k.passes.Put(mac)
	mac.Reset()
	mac.Write(b)
	return mac.Sum(nil)[:passBytes]
}
