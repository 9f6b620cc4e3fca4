package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/app/config"
)

// A load balancer asks the public listener, which must not reveal the reason.
func TestThePublicListenerReportsThatItIsNotReadyWithoutAReason(t *testing.T) {
	for name, disturb := range map[string]func(h *testNode){
		"it is stopping":        func(h *testNode) { h.node.Leave() },
		"its clock is in doubt": func(h *testNode) { h.machine.Step(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newTestNode(t)
			s := h.publish("ana", `{"audience":"everyone"}`)
			disturb(h)
			for _, method := range []string{"GET", "HEAD"} {
				w := h.must(request{as: "anonymous", method: method, path: "/readyz"}, 503)
				if w.Header().Get("Retry-After") == "" || !strings.Contains(w.Header().Get("Cache-Control"), "no-store") {
					t.Errorf("%s: %v", method, w.Header())
				}
				if body := strings.TrimSpace(w.Body.String()); method == "GET" && body != `{"ready":false}` {
					t.Errorf("the body is %s", body)
				}
			}
			h.get("anonymous", "/v1/stories/"+s.ID.String(), 200)
			for line := range strings.Lines(h.logs.String()) {
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
		h.get("anonymous", "/readyz", 200)
	}
}
