package httpapi_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
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

func TestATraceNamesTheRouteAndNoUserOrItem(t *testing.T) {
	h := newTestNode(t)
	s := h.Publish("ana", `{"audience":"everyone","caption":"sea"}`)
	spans := tracetest.NewSpanRecorder()
	api, err := h.API(node.ServeOptions{Listen: config.Listen{Proxies: []string{"192.0.2.0/24"}}, Tracer: sdk.NewTracerProvider(sdk.WithSpanProcessor(spans)).Tracer("test")})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("GET", "/v1/stories/"+s.ID.String()+"?canary=1", http.NoBody) // from 192.0.2.1
	r.Header.Set("Authorization", "Bearer "+h.Token("ben"))
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	api.Public().ServeHTTP(httptest.NewRecorder(), r)
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Name() != "GET /v1/stories/{id}" || ended[0].SpanContext().TraceID().String() != "0af7651916cd43dd8448eb211c80319c" {
		t.Fatalf("%v", ended)
	}
	text := fmt.Sprint(ended[0].Attributes())
	for _, secret := range []string{s.ID.String(), nodetest.User("ana").String(), nodetest.User("ben").String(), "canary", "Bearer", "sea"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
}

func TestOnlyATrustedProxyMayContinueATrace(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	for proxy, continues := range map[string]bool{"192.0.2.0/24": true, "198.51.100.0/24": false} {
		h, spans := newTestNode(t), tracetest.NewSpanRecorder()
		provider := sdk.NewTracerProvider(sdk.WithSpanProcessor(spans), sdk.WithSampler(sdk.ParentBased(sdk.NeverSample())))
		api, err := h.API(node.ServeOptions{Listen: config.Listen{Proxies: []string{proxy}}, Tracer: provider.Tracer("test")})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/readyz", http.NoBody) // from 192.0.2.1
		r.Header.Set("Traceparent", "00-"+id+"-b7ad6b7169203331-01")
		api.Public().ServeHTTP(httptest.NewRecorder(), r)
		if recorded := len(spans.Ended()) > 0; recorded != continues {
			t.Errorf("with the proxies %s: recorded is %v", proxy, recorded)
		}
	}
}

func TestAClientThatLeavesIsNoErrorOfTheServer(t *testing.T) {
	n := nodetest.Start(t, nodetest.Options{})
	var logs bytes.Buffer
	registry := prometheus.NewRegistry()
	route := func(name string, err error) httpapi.Route {
		return httpapi.Route{Method: "GET", Pattern: "/v1/" + name, ID: name, Tag: "test", Product: "test", Handle: func(*httpapi.Call) error { return err }}
	}
	api, err := httpapi.New(httpapi.Options{
		Accounts: n.Accounts(), Clock: n.Clock(), Registry: registry, Logger: slog.New(slog.NewTextHandler(&logs, nil)),
		Routes: []httpapi.Route{route("canceled", context.Canceled), route("unavailable", mayfly.Wrap(mayfly.Unavailable, context.Canceled, "")), route("broken", errors.New("broken"))},
	})
	n.Must(err)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	for _, path := range []string{"/v1/canceled", "/v1/unavailable", "/v1/broken"} {
		w := httptest.NewRecorder()
		api.Public().ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", path, http.NoBody))
		if w.Code != 499 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if strings.Contains(logs.String(), "ERROR") {
		t.Error(logs.String())
	}
	families, err := registry.Gather()
	n.Must(err)
	for _, family := range families {
		if text := family.String(); family.GetName() == "mayfly_http_requests_total" && (strings.Contains(text, `value:"5`) || strings.Count(text, `value:"499"`) != 3) {
			t.Error(text)
		}
	}
}
