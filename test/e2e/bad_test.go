package e2e

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/test/pace"
)

// badCase is one thing that clients do wrong, by mistake or not, and the exact
// answer to it.
type badCase struct {
	name string
	ask  badAsk
	want badWant
}

// badWant is an answer: its status, the code of the problem, and a word of it.
type badWant struct {
	status int
	code   string // empty: it is no problem
	says   string
}

// The answers that occur often.
func badInvalid(says string) badWant     { return badWant{400, "invalid", says} }
func badTooLarge(says string) badWant    { return badWant{413, "too_large", says} }
func badUnsupported(says string) badWant { return badWant{415, "unsupported", says} }
func badToken(says string) badWant       { return badWant{401, "unauthenticated", says} }
func badDenied(says string) badWant      { return badWant{403, "denied", says} }
func badAbsent() badWant                 { return badWant{404, "not_found", ""} }

// badLayer is an answer of HTTP itself: what came was no request at all, and the
// connection ends with it.
func badLayer(status int) badWant { return badWant{status, badNoRequest, ""} }

const badNoRequest = "no request"

// The heap may grow so much while hundreds of megabytes of bad input come in, and
// what bombs unpack to would be thousands.
const badHeap = 96 << 20

// badOnDisk is how much larger the files of hot storage may be after it all.
const badOnDisk = 16 << 20

// C4, C9, I18: whatever comes in, the answer is exact, has a code and a hint, and
// is one that the document declares; nothing is stored; memory is bounded; the
// server answers as before.
func TestBadInputIsAnsweredInWordsAndLeavesNothingBehind(t *testing.T) {
	pace.Slow(t, "thousands of requests")
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // so that the heap is what is used, not what was
	h := openBadServer(t, badConfig(t))
	groups := []struct {
		name  string
		cases []badCase
	}{
		{"ids and cursors", h.badIDs()},
		{"JSON", h.badJSON()},
		{"words", h.badWords()},
		{"overlays", h.badOverlays()},
		{"forms", h.badForms()},
		{"lengths", h.badLengths()},
		{"media", h.badMedia()},
		{"headers", h.badHeaders()},
		{"paths and methods", h.badPaths()},
		{"queries", h.badQueries()},
		{"tokens", h.badTokens()},
		{"ranges and conditions", h.badRanges()},
		{"origins", h.badOrigins()},
	}
	disk := h.onDisk()
	var table strings.Builder
	rows := tabwriter.NewWriter(&table, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(rows, "bad input\ttried\tanswered wrong\theap grew by at most\t")
	tried := 0
	for _, g := range groups {
		before, heap, wrong := h.stored(), watchHeap(), 0
		for _, c := range g.cases {
			right := t.Run(g.name+"/"+c.name, func(t *testing.T) {
				h.in(t).try(c)
				before = h.in(t).settles(before)
			})
			if !right {
				wrong++
			}
		}
		grew := heap.stop()
		if grew > badHeap {
			t.Errorf("%s: the heap grew by %d MiB", g.name, grew>>20)
		}
		h.answers()
		tried += len(g.cases)
		fmt.Fprintf(rows, "%s\t%d\t%d\t%d MiB\t\n", g.name, len(g.cases), wrong, grew>>20)
	}
	fmt.Fprintf(rows, "together\t%d\t\t\t\n", tried)
	_ = rows.Flush() // into memory
	t.Logf("\n%s", table.String())
	if grew := h.onDisk() - disk; grew > badOnDisk {
		t.Errorf("the files of hot storage grew by %d bytes", grew)
	}
	if tried < 300 {
		t.Errorf("only %d were tried", tried)
	}
}

// in returns the server for a subtest.
func (h *badServer) in(t *testing.T) *badServer {
	within := *h
	within.T = t
	return &within
}

// try sends one and holds the answer to what it must be.
func (h *badServer) try(c badCase) {
	h.Helper()
	a := h.send(c.ask)
	if a.status != c.want.status {
		h.Fatalf("%d, not %d: %s", a.status, c.want.status, excerpt(a.body))
	}
	if c.want.code == badNoRequest {
		return
	}
	asked := request{method: c.ask.method, target: c.ask.target, admin: c.ask.admin}
	if _, known := h.find(asked); known {
		if err := h.documented(asked, a); err != nil {
			h.Errorf("not as the document says: %v", err)
		}
	}
	if !strings.Contains(string(a.body), c.want.says) {
		h.Errorf("no %q in %s", c.want.says, excerpt(a.body))
	}
	if a.header.Get("X-Content-Type-Options") != "nosniff" || !strings.Contains(a.header.Get("Content-Security-Policy"), "sandbox") {
		h.Errorf("without nosniff or sandbox: %v", a.header)
	}
	if a.header.Get("Access-Control-Allow-Origin") != "" || !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(a.header.Get("Mayfly-Request")) {
		h.Errorf("open to an origin, or the id of the request is not plain: %v", a.header)
	}
	for status, name := range map[int]string{401: "WWW-Authenticate", 405: "Allow", 416: "Content-Range"} {
		if (a.status == status) != (a.header.Get(name) != "") && a.status != http.StatusPartialContent {
			h.Errorf("%s is %q", name, a.header.Get(name))
		}
	}
	if c.want.code == "" || c.ask.method == "HEAD" {
		return
	}
	var p wire.Problem
	if err := json.Unmarshal(a.body, &p); err != nil || a.header.Get("Content-Type") != wire.ProblemType {
		h.Fatalf("no problem: %v %v %s", err, a.header, excerpt(a.body))
	}
	if p.Code != c.want.code || p.Status != a.status || p.Title == "" || p.Type == "" {
		h.Errorf("code %q, wanted %q: %s", p.Code, c.want.code, excerpt(a.body))
	}
	if p.Hint == "" && p.Code != "not_found" && p.Code != "gone" { // those say the same whatever is refused (ST2)
		h.Errorf("no hint: %s", excerpt(a.body))
	}
}

// heapWatch looks at the heap all the time.
type heapWatch struct {
	before uint64
	peak   uint64
	over   chan struct{}
	ended  chan struct{}
}

func watchHeap() *heapWatch {
	runtime.GC()
	w := &heapWatch{before: heapNow(), over: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		look := time.NewTicker(time.Millisecond)
		defer look.Stop()
		for {
			w.peak = max(w.peak, heapNow())
			select {
			case <-w.over:
				return
			case <-look.C:
			}
		}
	}()
	return w
}

// stop is by how many bytes it has grown at most.
func (w *heapWatch) stop() int64 {
	close(w.over)
	<-w.ended
	return max(0, int64(w.peak)-int64(w.before))
}

func heapNow() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// What turns the direction of the text beside it, and what no eye sees, does not
// come out of a caption; what texts need stays.
func TestACaptionCannotRewriteThePageItIsShownOn(t *testing.T) {
	h := openBadServer(t, badConfig(t))
	photo := string(picture("captions", 1))
	for in, want := range map[string]string{
		"photo\u202egpj.exe":                        "photogpj.exe",
		"a\u202ab\u202bc\u202dd\u202ce":             "abcde",
		"a\u2066b\u2067c\u2068d\u2069e":             "abcde",
		`a\u0007b\u001bc\u007fd\u0085e\u202ef`:      "abcdef",
		"שלום\u200e (ana)\u200f":                    "שלום\u200e (ana)\u200f",
		"👩\u200d👩\u200d👧 and \\\"quotes\\\" <b>\\n": "👩\u200d👩\u200d👧 and \"quotes\" <b>\n",
		`\ud83d\ude00`:                              "😀",
	} {
		form := badForm{{"story", `{"caption":"` + in + `","overlays":[{"kind":"text","x":0,"y":0,"text":"` + in + `"}]}`}, {"media", photo}}
		a := h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories", typ: form.typ(), body: form.text()})
		story := badRead[wire.Story](t, a, http.StatusCreated)
		if story.Caption != want {
			t.Errorf("%q became %q, not %q", in, story.Caption, want)
		}
		if strings.ContainsAny(string(story.Overlays), "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069") || strings.Contains(string(story.Overlays), `\u202`) {
			t.Errorf("%q stayed in %s", in, story.Overlays)
		}
	}
}

// A picture that looks like one and cannot be decoded is kept as it is; asking
// for a smaller one of it, over and over, is answered and costs nothing.
func TestAPictureThatCannotBeDecodedHasNoSmallerOne(t *testing.T) {
	h := openBadServer(t, badConfig(t))
	noise := badPNGHead + badChunk("IHDR", badU32(2000)+badU32(2000)+"\x08\x06\x00\x00\x00") + badChunk("IDAT", "12345678") + badChunk("IEND", "")
	for name, file := range map[string]string{"a PNG without rows": badPNG(2000, 2000), "a PNG with noise for rows": noise} {
		a := h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories?audience=everyone", typ: "image/png", body: file})
		story := badRead[wire.Story](t, a, http.StatusCreated)
		asked := request{method: http.MethodGet, target: "/v1/media/" + story.ID.String() + "/0-320"}
		for range 20 {
			a := h.send(badAsk{as: "ben", method: asked.method, target: asked.target})
			if a.status != http.StatusNotFound {
				t.Fatalf("%s: %d %s", name, a.status, excerpt(a.body))
			}
			if err := h.documented(asked, a); err != nil {
				t.Error(err)
			}
		}
		if a := h.send(badAsk{as: "ben", method: http.MethodGet, target: "/v1/media/" + story.ID.String() + "/0"}); a.status != http.StatusOK {
			t.Errorf("%s itself: %d %s", name, a.status, excerpt(a.body))
		}
	}
}

// A picture of a few kilobytes may unpack to as many pixels as are allowed, and
// to no more memory than those take while it is made smaller.
func TestAPictureThatUnpacksToTheLimitTakesWhatItsPixelsTake(t *testing.T) {
	cfg := badConfig(t)
	cfg.Stories.MaxPixels = 4_000_000
	h := openBadServer(t, cfg)
	var rows bytes.Buffer
	w := zlib.NewWriter(&rows)
	for range 2000 {
		if _, err := w.Write(make([]byte, 1+2000*8)); err != nil { // 16 bits a colour: the most that a PNG can have
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := badPNGHead + badChunk("IHDR", badU32(2000)+badU32(2000)+"\x10\x06\x00\x00\x00") + badChunk("IDAT", rows.String()) + badChunk("IEND", "")
	heap := watchHeap()
	a := h.send(badAsk{as: "ana", method: http.MethodPost, target: "/v1/stories?audience=everyone", typ: "image/png", body: file})
	story := badRead[wire.Story](t, a, http.StatusCreated)
	for range 4 {
		for _, r := range story.Media[0].Renditions {
			if a := h.send(badAsk{method: http.MethodGet, target: r.URL}); a.status != http.StatusOK {
				t.Errorf("%d %s", a.status, excerpt(a.body))
			}
		}
	}
	grew := heap.stop()
	if most := cfg.Stories.MaxPixels*16 + 16<<20; grew > most {
		t.Errorf("the heap grew by %d MiB, at most %d", grew>>20, most>>20)
	}
	t.Logf("%d bytes, 4,000,000 pixels: the heap grew by %d MiB", len(file), grew>>20)
}
