package httpapi_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/fixture/nodetest"
)

// setting changes the configuration of a test node.
type setting func(*config.Config)

// testNode is a node with its handlers.
type testNode struct{ *nodetest.Server }

// newTestNode starts a node. Every answer of its handlers is validated against the
// OpenAPI document.
func newTestNode(t testing.TB, set ...setting) *testNode {
	t.Helper()
	return &testNode{nodetest.Serve(t, nodetest.Options{Config: func(c *config.Config) {
		for _, s := range set {
			s(c)
		}
	}})}
}

// picture returns a small JPEG; each n gives other bytes.
func picture(t testing.TB, n byte) string { return string(fixture.Photo(t, n)) }

// padded is a picture of the length that announced reserves.
func padded(t testing.TB, n byte) string { return string(fixture.Padded(fixture.Photo(t, n))) }

// announced is the body that reserves an upload of padded pictures.
func announced(media int) string {
	var in wire.NewUpload
	for _, m := range fixture.Expect(media) {
		in.Media = append(in.Media, wire.NewMedium{Type: "image/jpeg", Length: m.Length})
	}
	text, err := json.Marshal(in)
	if err != nil {
		panic(err) // a struct of ours
	}
	return string(text)
}

// never returns a valid id that no item has.
func never(t testing.TB, birth mayfly.Instant, lasts time.Duration) mayfly.ID {
	t.Helper()
	l, err := mayfly.LifetimeOf(lasts)
	if err != nil {
		t.Fatal(err)
	}
	id, err := mayfly.NewID(birth, l, nodetest.User("ana").Trace(), 0x123456789)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
