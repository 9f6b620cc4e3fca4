package e2e

import (
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
