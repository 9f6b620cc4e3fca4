package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly/app/progress"
)

// peerAuthors is how many authors publish in the comparison with a peer, and how
// many connections each load has.
const peerAuthors = 32

// peerSide is the product or its peer: a server, who publishes there, and what
// the requests of both look like.
type peerSide struct {
	url     string
	authors []peerUser
	created int // status of a request that publishes
	publish func(out []byte, author peerUser, random *rand.Rand) []byte
	paths   func(answer *httpConn) (story, photo string, err error)
	bearer  string // before the token

	stories, photos []string // paths of what was published
}

// ourSide returns the product's side.
func ourSide(s *httpBench, picture []byte) (*peerSide, error) {
	users, err := s.users("peer-author", peerAuthors)
	if err != nil {
		return nil, err
	}
	side := &peerSide{url: s.server.API(), created: http.StatusCreated, bearer: "Bearer "}
	for _, u := range users {
		side.authors = append(side.authors, peerUser{ID: u.id.String(), Token: u.token})
	}
	form := newHTTPForm(picture, formStory("everyone"))
	side.publish = func(out []byte, author peerUser, random *rand.Rand) []byte {
		return form.request(out, "/v1/stories", side.bearer+author.Token, random)
	}
	side.paths = func(answer *httpConn) (string, string, error) {
		id, err := answer.field("id")
		photo, err2 := answer.field("url")
		return "/v1/stories/" + id, strings.TrimPrefix(photo, side.url), errors.Join(err, err2)
	}
	return side, nil
}

// pocketBaseSide returns the side of PocketBase.
func pocketBaseSide(p *httpPeer, picture []byte) *peerSide {
	const records = "/api/collections/stories/records"
	side := &peerSide{url: p.URL, authors: p.Users, created: http.StatusOK}
	ends := time.Now().UTC().Add(24 * time.Hour).Format("2006-01-02 15:04:05.000Z")
	forms := make(map[string]httpForm)
	for _, author := range p.Users {
		fields := formField("author", author.ID) + formField("caption", loadCaption) + formField("audience", "everyone") + formField("expires_at", ends)
		forms[author.ID] = newHTTPForm(picture, fields)
	}
	side.publish = func(out []byte, author peerUser, random *rand.Rand) []byte {
		return forms[author.ID].request(out, records, author.Token, random)
	}
	side.paths = func(answer *httpConn) (string, string, error) {
		id, err := answer.field("id")
		photo, err2 := answer.field("media")
		return records + "/" + id, "/api/files/stories/" + id + "/" + photo, errors.Join(err, err2)
	}
	return side
}

// comparePocketBase measures the product and PocketBase by turns, with the same
// client, connections, authors and photo.
func (t httpTrial) comparePocketBase(ctx context.Context, b *bench, s *httpBench, folder string) (err error) {
	peer, err := startHTTPPeer(ctx, b.peers, "pocketbase", filepath.Join(folder, "pocketbase"), peerAuthors)
	if err != nil {
		return b.withoutPeer(ctx, "the ratios to PocketBase are", err)
	}
	defer func() { err = errors.Join(err, peer.stop()) }()
	picture, err := benchPicture(b.seed + 2)
	if err != nil {
		return err
	}
	ours, err := ourSide(s, picture)
	if err != nil {
		return err
	}
	sides := []*peerSide{ours, pocketBaseSide(peer, picture)}
	for _, side := range sides {
		stage := b.progress.Begin("publish what is read", peerAuthors*t.peerLive)
		err := side.fill(ctx, t.peerLive, stage)
		stage.End()
		if err != nil {
			return err
		}
	}
	for _, load := range []struct {
		what string
		next func(side *peerSide, author peerUser, random *rand.Rand) (request func(out []byte) []byte, want int)
	}{
		{"reads", func(side *peerSide, author peerUser, random *rand.Rand) (func([]byte) []byte, int) {
			return side.get(side.stories, author, random), http.StatusOK
		}},
		{"bytes", func(side *peerSide, author peerUser, random *rand.Rand) (func([]byte) []byte, int) {
			return side.get(side.photos, author, random), http.StatusOK
		}},
		{"creates", func(side *peerSide, author peerUser, random *rand.Rand) (func([]byte) []byte, int) {
			return func(out []byte) []byte { return side.publish(out, author, random) }, side.created
		}},
	} {
		rates := make([][]float64, len(sides))
		for range baselineTurns {
			for n, side := range sides {
				rate, err := t.peerTurn(ctx, b, side, load.what, func(conn *httpConn, a int) httpAsker {
					request, want := load.next(side, side.authors[a], rand.New(rand.NewPCG(b.seed, uint64(a))))
					return &peerAsker{conn: conn, make: request, want: want}
				})
				if err != nil {
					return fmt.Errorf("%s at %s: %w", load.what, side.url, err)
				}
				rates[n] = append(rates[n], rate)
			}
		}
		b.report.add("http."+load.what+"_ratio_pocketbase", medianRatio(rates[0], rates[1]))
		b.report.add("http."+load.what+"_pocketbase_per_s", median(rates[1]))
	}
	return nil
}

// peerTurn measures one load on one side, and returns the answers in a second.
func (t httpTrial) peerTurn(ctx context.Context, b *bench, side *peerSide, what string, asker func(conn *httpConn, n int) httpAsker) (rate float64, err error) {
	askers, err := dialAll(side.url, peerAuthors, asker)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeAll(askers)) }()
	t.warm, t.lasts = t.warm/(4*baselineTurns), t.lasts/(4*baselineTurns)
	var took time.Duration
	for count := int64(0); count == 0; { // a busy machine may answer nothing in a short turn
		latency, err := t.measure(ctx, b, what, askers, func() {})
		if err != nil {
			return 0, err
		}
		count, took = latency.TotalCount(), took+t.lasts
		rate = float64(count) / took.Seconds()
	}
	return rate, nil
}

// fill publishes stories of every author, and keeps their paths.
func (s *peerSide) fill(ctx context.Context, each int, stage *progress.Stage) error {
	stories, photos := make([][]string, len(s.authors)), make([][]string, len(s.authors))
	g, ctx := errgroup.WithContext(ctx)
	for a, author := range s.authors {
		g.Go(func() error {
			conn, err := dialHTTP(s.url)
			if err != nil {
				return err
			}
			defer func() { _ = conn.close() }() // nothing is on its way
			random := rand.New(rand.NewPCG(uint64(a), 5))
			for n := 0; n < each && ctx.Err() == nil; n++ {
				if err := conn.do(s.publish(nil, author, random), s.created); err != nil {
					return err
				}
				story, photo, err := s.paths(conn)
				if err != nil {
					return err
				}
				stories[a], photos[a] = append(stories[a], story), append(photos[a], photo)
				stage.Add(1)
			}
			return ctx.Err()
		})
	}
	err := g.Wait()
	for a := range s.authors {
		s.stories, s.photos = append(s.stories, stories[a]...), append(s.photos, photos[a]...)
	}
	return err
}

// get returns requests for one of the paths each.
func (s *peerSide) get(paths []string, author peerUser, random *rand.Rand) func(out []byte) []byte {
	return func(out []byte) []byte {
		out = append(append(out, "GET "...), paths[random.IntN(len(paths))]...)
		return append(append(out, " HTTP/1.1\r\nHost: bench\r\nAuthorization: "+s.bearer...), author.Token+"\r\n\r\n"...)
	}
}

// peerAsker sends the requests that make makes.
type peerAsker struct {
	conn    *httpConn
	make    func(out []byte) []byte
	want    int
	request []byte
}

func (a *peerAsker) next() []byte {
	a.request = a.make(a.request[:0])
	return a.request
}

func (a *peerAsker) ask() error   { return a.conn.do(a.next(), a.want) }
func (a *peerAsker) close() error { return a.conn.close() }

// formField is a field of text of a form.
func formField(name, value string) string {
	return "--" + formEdge + "\r\nContent-Disposition: form-data; name=" + strconv.Quote(name) + "\r\n\r\n" + value + "\r\n"
}
