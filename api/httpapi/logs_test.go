package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestTheLogsContainNoSecrets(t *testing.T) {
	c := newScenarioNode(t)
	for _, scenarios := range publicScenarios(t) {
		for _, s := range scenarios {
			c.do(request{as: s.as, method: s.method, path: c.words.Replace(s.path), typ: s.typ, body: c.words.Replace(s.body), header: s.header})
		}
	}
	for _, scenarios := range adminScenarios() {
		for _, s := range scenarios {
			c.do(request{as: s.as, method: s.method, path: c.words.Replace(s.path), body: c.words.Replace(s.body), header: s.header, admin: true})
		}
	}
	c.must(request{as: "anonymous", method: "GET", path: "/v1/stories/x?canary=in-the-query", header: map[string]string{"Authorization": "Bearer canary.in.token", "Idempotency-Key": "canary-key"}}, http.StatusUnauthorized)
	lines := strings.Count(c.logs.String(), "\n")
	t.Logf("%d lines", lines)
	if lines < 300 {
		t.Errorf("only %d lines were logged", lines)
	}
	secrets := []string{"canary", "sig=", "to all", "to followers", "boat", "Bearer", "eyJ", "mfr1", user("ana").String(), user("ben").String(), "k1\"", "a court asks"}
	for _, token := range c.tokens {
		secrets = append(secrets, token)
	}
	for _, secret := range secrets {
		for line := range strings.Lines(c.logs.String()) {
			if strings.Contains(line, secret) {
				t.Errorf("%.12s… is in the log: %s", secret, line)
				break
			}
		}
	}
}
