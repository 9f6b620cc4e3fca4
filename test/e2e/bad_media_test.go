package e2e

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/api/wire"
)

// badMedia are bombs, files that are something else than they say, and broken
// ones, by each way in.
func (h *badServer) badMedia() []badCase {
	var all []badCase
	add := func(name, typ, file string, want badWant) {
		form := badForm{{"story", `{}`}, {"media", file}}
		all = append(all,
			badCase{"raw/" + name, badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: typ, body: file}, want},
			badCase{"form/" + name, badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: form.typ(), body: form.text()}, want},
			badCase{"put/" + name, badAsk{as: "ana", method: http.MethodPut, target: "/v1/uploads/" + h.reserves("ana", max(1, len(file))) + "/0", typ: typ, body: file}, want},
		)
	}
	pixels := badTooLarge("pixels")

	sof := func(width, height int) string { // a JPEG of another size than it has
		plain := badJPEG(40, 30)
		at := strings.Index(plain, "\xff\xc0")
		return plain[:at+5] + badU16(height) + badU16(width) + plain[at+9:]
	}
	gifOf := func(width, height int, frame string) string {
		l16 := func(n int) string { return badL32(n)[:2] }
		return "GIF89a" + l16(width) + l16(height) + "\x80\x00\x00\x00\x00\x00\xff\xff\xff" + frame + "\x02\x02\x44\x01\x00;"
	}
	const whole = ",\x00\x00\x00\x00\x01\x00\x01\x00\x00"
	add("bomb/PNG of 60,000 × 60,000", "image/png", badPNG(60_000, 60_000), pixels)
	add("bomb/PNG of all that a PNG can say", "image/png", badPNG(1<<31-1, 1<<31-1), pixels)
	add("bomb/PNG beyond that", "image/png", badPNG(0xffffffff, 0xffffffff), badWant{413, "too_large", ""})
	add("bomb/PNG of one line", "image/png", badPNG(1<<31-1, 1), pixels)
	add("bomb/JPEG of 65,500 × 65,500", "image/jpeg", sof(65_500, 65_500), pixels)
	add("bomb/GIF of 65,535 × 65,535", "image/gif", gifOf(65_535, 65_535, whole), pixels)
	add("bomb/GIF with a frame of 65,535 × 65,535", "image/gif", gifOf(10, 10, ",\x00\x00\x00\x00\xff\xff\xff\xff\x00"), badInvalid("outside"))
	add("bomb/WebP of 16,777,216 × 16,777,216", "image/webp", badWebP(badVP8X(0, 1<<24, 1<<24), badVP8L(24, 16)), pixels)
	add("bomb/WebP lossless of 16,384 × 16,384", "image/webp", badWebP(badVP8L(1<<14, 1<<14)), pixels)
	add("bomb/WebP lossy of 16,383 × 16,383", "image/webp", badWebP(badRIFF("VP8 ", "\x30\x01\x00\x9d\x01\x2a\xff\x3f\xff\x3f"+strings.Repeat("\x00", 40))), pixels)
	add("no pixels/PNG", "image/png", badPNG(0, 0), badInvalid("broken"))
	add("no pixels/GIF", "image/gif", gifOf(0, 0, whole), badInvalid("broken"))
	add("no pixels/JPEG", "image/jpeg", sof(0, 0), badInvalid("broken"))

	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	for range 256 { // 256 MiB in 256 KiB
		_, _ = w.Write(make([]byte, 1<<20)) // into memory
	}
	_ = w.Close()
	profile := badPNGHead + badChunk("IHDR", badU32(10)+badU32(10)+"\x08\x06\x00\x00\x00") + badChunk("iCCP", "p\x00\x00"+packed.String())
	add("bomb/a colour profile of 256 MiB, and no picture", "image/png", profile, badInvalid("broken"))

	for name, file := range map[string]string{
		"HTML": "<!DOCTYPE html><html><script>alert(1)</script></html>", "SVG": `<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>`,
		"SVG behind XML": `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`, "JavaScript": "alert(1)", "text": "just text", "JSON": "{}",
		"PDF with a JPEG in it": "%PDF-1.7\n" + badJPEG(10, 10), "ZIP": "PK\x03\x04\x14\x00\x00\x00", "gzip": "\x1f\x8b\x08\x00\x00\x00", "a program": "\x7fELF\x02\x01\x01", "a Windows program": "MZ\x90\x00",
		"TIFF": "II*\x00\x08\x00\x00\x00", "BMP": "BM\x36\x00\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00", "icon": "\x00\x00\x01\x00\x01\x00", "JPEG XL": "\xff\x0a\x00\x00", "MP3": "ID3\x04\x00\x00",
		"Matroska": "\x1a\x45\xdf\xa3\x93\x42\x82\x88matroska\x42\x87\x81\x01", "AVI": "RIFF\x00\x00\x00\x00AVI LIST", "WAV": "RIFF\x00\x00\x00\x00WAVEfmt ",
		"a JPEG behind a space": " " + badJPEG(10, 10), "a NUL": "\x00", "a GIF that is none": "GIF88a", "half a signature": "\x89PNG",
	} {
		add("not taken/"+name, "image/jpeg", file, badUnsupported("is not taken"))
	}
	add("not taken/HEIC", "image/jpeg", badBox("ftyp", "heic\x00\x00\x00\x00mif1heic")+badBox("meta", ""), badUnsupported("JPEG"))
	add("not taken/HEIC that says so", "image/heic", badBox("ftyp", "heic\x00\x00\x00\x00mif1heic")+badBox("meta", ""), badUnsupported("JPEG"))
	add("not taken/AVIF", "image/avif", badBox("ftyp", "avif\x00\x00\x00\x00avifmif1")+badBox("meta", ""), badUnsupported("JPEG"))
	add("cut off/QuickTime", "video/quicktime", badBox("ftyp", "qt  \x00\x00\x00\x00qt  ")+badBox("wide", ""), badInvalid("broken"))

	for name, file := range map[string]string{"JPEG": placedJPEG(), "PNG": placedPNG(), "GIF": placedGIF(), "WebP": placedWebP(), "MP4": placedMP4(), "WebM": placedWebM()} {
		typ := map[string]string{"JPEG": "image/jpeg", "PNG": "image/png", "GIF": "image/gif", "WebP": "image/webp", "MP4": "video/mp4", "WebM": "video/webm"}[name]
		add("cut off/"+name+" after 20 bytes", typ, file[:20], badInvalid("broken"))
		add("cut off/"+name+" in the middle", typ, file[:len(file)/2], badInvalid("broken"))
	}
	add("broken/JPEG without a picture", "image/jpeg", "\xff\xd8\xff\xd9", badInvalid("broken"))
	add("broken/PNG with a wrong checksum", "image/png", strings.Replace(badPNG(10, 10), "\x08\x06\x00\x00\x00", "\x08\x06\x00\x00\x01", 1), badInvalid("broken"))
	add("broken/PNG with a chunk of 2 GiB", "image/png", badPNG(10, 10)[:33]+"\x7f\xff\xff\xffIDAT", badTooLarge("larger"))
	add("broken/MP4 with a box within itself", "video/mp4", badBox("ftyp", "isom\x00\x00\x02\x00isommp41")+strings.Repeat("\x00\x00\x00\x08moov", 3)+"\x00\x00\x00\x04moov", badInvalid("broken"))
	add("broken/MP4 with a box beyond numbers", "video/mp4", badBox("ftyp", "isom\x00\x00\x02\x00isommp41")+"\x00\x00\x00\x01mdat\xff\xff\xff\xff\xff\xff\xff\xff", badInvalid("beyond all bounds"))
	add("broken/WebP that lies about its length", "image/webp", "RIFF\xff\xff\xff\x7fWEBP"+badVP8L(24, 16), badWant{413, "too_large", ""})
	return all
}

// badForms are forms that are not whole, not in order, or without measure.
func (h *badServer) badForms() []badCase {
	photo := string(picture("forms", 1))
	whole := badForm{{"story", `{}`}, {"media", photo}}
	var all []badCase
	add := func(name string, a badAsk, want badWant) {
		a.as, a.method, a.target = "ana", http.MethodPost, "/v1/stories"
		if a.typ == "" {
			a.typ = whole.typ()
		}
		all = append(all, badCase{name, a, want})
	}
	form := func(name string, f badForm, want badWant) { add(name, badAsk{body: f.text()}, want) }
	medium := func(n int) badForm {
		f := badForm{{"story", `{}`}}
		for range n {
			f = append(f, [2]string{"media", photo})
		}
		return f
	}

	add("nothing", badAsk{}, badInvalid(""))
	add("without its end", badAsk{body: whole.open()}, badInvalid("form"))
	add("half of the end", badAsk{body: whole.open() + "--" + badBoundary}, badInvalid("form"))
	add("cut in the medium", badAsk{body: whole.text()[:len(whole.text())-len(photo)/2]}, badInvalid("form"))
	add("cut in a header", badAsk{body: whole.text()[:40]}, badInvalid("form"))
	add("an end and nothing else", badAsk{body: "--" + badBoundary + "--\r\n"}, badInvalid("media"))
	add("another boundary", badAsk{body: strings.ReplaceAll(whole.text(), badBoundary, "another")}, badInvalid("form"))
	add("no boundary", badAsk{typ: "multipart/form-data", body: whole.text()}, badInvalid("boundary"))
	add("an empty boundary", badAsk{typ: `multipart/form-data; boundary=""`, body: whole.text()}, badInvalid("boundary"))
	add("a boundary of 1,000", badAsk{typ: "multipart/form-data; boundary=" + strings.Repeat("b", 1000), body: whole.text()}, badInvalid("boundary"))
	add("two boundaries", badAsk{typ: "multipart/form-data; boundary=a; boundary=b", body: whole.text()}, badUnsupported(""))
	add("multipart/mixed", badAsk{typ: "multipart/mixed; boundary=" + badBoundary, body: whole.text()}, badUnsupported("multipart/form-data"))
	add("a form in a form", badAsk{body: badForm{{"media", strings.ReplaceAll(whole.text(), badBoundary, "inner")}}.text()}, badUnsupported("not taken"))
	form("without media", badForm{{"story", `{}`}}, badInvalid("a story needs media"))
	form("the story behind the media", badForm{{"media", photo}, {"story", `{}`}}, badInvalid("story first"))
	form("two stories", badForm{{"story", `{}`}, {"story", `{}`}, {"media", photo}}, badInvalid("story first"))
	form("an unknown part", badForm{{"story", `{}`}, {"file", photo}}, badInvalid("file"))
	form("an unknown part first", badForm{{"caption", "x"}, {"media", photo}}, badInvalid("caption"))
	form("a part without a name", badForm{{"", photo}}, badInvalid("part"))
	form("a name of 10,000", badForm{{strings.Repeat("n", 10_000), photo}}, badInvalid("part"))
	form("an empty medium", badForm{{"story", `{}`}, {"media", ""}}, badInvalid("empty"))
	form("an empty medium behind a good one", badForm{{"story", `{}`}, {"media", photo}, {"media", ""}}, badInvalid("empty"))
	form("eleven media", medium(11), badInvalid("over 10"))
	form("three thousand media", medium(3_000), badInvalid("over 10"))
	form("a story of a megabyte", badForm{{"story", `{"caption":"` + strings.Repeat("x", 1<<20) + `"}`}, {"media", photo}}, badTooLarge("besides its media"))
	form("a broken medium behind nine good ones", append(medium(9), [2]string{"media", photo[:len(photo)/2]}), badInvalid("broken"))
	form("a text behind a good medium", append(medium(1), [2]string{"media", "just text"}), badUnsupported("text/plain"))

	part := "--" + badBoundary + "\r\nContent-Disposition: form-data; name=\"media\"\r\n"
	add("an endless header", badAsk{length: "4194304", stream: io.MultiReader(strings.NewReader(part+"X-A: "), repeated("x", 4<<20))}, badTooLarge("header of a part"))
	add("endless headers", badAsk{length: "4194304", stream: io.MultiReader(strings.NewReader(part), repeated("X-A: x\r\n", 4<<20))}, badTooLarge("header of a part"))
	add("an endless beginning", badAsk{length: "4194304", stream: repeated("this is no part\r\n", 4<<20)}, badTooLarge("header of a part"))
	add("many thousand empty parts", badAsk{length: "8388608", stream: repeated("--"+badBoundary+"\r\nContent-Disposition: form-data; name=\"media\"\r\n\r\n\r\n", 8<<20)}, badInvalid("empty"))
	add("many thousand parts of another name", badAsk{length: "8388608", stream: repeated("--"+badBoundary+"\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n\r\n", 8<<20)}, badInvalid("part"))
	add("a header without a colon", badAsk{body: "--" + badBoundary + "\r\nnonsense\r\n\r\n" + photo + "\r\n--" + badBoundary + "--\r\n"}, badInvalid("form"))
	add("a medium that never ends", badAsk{length: "1073741824", stream: io.MultiReader(strings.NewReader(part+"\r\n"+photo[:40]), repeated("x", 1<<30))}, badTooLarge(""))
	return all
}

// badLengths are bodies that are longer or shorter than they say, or than is allowed.
func (h *badServer) badLengths() []badCase {
	photo := string(picture("lengths", 1))
	const image, video = 21 << 20, 65 << 20
	upload := h.reserves("ana", len(photo), image, image, image)
	whole := badForm{{"story", `{}`}, {"media", photo}}
	var all []badCase
	ways := []struct {
		name string
		ask  badAsk
	}{
		{"raw", badAsk{method: http.MethodPost, target: "/v1/stories", typ: "image/png", body: photo}},
		{"form", badAsk{method: http.MethodPost, target: "/v1/stories", typ: whole.typ(), body: whole.text()}},
		{"put", badAsk{method: http.MethodPut, target: "/v1/uploads/" + upload + "/0", typ: "image/png", body: photo}},
	}
	for _, w := range ways {
		add := func(name string, want badWant, change func(a *badAsk)) {
			a := w.ask
			a.as = "ana"
			change(&a)
			all = append(all, badCase{w.name + "/" + name, a, want})
		}
		longer, shorter := fmt.Sprint(len(w.ask.body)+1000), fmt.Sprint(len(w.ask.body)/2)
		add("longer than it is, and the end", badInvalid(""), func(a *badAsk) { a.length, a.ends = longer, true })
		add("longer than it is, and silence", badInvalid("slowly"), func(a *badAsk) { a.length = longer })
		add("shorter than it is", badInvalid(""), func(a *badAsk) { a.length = shorter })
		add("none", badInvalid(""), func(a *badAsk) { a.length = "0" })
		add("negative", badLayer(400), func(a *badAsk) { a.length = "-1" })
		add("plus", badLayer(400), func(a *badAsk) { a.length = "+5" })
		add("a word", badLayer(400), func(a *badAsk) { a.length = "many" })
		add("beyond numbers", badLayer(400), func(a *badAsk) { a.length = "99999999999999999999" })
		add("two that differ", badLayer(400), func(a *badAsk) { a.header = []string{"Content-Length: 1"} })
		add("a list", badLayer(400), func(a *badAsk) { a.length = longer + ", " + longer })
		add("all that there is", badTooLarge("bytes"), func(a *badAsk) { a.length = "9223372036854775807" })
		add("a length and chunks", badInvalid(""), func(a *badAsk) { a.header = []string{"Transfer-Encoding: chunked"} })
		add("chunks that break off", badInvalid(""), func(a *badAsk) {
			a.header, a.length, a.ends = []string{"Transfer-Encoding: chunked"}, "", true
			a.raw = h.head(badAsk{as: "ana", method: a.method, target: a.target, typ: a.typ, chunked: true}) + "40\r\n" + a.body[:32]
		})
		add("a chunk of a size that is none", badInvalid(""), func(a *badAsk) {
			a.raw = h.head(badAsk{as: "ana", method: a.method, target: a.target, typ: a.typ, chunked: true}) + "zz\r\n" + a.body
		})
		add("a chunk larger than all", badInvalid(""), func(a *badAsk) {
			a.ends = true
			a.raw = h.head(badAsk{as: "ana", method: a.method, target: a.target, typ: a.typ, chunked: true}) + "ffffffffffffffffff\r\n" + a.body
		})
		add("chunks within chunks", badWant{501, badNoRequest, ""}, func(a *badAsk) {
			a.raw = strings.Replace(h.head(badAsk{as: "ana", method: a.method, target: a.target, typ: a.typ, chunked: true}), "chunked", "gzip, chunked", 1)
		})
		add("a coding", badUnsupported("Content-Encoding"), func(a *badAsk) { a.header = []string{"Content-Encoding: gzip"} })
	}
	add := func(name string, a badAsk, want badWant) {
		a.as = "ana"
		all = append(all, badCase{name, a, want})
	}
	jpeg := func() io.Reader {
		return io.MultiReader(strings.NewReader(badJPEGStart(64, 48)), repeated("\x01\x02\x03\x04", image))
	}
	add("raw/an image that is too large", badAsk{method: http.MethodPost, target: "/v1/stories", typ: "image/jpeg", length: fmt.Sprint(image), stream: jpeg()}, badTooLarge("larger than"))
	add("put/an image that is too large", badAsk{method: http.MethodPut, target: "/v1/uploads/" + upload + "/1", typ: "image/jpeg", length: fmt.Sprint(image), stream: jpeg()}, badTooLarge("larger than"))
	add("form/an image that is too large", badAsk{method: http.MethodPost, target: "/v1/stories", typ: whole.typ(), length: fmt.Sprint(image + 4096), stream: io.MultiReader(strings.NewReader("--"+badBoundary+"\r\nContent-Disposition: form-data; name=\"media\"\r\n\r\n"), jpeg(), repeated("x", 8192))}, badTooLarge("larger than"))
	add("raw/a video that is too large", badAsk{method: http.MethodPost, target: "/v1/stories", typ: "video/mp4", length: fmt.Sprint(video), stream: io.MultiReader(strings.NewReader(badBox("ftyp", "isom\x00\x00\x02\x00isommp41")+"\x7f\xff\xff\xffmdat"), repeated("x", video))}, badTooLarge("larger than"))
	add("put/more than anything may have", badAsk{method: http.MethodPut, target: "/v1/uploads/" + upload + "/2", typ: "video/mp4", length: fmt.Sprint(1 << 40), stream: repeated("x", 1<<20)}, badTooLarge("bytes"))
	add("put/too large, in chunks", badAsk{method: http.MethodPut, target: "/v1/uploads/" + upload + "/3", typ: "image/jpeg", header: []string{"Transfer-Encoding: chunked"}, length: unsaid, stream: io.MultiReader(strings.NewReader(fmt.Sprintf("%x\r\n", image)), jpeg())}, badTooLarge("larger than"))
	return all
}

// reserves is an upload of media of these lengths.
func (h *badServer) reserves(as string, lengths ...int) string {
	h.Helper()
	var media []string
	for _, length := range lengths {
		media = append(media, fmt.Sprintf(`{"length":%d}`, length))
	}
	a := h.send(badAsk{as: as, method: http.MethodPost, target: "/v1/uploads", typ: "application/json", body: `{"media":[` + strings.Join(media, ",") + `]}`})
	return badRead[struct{ ID string }](h.T, a, http.StatusCreated).ID
}

// C4: where a picture was taken does not come out of any way in, nor does
// whatever was hidden behind it: not to viewers, not into smaller pictures, not
// into a copy, not onto the disk.
func TestPlacesDoNotComeThroughAnyWayIn(t *testing.T) {
	cfg := badConfig(t)
	h := openBadServer(t, cfg)
	files := []struct{ name, typ, file string }{
		{"JPEG", "image/jpeg", placedJPEG()},
		{"PNG", "image/png", placedPNG()},
		{"GIF", "image/gif", placedGIF()},
		{"WebP", "image/webp", placedWebP()},
		{"MP4", "video/mp4", placedMP4()},
		{"QuickTime", "video/quicktime", strings.Replace(placedMP4(), "ftypisom", "ftypqt  ", 1)},
		{"WebM", "video/webm", placedWebM()},
		{"JPEG with a megabyte of ZIP behind it", "image/jpeg", placedJPEG() + strings.Repeat("PK\x03\x04"+badPlace, 1<<20/(4+len(badPlace)))},
		{"GIF that is JavaScript", "image/gif", strings.Replace(placedGIF(), "\x21\xfe", "\x21\xfe\x17=1;/*"+badPlace[:18]+"\x00\x21\xfe", 1) + "*/=1;alert('" + badPlace + "')"},
		{"PNG with a page behind it", "image/png", placedPNG() + "<html><script>alert('" + badPlace + "')</script>"},
	}
	looked := 0
	for _, f := range files {
		if !strings.Contains(f.file, badPlace) || !strings.HasPrefix(f.typ, "video/") && !strings.Contains(f.file, badDegs) {
			t.Fatalf("%s: there is no place in it", f.name)
		}
		for _, way := range h.waysIn() {
			t.Run(f.name+"/"+way.name, func(t *testing.T) {
				within := h.in(t)
				looked += within.looks(way.publish(within, f.typ, f.file), strings.Replace(f.typ, "quicktime", "mp4", 1)) // as which it is stored
			})
		}
	}
	for object := range h.everything() {
		if where := placeIn(object.bytes); where != "" {
			t.Errorf("%s holds a place: %s", object.key, where)
		}
		looked++
	}
	files2 := h.grepFolder()
	t.Logf("%d kinds of file by %d ways in: %d objects and %d files of the data folder looked through, none has a place in it", len(files), len(h.waysIn()), looked, files2)
}

// badWay is a way in for one medium.
type badWay struct {
	name    string
	publish func(h *badServer, typ, file string) wire.Story
}

func (h *badServer) waysIn() []badWay {
	multipart := func(h *badServer, _, file string) wire.Story {
		form := badForm{{"story", `{"audience":"everyone"}`}, {"media", file}, {"media", file}}
		return badRead[wire.Story](h.T, h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: form.typ(), body: form.text()}), http.StatusCreated)
	}
	return []badWay{
		{"form", multipart},
		{"raw", func(h *badServer, typ, file string) wire.Story {
			return badRead[wire.Story](h.T, h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories?audience=everyone", typ: typ, body: file}), http.StatusCreated)
		}},
		{"raw of no type", func(h *badServer, _, file string) wire.Story {
			return badRead[wire.Story](h.T, h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories?audience=everyone", typ: "application/octet-stream", body: file, chunked: true}), http.StatusCreated)
		}},
		{"reserve and put", func(h *badServer, typ, file string) wire.Story {
			upload := h.reserves("ana", len(file))
			put := h.send(badAsk{as: "ana", method: http.MethodPut, target: "/v1/uploads/" + upload + "/0", typ: typ, body: file})
			badRead[wire.Uploaded](h.T, put, http.StatusCreated)
			return badRead[wire.Story](h.T, h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: "application/json", body: `{"audience":"everyone","upload":"` + upload + `"}`}), http.StatusCreated)
		}},
		{"reshare", func(h *badServer, typ, file string) wire.Story {
			first := multipart(h, typ, file)
			return badRead[wire.Story](h.T, h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories/" + first.ID.String() + "/reshare"}), http.StatusCreated)
		}},
	}
}

// looks loads every object of a story, and says how many there were.
func (h *badServer) looks(s wire.Story, typ string) (looked int) {
	h.Helper()
	load := func(url string) {
		h.Helper()
		a := h.send(badAsk{method: http.MethodGet, target: url})
		if a.status != http.StatusOK || len(a.body) == 0 {
			h.Fatalf("%s: %d %s", url, a.status, excerpt(a.body))
		}
		if where := placeIn(a.body); where != "" {
			h.Errorf("%s: a place came through: %s", url, where)
		}
		looked++
	}
	for _, m := range s.Media {
		if m.Type != typ || strings.HasPrefix(typ, "image/") != (len(m.Renditions) == 2) {
			h.Errorf("it became %s with %d smaller pictures", m.Type, len(m.Renditions))
		}
		load(m.URL)
		for _, r := range m.Renditions {
			load(r.URL)
		}
	}
	return looked
}

// placeIn says what of a place is in some bytes.
func placeIn(b []byte) string {
	for what, secret := range map[string]string{"its text": badPlace[6:14], "its degrees": badDegs, "a position in EXIF": "\x25\x88\x04\x00", "XMP": "xmpmeta", "a script": "alert(", "a ZIP": "PK\x03\x04"} {
		if bytes.Contains(b, []byte(secret)) {
			return what
		}
	}
	return ""
}
