package e2e

import (
	"bytes"
	"compress/zlib"
	"net/http"
	"strconv"
	"strings"
)

// badMedia are bombs, files that are something else than they say, and broken
// ones, by each way in.
func (h *badServer) badMedia() []badCase {
	upload := h.reserves("ana", 10)
	var all []badCase
	n := 0
	add := func(name, typ, file string, want badWant) {
		form := badForm{{"story", `{}`}, {"media", file}}
		n++
		all = append(all,
			badCase{"raw/" + name, badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: typ, body: file}, want},
			badCase{"form/" + name, badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: form.typ(), body: form.text()}, want},
			badCase{"put/" + name, badAsk{as: "ana", method: http.MethodPut, target: "/v1/uploads/" + upload + "/" + strconv.Itoa(n%10), typ: typ, body: file}, want},
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
	add("not taken/QuickTime", "video/mp4", badBox("ftyp", "qt  \x00\x00\x00\x00qt  ")+badBox("wide", ""), badUnsupported("MP4"))

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
