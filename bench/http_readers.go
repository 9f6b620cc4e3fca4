package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly/app/progress"
	"github.com/mayflyhq/mayfly/product/account"
)

// httpReader opens stories as many viewers do: half of them for everyone, half
// for followers, of authors whom the viewer follows.
type httpReader struct {
	conn    *httpConn
	random  *rand.Rand
	read    *httpStories
	request []byte
	id      string // of the story that it asks for
}

// httpStories are what is read, and by whom. Viewers and authors are of classes:
// a viewer follows the authors of the same class.
type httpStories struct {
	viewers []httpUser
	authors []httpUser
	open    [][]string // ids of stories for everyone, by author
	closed  [][]string // and for followers
}

const readClasses = 20

func (t httpTrial) newReaders(ctx context.Context, b *bench, s *httpBench) ([]httpAsker, error) {
	read, err := t.publishRead(ctx, b, s)
	if err != nil {
		return nil, fmt.Errorf("publish what is read: %w", err)
	}
	return dialAll(s.server.API(), t.readers, func(conn *httpConn, n int) httpAsker {
		return &httpReader{conn: conn, random: rand.New(rand.NewPCG(b.seed, uint64(1000+n))), read: read}
	})
}

// publishRead publishes what is read and says who follows whom, over HTTP.
func (t httpTrial) publishRead(ctx context.Context, b *bench, s *httpBench) (*httpStories, error) {
	stage := b.progress.Begin("publish what is read", t.stories)
	defer stage.End()
	r := &httpStories{open: make([][]string, readAuthors), closed: make([][]string, readAuthors)}
	var err error
	if r.authors, err = s.users("read-author", readAuthors); err != nil {
		return nil, err
	}
	if r.viewers, err = s.users("viewer", t.viewers); err != nil {
		return nil, err
	}
	service, err := s.user("service", account.Service)
	if err != nil {
		return nil, err
	}
	picture, err := benchPicture(b.seed + 1)
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(16)
	for a := range r.authors {
		g.Go(func() error {
			conn, err := dialHTTP(s.server.API())
			if err != nil {
				return err
			}
			defer func() { _ = conn.close() }() // nothing is on its way
			if err := r.befriend(ctx, conn, service, a); err != nil {
				return err
			}
			return r.publish(ctx, conn, a, t.stories/readAuthors, picture, stage)
		})
	}
	return r, g.Wait()
}

// befriend makes the viewers of author a's class followers.
func (r *httpStories) befriend(ctx context.Context, conn *httpConn, service httpUser, a int) error {
	for v := a % readClasses; v < len(r.viewers) && ctx.Err() == nil; v += readClasses {
		request := fmt.Sprintf("PUT /v1/users/%s/followers/%s HTTP/1.1\r\nHost: mayfly\r\nAuthorization: Bearer %s\r\nContent-Length: 0\r\n\r\n",
			r.authors[a].id, r.viewers[v].id, service.token)
		if err := conn.do([]byte(request), http.StatusNoContent); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (r *httpStories) publish(ctx context.Context, conn *httpConn, a, stories int, picture []byte, stage *progress.Stage) error {
	random := rand.New(rand.NewPCG(uint64(a), 3))
	everyone, followers := newHTTPForm(picture, formStory("everyone")), newHTTPForm(picture, formStory("followers"))
	for n := 0; n < max(2, stories) && ctx.Err() == nil; n++ {
		form, into := everyone, &r.open[a]
		if n%2 == 1 {
			form, into = followers, &r.closed[a]
		}
		if err := conn.do(form.publish(nil, r.authors[a], random), http.StatusCreated); err != nil {
			return err
		}
		id, err := conn.field("id")
		if err != nil {
			return err
		}
		*into = append(*into, id)
		stage.Add(1)
	}
	return ctx.Err()
}

func (r *httpReader) close() error { return r.conn.close() }

func (r *httpReader) next() []byte {
	v := r.random.IntN(len(r.read.viewers))
	author, of := r.random.IntN(readAuthors), r.read.open
	if r.random.IntN(2) == 0 {
		author, of = v%readClasses+readClasses*r.random.IntN(readAuthors/readClasses), r.read.closed
	}
	r.id = of[author][r.random.IntN(len(of[author]))]
	r.request = append(r.request[:0], "GET /v1/stories/"...)
	r.request = append(append(r.request, r.id...), " HTTP/1.1\r\nHost: mayfly\r\nAuthorization: Bearer "...)
	r.request = append(append(r.request, r.read.viewers[v].token...), "\r\n\r\n"...)
	return r.request
}

func (r *httpReader) ask() error {
	if err := r.conn.do(r.next(), http.StatusOK); err != nil {
		return err
	}
	if !bytes.Contains(r.conn.body, []byte(r.id)) {
		return fmt.Errorf("asked for %s, got %.300s", r.id, r.conn.body)
	}
	return nil
}
