package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

func TestTheLogsContainNoSecrets(t *testing.T) {
	c := newScenarioNode(t)
	for _, scenarios := range publicScenarios(t) {
		for _, s := range scenarios {
			c.Do(nodetest.Request{As: s.as, Method: s.method, Path: c.words.Replace(s.path), Type: s.typ, Body: c.words.Replace(s.body), Header: s.header})
		}
	}
	for _, scenarios := range adminScenarios() {
		for _, s := range scenarios {
			c.Do(nodetest.Request{As: s.as, Method: s.method, Path: c.words.Replace(s.path), Body: c.words.Replace(s.body), Header: s.header, Admin: true})
		}
	}
	c.Want(nodetest.Request{As: "anonymous", Method: "GET", Path: "/v1/stories/x?canary=in-the-query", Header: map[string]string{"Authorization": "Bearer canary.in.token", "Idempotency-Key": "canary-key"}}, http.StatusUnauthorized)
	lines := strings.Count(c.Logs.String(), "\n")
	t.Logf("%d lines", lines)
	if lines < 300 {
		t.Errorf("only %d lines were logged", lines)
	}
	secrets := []string{"canary", "sig=", "to all", "to followers", "boat", "Bearer", "eyJ", "mfr1", nodetest.User("ana").String(), nodetest.User("ben").String(), "k1\"", "a court asks"}
	for _, role := range []string{"ana", "ben", "friend", "blocked", "stranger", "service", "moderator", "admin"} {
		secrets = append(secrets, c.Token(role))
	}
	for _, secret := range secrets {
		for line := range strings.Lines(c.Logs.String()) {
			if strings.Contains(line, secret) {
				t.Errorf("%.12s… is in the log: %s", secret, line)
				break
			}
		}
	}
}
