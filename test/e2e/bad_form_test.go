package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

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
	upload := h.reserves("ana", 10)
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
	const image, video = 21 << 20, 65 << 20
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

// reserves is an upload of so many media.
func (h *badServer) reserves(as string, media int) string {
	h.Helper()
	a := h.send(badAsk{as: as, method: http.MethodPost, target: "/v1/uploads", typ: "application/json", body: fmt.Sprintf(`{"media":%d}`, media)})
	return badRead[struct{ ID string }](h.T, a, http.StatusCreated).ID
}
