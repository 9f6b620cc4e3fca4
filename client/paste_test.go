package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
)

// pasteServer takes pastes with the access token "new", which it returns for the
// refresh token "r1". With late it reads the body of a paste before it refuses it.
// It returns the contents that it has taken.
func pasteServer(t *testing.T, late bool) (url string, taken *[]string) {
	t.Helper()
	taken = &[]string{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/token":
			answer(200, wire.Tokens{AccessToken: "new", RefreshToken: "r2"})(w, r)
		case r.Header.Get("Authorization") == "Bearer new":
			body, err := io.ReadAll(r.Body)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			*taken = append(*taken, string(body))
			answer(201, wire.Paste{ID: someID(t), Size: int64(len(body))})(w, r)
		default:
			if late {
				_, _ = io.CopyN(io.Discard, r.Body, 1)
			}
			problem(mayfly.Unauthenticated, 401)(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL, taken
}

// The token may have expired when a paste from a stream is sent. What was read of the
// stream cannot be sent again: a paste is made of all of it, or of nothing (I14).
func TestAPasteFromAStreamIsCompleteOrNotMade(t *testing.T) {
	for name, late := range map[string]bool{"refused before the body": false, "refused within the body": true} {
		for _, size := range []int{5, 5 << 20} {
			for _, known := range []int64{0, int64(size)} {
				url, taken := pasteServer(t, late)
				c, err := client.New(url, client.Options{Token: "old", Refresh: "r1"})
				if err != nil {
					t.Fatal(err)
				}
				text := strings.Repeat("x", size)
				_, err = c.CreatePaste(t.Context(), client.NewPaste{Content: io.MultiReader(strings.NewReader(text)), Size: known})
				switch made := *taken; {
				case err == nil && (len(made) != 1 || made[0] != text), err != nil && len(made) > 0:
					t.Errorf("%s, %d bytes, size %d: %d pastes, %v", name, size, known, len(made), err)
				case late == (err == nil):
					t.Errorf("%s, %d bytes, size %d: %v", name, size, known, err)
				}
				c.Close()
			}
		}
	}
}
