package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

// Publish a photo, and open it again after it has ended.
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			answer(http.StatusCreated, map[string]any{"id": "019a8b2f-0c00-8818-9a5d-1f0e9c2b7a43"})(w, r)
			return
		}
		problem(mayfly.Gone, http.StatusGone)(w, r)
	}))
	defer server.Close()

	ctx := context.Background()
	c, err := client.New(server.URL, client.Options{Token: os.Getenv("MAYFLY_TOKEN")})
	if err != nil {
		fmt.Println(err)
		return
	}
	story, err := c.Publish(ctx, client.Publication{
		Story: wire.NewStory{Audience: "followers", Lifetime: "24h"},
		Media: []client.Source{client.Bytes("photo.jpg", []byte("…"))},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("published", story.ID)

	if _, err := c.Story(ctx, story.ID); errors.Is(err, mayfly.Gone) {
		fmt.Println("it is gone")
	}
	// Output:
	// published 019a8b2f-0c00-8818-9a5d-1f0e9c2b7a43
	// it is gone
}
