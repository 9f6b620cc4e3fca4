package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// A load balancer asks the public listener, which must not reveal the reason.
func TestThePublicListenerReportsThatItIsNotReadyWithoutAReason(t *testing.T) {
	for name, disturb := range map[string]func(h *testNode){
		"it is stopping":        func(h *testNode) { h.Leave() },
		"its clock is in doubt": func(h *testNode) { h.Machine.Step(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestNode(t)
			s := h.Publish("ana", `{"audience":"everyone"}`)
			disturb(h)
			for _, method := range []string{"GET", "HEAD"} {
				w := h.Want(nodetest.Request{As: "anonymous", Method: method, Path: "/readyz"}, 503)
				if w.Header().Get("Retry-After") == "" || !strings.Contains(w.Header().Get("Cache-Control"), "no-store") {
					t.Errorf("%s: %v", method, w.Header())
				}
				if body := strings.TrimSpace(w.Body.String()); method == "GET" && body != `{"ready":false}` {
					t.Errorf("the body is %s", body)
				}
			}
			h.Get("anonymous", "/v1/stories/"+s.ID.String(), 200)
			for line := range strings.Lines(h.Logs.String()) {
				if strings.Contains(line, "/readyz") && strings.Contains(line, "ERROR") {
					t.Errorf("the answer is logged as an error: %s", line)
				}
			}
		})
	}
}

func TestReadinessIsNotRateLimited(t *testing.T) {
	h := newTestNode(t, func(c *config.Config) { c.Rates.AddressReads = config.Rate{Count: 2, Per: time.Minute} })
	for range 20 {
		h.Get("anonymous", "/readyz", 200)
	}
}
