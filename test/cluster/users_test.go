//go:build servers

package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/product/account"
)

const issuer = "mayfly"

// person is a user who talks to one node.
type person struct {
	*client.Client
	name string
	at   string // the node's URL
}

// token returns an access token of a user; the name is the scope if it is not user.
func (w *testCluster) token(name string, scope account.Scope) string {
	w.Helper()
	token, err := w.key.Mint(account.Grant{
		Issuer: issuer, Audience: issuer, User: mayfly.HomeUserOf(issuer, name), Subject: name,
		Scopes: []account.Scope{scope}, Lasts: 6 * time.Hour,
	}, mayfly.InstantOf(time.Now()))
	if err != nil {
		w.Fatal(err)
	}
	return string(token)
}

// person returns a user of a node's public listener: every call is tried once, so that
// each answer is seen.
func (w *testCluster) person(p *process, name string) *person {
	w.Helper()
	return w.personAt(p.api, name, account.User)
}

func (w *testCluster) personAt(url, name string, scope account.Scope) *person {
	w.Helper()
	c, err := client.New(url, client.Options{Token: w.token(name, scope), HTTP: w.http, Retries: -1})
	if err != nil {
		w.Fatal(err)
	}
	return &person{c, name, url}
}

// publication is a story for everyone, with a picture that no other has.
func publication(key, audience, lifetime string) client.Publication {
	return client.Publication{
		Story: wire.NewStory{Caption: key, Audience: audience, Lifetime: lifetime},
		Media: []client.Source{client.Bytes("picture.png", picture(key))}, Key: key,
	}
}

// picture is a small picture that depends on its seed.
func picture(seed string) []byte {
	sum := sha256.Sum256([]byte(seed))
	img := image.NewNRGBA(image.Rect(0, 0, 8, 4))
	for i, b := range sum {
		img.Set(i%8, i/8, color.NRGBA{R: b, G: ^b, B: byte(i), A: 255})
	}
	var out bytes.Buffer
	if err := png.Encode(&out, img); err != nil {
		panic(err) // into memory
	}
	return out.Bytes()
}

// publish publishes one story at one node, once more with the same key as long as
// the outcome is not known, and adds it to the record.
func (w *testCluster) publish(p *person, key, audience, lifetime string) wire.Story {
	w.Helper()
	var story wire.Story
	eventually(w, 20*time.Second, "a story is published", func() bool {
		s, err := p.Publish(context.Background(), publication(key, audience, lifetime))
		if err != nil {
			w.record.failedTry(err)
			w.Logf("publish: %v", err)
			return false
		}
		story = s
		return true
	})
	w.record.born(story, p.name)
	return story
}

// answerOf is an answer in a word: 200, the status of a refusal, or what there was
// instead of an answer.
func answerOf(err error) string {
	var answered *client.Error
	switch {
	case err == nil:
		return "2xx"
	case errors.As(err, &answered):
		text := fmt.Sprint(answered.Problem.Status)
		if answered.Problem.Status == 503 && answered.After == 0 {
			text += " without Retry-After"
		}
		return text
	default:
		return "no answer"
	}
}
