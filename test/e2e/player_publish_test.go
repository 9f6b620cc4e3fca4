package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"mime/multipart"
	"net/textproto"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// publishing makes r a multipart upload: the story, then its media.
func (p *player) publishing(r *request, l line) error {
	with := l.action.with
	seed := p.script.name + "/" + l.where
	if with.key != "" {
		seed = p.script.name + "/" + with.key // what is sent again is the same, media too
	}
	var media [][]byte
	for n := range max(1, with.media) {
		media = append(media, picture(seed, n))
	}
	story := wire.NewStory{Caption: captionOf(with), Audience: with.audience, Lifetime: p.lifetime(with.lifetime)}
	body, typ, err := multipartStory(story, media)
	r.body = body
	r.header.Set("Content-Type", typ)
	return err
}

func captionOf(with options) string {
	switch {
	case with.changed:
		return "another caption"
	case with.caption != "":
		return with.caption
	default:
		return with.name
	}
}

// multipartStory is a story with its media as a multipart form.
func multipartStory(story wire.NewStory, media [][]byte) (body []byte, typ string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="story"`}, "Content-Type": {"application/json"},
	})
	if err != nil {
		return nil, "", err
	}
	if err := json.NewEncoder(part).Encode(story); err != nil {
		return nil, "", err
	}
	for n, medium := range media {
		part, err := w.CreatePart(textproto.MIMEHeader{
			"Content-Disposition": {fmt.Sprintf(`form-data; name="media"; filename="%d.png"`, n)}, "Content-Type": {"image/png"},
		})
		if err != nil {
			return nil, "", err
		}
		if _, err := part.Write(medium); err != nil {
			return nil, "", err
		}
	}
	err = w.Close()
	return b.Bytes(), w.FormDataContentType(), err
}

// picture is a small picture that no other seed and number has.
func picture(seed string, n int) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint32([]byte(seed), uint32(n)))
	img := image.NewNRGBA(image.Rect(0, 0, 8, 4))
	for i, b := range sum {
		img.Set(i%8, i/8, color.NRGBA{R: b, G: ^b, B: byte(i), A: 255})
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic(err) // into memory
	}
	return out.Bytes()
}

// neverWasLike is an id that tells the same times as id and the same trace, and
// of which no row was ever written.
func neverWasLike(id mayfly.ID) mayfly.ID {
	id[14] ^= 0xa5 // random bits; the shard stays
	return id
}
