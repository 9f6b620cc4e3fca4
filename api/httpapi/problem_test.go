package httpapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
)

// A problem that is a page has its style inside, which its policy permits by the
// hash and by nothing else; what a caller sent is text in it.
func TestAProblemPageIsStyledAndItsPolicyPermitsNothingElse(t *testing.T) {
	hostile := mayfly.Errorf(mayfly.Invalid, "invalid name %s", `</style><script>alert(1)</script>{{body}}`)
	for _, err := range []error{mayfly.NotFound, mayfly.Gone, mayfly.Full, hostile} {
		w := get(kernel(t, httpapi.Route{
			Method: "GET", Pattern: "/v1/test", ID: "test", Answers: []httpapi.Answer{{Status: http.StatusNoContent, About: "Done."}},
			Handle: func(*httpapi.Call) error { return err },
		}), "/v1/test", "text/html")
		page, policy := w.Body.String(), w.Header().Get("Content-Security-Policy")
		styles := regexp.MustCompile(`(?s)<style>(.*?)</style>`).FindAllStringSubmatch(page, -1)
		if len(styles) != 1 {
			t.Fatalf("%v: %d styles in %s", err, len(styles), page)
		}
		sum := sha256.Sum256([]byte(styles[0][1]))
		if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; sandbox;"; !strings.HasPrefix(policy, "default-src 'none'; ") || !strings.Contains(policy, want) || strings.Contains(policy, "unsafe") {
			t.Errorf("%v: policy %s, want %s", err, policy, want)
		}
		if strings.Contains(page, "<script") || strings.Contains(page, "{{style}}") || strings.Contains(page, "{{title}}") || !strings.Contains(page, "prefers-color-scheme: dark") {
			t.Errorf("%v: page %s", err, page)
		}
	}
}
