package e2e

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
)

// The matrix proves something only if it finds faults: each one that is planted in
// front of the handlers must be found, by its word, in the routes where it is.
func TestTheMatrixFindsWhatIsPlanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMatrix(t, "followers")
		defer m.close()
		m.quiet = true
		deadline := m.publish()
		m.sleepUntil(deadline.Add(-20 * time.Second))
		m.sign(live, due, held)
		m.part()
		m.each(m.holds, held)
		handlers := m.public
		for _, p := range planted() {
			m.operations = slices.DeleteFunc(slices.Clone(m.documents), func(op operation) bool { return op.id != p.operation })
			m.public = m.faulty(handlers, p)
			clear(m.counts)
			if p.past {
				m.at(deadline, due, absentDue)
			} else {
				m.at(deadline-1, live, held, absent)
			}
			m.public = handlers
			if found := slices.Collect(maps.Keys(m.counts)); !slices.Equal(found, []string{p.word}) {
				t.Errorf("%s in %s: found %v", p.word, p.operation, m.counts)
			} else {
				t.Logf("%s in %s: found %d times", p.word, p.operation, m.counts[p.word])
			}
		}
	})
}

// fault is something that a handler might do wrong.
type fault struct {
	word      string
	operation string
	past      bool // it shows at the deadline, not before
	does      func(m *matrix, handlers http.Handler, r *http.Request, body []byte, rec *httptest.ResponseRecorder) *httptest.ResponseRecorder
}

// planted are the faults, those before the deadline first.
func planted() []fault {
	return []fault{
		{"LEAK", "openStory", false, moderatorsEyes},
		{"LEAK", "getMedium", false, moderatorsEyes},
		{"LEAK", "getRing", false, moderatorsEyes},
		{"LEAK", "getBirth", false, moderatorsEyes}, // of the product that the matrix does not name
		{"EARLY", "openStory", false, refuses},
		{"EARLY", "headMedium", false, refuses},
		{"EARLY", "viewStory", false, refuses},
		{"REVEALED", "openStory", false, hints},
		{"REVEALED", "listViewers", false, hints},
		{"INCOMPLETE", "openStory", false, shortens},
		{"LATE", "openStory", true, moderatorsEyes},
		{"LATE", "getMedium", true, moderatorsEyes},
		{"REVEALED", "reshareStory", true, hints},
	}
}

// faulty returns the handlers with a fault in front of them.
func (m *matrix) faulty(handlers http.Handler, f fault) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body) // from memory
		ask := func(r *http.Request) *httptest.ResponseRecorder {
			rec := httptest.NewRecorder()
			handlers.ServeHTTP(rec, r)
			return rec
		}
		rec := f.does(m, handlers, r, body.Bytes(), ask(again(r, body.Bytes())))
		maps.Copy(w.Header(), rec.Result().Header)
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()) // to memory
	})
}

func again(r *http.Request, body []byte) *http.Request {
	fresh := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.RequestURI(), bytes.NewReader(body))
	fresh.Header = r.Header.Clone()
	return fresh
}

// moderatorsEyes answers everybody what a moderator would be answered.
func moderatorsEyes(m *matrix, handlers http.Handler, r *http.Request, body []byte, _ *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	fresh := again(r, body)
	fresh.URL.RawQuery = "" // a signature says whose eyes
	fresh.Header.Del("Mayfly-User")
	fresh.Header.Set("Authorization", m.as("support", "moderator").Get("Authorization"))
	rec := httptest.NewRecorder()
	handlers.ServeHTTP(rec, fresh)
	return rec
}

// refuses answers what is shown as absence.
func refuses(_ *matrix, handlers http.Handler, r *http.Request, _ []byte, rec *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	if rec.Code >= 400 {
		return rec
	}
	refused := httptest.NewRecorder()
	absent := mayfly.ID{}
	handlers.ServeHTTP(refused, httptest.NewRequest(http.MethodGet, "/v1/stories/"+absent.String(), nil))
	return refused
}

// hints refuses what is there in a byte more than what never was.
func hints(m *matrix, handlers http.Handler, r *http.Request, body []byte, rec *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	if rec.Code != http.StatusNotFound && rec.Code != http.StatusGone {
		return rec
	}
	id := strings.Split(r.URL.Path, "/")[3]
	seen := moderatorsEyes(m, handlers, httptest.NewRequest(http.MethodGet, "/v1/stories/"+id, nil), nil, nil)
	if seen.Code == http.StatusOK {
		rec.Body.WriteByte('\n')
	}
	return rec
}

// shortens leaves the caption out.
func shortens(_ *matrix, _ http.Handler, _ *http.Request, _ []byte, rec *httptest.ResponseRecorder) *httptest.ResponseRecorder {
	text := strings.ReplaceAll(rec.Body.String(), "caption-", "")
	rec.Body.Reset()
	rec.Body.WriteString(text)
	return rec
}
