package media

import (
	"bytes"
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"github.com/mayflyhq/mayfly"
)

// The types that are taken (ST3).
const (
	JPEG = "image/jpeg"
	PNG  = "image/png"
	GIF  = "image/gif"
	WebP = "image/webp"
	MP4  = "video/mp4"
	WebM = "video/webm"
)

// Types lists what is taken.
func Types() []string { return []string{JPEG, PNG, GIF, WebP, MP4, WebM} }

// HasPicture says whether Shrink makes smaller pictures of that type.
func HasPicture(typ string) bool {
	switch typ {
	case JPEG, PNG, GIF, WebP:
		return true
	default:
		return false
	}
}

func isVideo(typ string) bool { return typ == MP4 || typ == WebM }

// sniffLength is enough to tell what is not taken by its name.
const sniffLength = 3072

// tell says what the first bytes are of. What a file calls itself counts for
// nothing, and neither does anything before its first byte.
func tell(head []byte) (typ string, first step, err error) {
	switch {
	case len(head) == 0:
		return "", nil, mayfly.Errorf(mayfly.Invalid, "the medium is empty").WithHint("send the bytes of the medium")
	case bytes.HasPrefix(head, []byte("\xff\xd8\xff")):
		return JPEG, jpegStart, nil
	case bytes.HasPrefix(head, []byte(pngSignature)):
		return PNG, pngStart, nil
	case bytes.HasPrefix(head, []byte("GIF87a")), bytes.HasPrefix(head, []byte("GIF89a")):
		return GIF, gifStart, nil
	case len(head) >= 12 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return WebP, webpStart, nil
	case len(head) >= 12 && string(head[4:8]) == "ftyp" && mp4Brand(string(head[8:12])):
		return MP4, mp4Start, nil
	case bytes.HasPrefix(head, []byte("\x1a\x45\xdf\xa3")) && !bytes.Contains(head[:min(len(head), 128)], []byte("matroska")):
		return WebM, webmStart, nil
	}
	return "", nil, refuse(head)
}

func refuse(head []byte) error {
	name, _, _ := strings.Cut(mimetype.Detect(head).String(), ";")
	hint := "send " + strings.Join(Types(), ", ")
	switch {
	case strings.HasPrefix(name, "image/hei"):
		hint = "save it as JPEG: a phone's camera does so when it is set to the most compatible format"
	case name == "image/avif":
		hint = "save it as JPEG, PNG or WebP"
	case name == "video/quicktime":
		hint = "save it as MP4"
	}
	return mayfly.Errorf(mayfly.Unsupported, "%s is not taken", name).WithHint(hint)
}
