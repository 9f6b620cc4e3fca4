package e2e

import (
	"net/http"
	"strings"
)

// badRanges are ranges and conditions that make no sense. What is no range is
// answered with the whole, as RFC 9110 has it; what lies outside with 416.
func (h *badServer) badRanges() []badCase {
	media := "/v1/media/" + h.good.ID.String() + "/0"
	tag := `"` + h.good.Media[0].SHA256 + `"`
	var all []badCase
	add := func(name string, want badWant, lines ...string) {
		all = append(all, badCase{name, badAsk{as: "ben", method: http.MethodGet, target: media, header: lines}, want})
	}
	whole, part, outside := badWant{200, "", "\x89PNG"}, badWant{206, "", ""}, badWant{416, "invalid", "range"}
	for _, text := range []string{
		"bytes=", "bytes=-", "bytes=--1", "bytes=a-b", "bytes=1-a", "bytes=5-2", "bytes=+1-2", "bytes=1-+2", "bytes=0x0-0x4", "bytes=1.0-2", "bytes 0-1", "items=0-1", "0-1", "bytes=0-1-2", "bytes=٠-١",
		"bytes=0-1,2-3", "bytes=0-1,", "bytes=,0-1", "bytes=" + strings.Repeat("0-,", 5_000) + "0-", "bytes=" + strings.Repeat("0-9,", 2_000) + "0-1", "bytes=-1,-1,-1", "none", "\xff", "bytes=0-1;x", "BYTES",
	} {
		name := text
		if len(name) > 30 {
			name = name[:30] + "…"
		}
		add("whole/"+name, whole, "Range: "+text)
	}
	add("whole/two headers", whole, "Range: bytes=0-1", "Range: bytes=2-3")
	for _, text := range []string{"bytes=1000000-", "bytes=1000000-2000000", "bytes=9223372036854775807-", "bytes=99999999999999999999-", "bytes=-0"} {
		add("outside/"+text, outside, "Range: "+text)
	}
	for _, text := range []string{"bytes=0-0", "bytes=-1", "bytes=-9223372036854775807", "bytes=-99999999999999999999", "bytes=0-99999999999999999999", "bytes=1-9223372036854775807", "bytes= 0-1"} {
		add("part/"+text, part, "Range: "+text)
	}
	add("if-range/another", whole, "Range: bytes=0-1", `If-Range: "another"`)
	add("if-range/a date", whole, "Range: bytes=0-1", "If-Range: Mon, 16 Nov 2026 03:00:00 GMT")
	add("if-range/weak", whole, "Range: bytes=0-1", "If-Range: W/"+tag)
	add("if-range/garbage", whole, "Range: bytes=0-1", "If-Range: \xff\"")
	for _, text := range []string{`"`, `""`, `W/`, `another`, `"another`, strings.TrimSuffix(tag, `"`), strings.Trim(tag, `"`), ",,,,", strings.Repeat(`"a", `, 5_000), "\xff", "W/W/" + tag} {
		name := text
		if len(name) > 20 {
			name = name[:20] + "…"
		}
		add("if-none-match/"+name, whole, "If-None-Match: "+text)
	}
	add("if-none-match/among thousands", badWant{304, "", ""}, "If-None-Match: "+strings.Repeat(`"a", `, 5_000)+tag)
	add("if-none-match/any", badWant{304, "", ""}, "If-None-Match: *")
	add("if-modified-since/garbage", whole, "If-Modified-Since: yesterday")
	add("if-modified-since/the end of time", whole, "If-Modified-Since: Fri, 31 Dec 9999 23:59:59 GMT")
	add("if-unmodified-since/garbage", whole, "If-Unmodified-Since: \xff")
	add("accept/nothing", whole, "Accept: text/html;q=0", "Accept-Encoding: *;q=0")
	head := badCase{"head/outside", badAsk{as: "ben", method: http.MethodHead, target: media, header: []string{"Range: bytes=1000000-"}}, outside}
	head.want.says = ""
	return append(all, head)
}
