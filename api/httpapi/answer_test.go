package httpapi

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
)

// bareAPI returns an API without routes, its clock and its log.
func bareAPI(t *testing.T) (*API, *clock.Manual, *bytes.Buffer) {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	machine, logs := clock.NewManual(1_790_000_000_000), &bytes.Buffer{}
	a := &API{o: Options{BodyTimeout: time.Second, Open: func() error { return nil }}, clock: clock.New(machine.Source(), clock.Options{}, clock.Mark{}), metrics: m, refusals: newRefusals(), log: slog.New(slog.NewJSONHandler(logs, nil))}
	return a, machine, logs
}

func (a *API) answers(do func(c *Call) error) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	a.handler(Route{Method: "GET", Pattern: "/x", Handle: do}, origins{}).ServeHTTP(w, httptest.NewRequest("GET", "/x", http.NoBody))
	return w
}

func TestAnAnswerThatContainsSomethingPastItsEndIsCounted(t *testing.T) {
	a, machine, _ := bareAPI(t)
	end := a.clock.Read().Now.Add(time.Second)
	forgetful := func(c *Call) error { // contains a story, and does not check whether it has ended
		c.Carries(end)
		return c.JSON(http.StatusOK, struct{}{})
	}
	a.answers(forgetful)
	machine.Advance(999 * time.Millisecond)
	a.answers(forgetful)
	if n := testutil.ToFloat64(a.metrics.servedAfterDeadline); n != 0 {
		t.Fatalf("%v counted before the end", n)
	}
	machine.Advance(time.Millisecond)
	a.answers(forgetful)
	if n := testutil.ToFloat64(a.metrics.servedAfterDeadline); n != 1 {
		t.Errorf("%v counted", n)
	}
	if w := a.answers(func(c *Call) error { c.Carries(end); return c.Deliver(http.StatusOK, struct{}{}) }); w.Code != http.StatusGone {
		t.Errorf("%d", w.Code)
	}
	if n := testutil.ToFloat64(a.metrics.servedAfterDeadline); n != 1 {
		t.Errorf("a refusal was counted: %v", n)
	}
}

func TestAPanicIsAnsweredAndLogged(t *testing.T) {
	a, _, logs := bareAPI(t)
	w := a.answers(func(*Call) error { panic("a panic with a secret") })
	if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "secret") || !strings.Contains(w.Body.String(), `"code":"broken"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(logs.String(), "a panic with a secret") || !strings.Contains(logs.String(), w.Header().Get("Mayfly-Request")) {
		t.Errorf("the log is %s", logs)
	}
}

func TestAnAnswerThatFailsHalfWayIsAborted(t *testing.T) {
	a, _, _ := bareAPI(t)
	defer func() {
		if p := recover(); p != http.ErrAbortHandler {
			t.Errorf("recovered %v: a client could take half of an answer for all of it", p)
		}
	}()
	a.answers(func(c *Call) error {
		c.w.Header().Set("Content-Length", "10")
		_, _ = c.w.Write([]byte("half"))
		return mayfly.Errorf(mayfly.Corrupt, "the rest is corrupt")
	})
}

func TestEveryKindHasAStatusAndAProblemWithoutInternals(t *testing.T) {
	seen := map[string]mayfly.Kind{}
	for _, kind := range mayfly.Kinds() {
		p := problemOf(mayfly.Errorf(kind, "inside").WithHint("do this"))
		if p.Status < 400 || p.Title == "" || p.Code == "" {
			t.Errorf("%s: %+v", kind, p)
		}
		if before, twice := seen[p.Code]; twice && kind != mayfly.Archived {
			t.Errorf("%s and %s have the same code", kind, before)
		}
		seen[p.Code] = kind
		quiet := kind == mayfly.NotFound || kind == mayfly.Gone || kind == mayfly.Archived || p.Status >= 500
		if quiet && p.Detail != "" || (kind == mayfly.NotFound || kind == mayfly.Gone) && p.Hint != "" {
			t.Errorf("%s reveals %+v", kind, p)
		}
	}
	if p := problemOf(errors.New("inside")); p.Status != 500 || p.Detail != "" || p.Code != brokenCode {
		t.Errorf("%+v", p)
	}
}

func TestARangeIsParsedAsInRFC9110(t *testing.T) {
	const size = 100
	for text, want := range map[string]struct {
		part  byteRange
		whole bool
		err   bool
	}{
		"":                            {byteRange{0, 99}, true, false},
		"bytes=0-0":                   {byteRange{0, 0}, false, false},
		"bytes=0-":                    {byteRange{0, 99}, false, false},
		"bytes=99-200":                {byteRange{99, 99}, false, false},
		"bytes=-1":                    {byteRange{99, 99}, false, false},
		"bytes=-1000":                 {byteRange{0, 99}, false, false},
		"bytes=-0":                    {byteRange{0, 99}, false, true},
		"bytes=100-":                  {byteRange{0, 99}, false, true},
		"bytes=5-4":                   {byteRange{0, 99}, true, false},
		"bytes=a-b":                   {byteRange{0, 99}, true, false},
		"bytes=+1-2":                  {byteRange{0, 99}, true, false},
		"bytes=-":                     {byteRange{0, 99}, true, false},
		"bytes=0-1,5-6":               {byteRange{0, 99}, true, false},
		"lines=0-1":                   {byteRange{0, 99}, true, false},
		"bytes=99999999999999999999-": {byteRange{0, 99}, false, true},
	} {
		h := http.Header{}
		if text != "" {
			h.Set("Range", text)
		}
		part, whole, err := rangeOf(h, `"x"`, size)
		if part != want.part || whole != want.whole || (err != nil) != want.err {
			t.Errorf("%q: %v %v %v", text, part, whole, err)
		}
	}
}
