package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/product/feed"
)

// homeTrial reads homes from a whole server over HTTP: 20 posts of 200 authors, merged
// when they are read; in turns with the query that the published design begins with, on
// PostgreSQL behind a bare handler, with the same client and the same posts. Then it
// publishes posts, in turns with stories.
type homeTrial struct {
	authors, each int // followed by every reader, and the posts of each
	readers       int // connections, each of a reader
	page          int
	warm, lasts   time.Duration // of all turns of one side
	writes        httpTrial
}

func homeTrialOf(f benchForm) homeTrial {
	t := homeTrial{authors: 200, each: 1_000, readers: 16, page: 20, warm: 3 * time.Second, lasts: 30 * time.Second, writes: httpTrialOf(f)}
	if f == quickForm {
		t.each, t.warm, t.lasts = 100, time.Second, 5*time.Second
	}
	return t
}

func (t homeTrial) run(ctx context.Context, b *bench, folder string) (err error) {
	s, err := openHTTPBench(ctx, folder, func(*config.Config) {})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	readers, err := t.fill(ctx, b, s, folder)
	if err != nil {
		return fmt.Errorf("publish what is read: %w", err)
	}
	if err := t.pull(ctx, b, s, folder, readers); err != nil {
		return fmt.Errorf("read homes: %w", err)
	}
	if err := t.create(ctx, b, s); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	b.addIO("home", s.io())
	return nil
}

// homeFiles are what the peer loads: posts with id, author, birth in milliseconds and
// text, and follows with reader and author, separated by tabs.
const (
	homePosts   = "posts.tsv"
	homeFollows = "follows.tsv"
)

// fill publishes the posts, spread over the last 30 days, has every reader follow every
// author, and writes both for the peer.
func (t homeTrial) fill(ctx context.Context, b *bench, s *httpBench, folder string) (readers []httpUser, err error) {
	authors, err := s.users("home-author", t.authors)
	if err != nil {
		return nil, err
	}
	if readers, err = s.users("home-reader", t.readers); err != nil {
		return nil, err
	}
	n := t.authors * t.each
	stage := b.progress.Begin("publish what is read", n)
	defer stage.End()
	const span = 30 * 24 * time.Hour
	from, posts := s.server.Now().Add(-span-time.Minute), make([]string, n)
	random := rand.New(rand.NewPCG(b.seed, 7))
	order := random.Perm(n) // of the authors: a page has the posts of many
	g, of := errgroup.WithContext(ctx)
	g.SetLimit(64)
	for i := range posts {
		author, born := authors[order[i]%t.authors].id, spread(from, span, i, n)
		g.Go(func() error {
			text := fmt.Sprintf("post %d: %s, %s, %s", i, loadCaption, loadCaption, loadCaption)
			p, err := s.server.Node.Posts().Publish(of, feed.Draft{Author: author, Text: text, Lifetime: "never"}, func() mayfly.Instant { return born })
			posts[i] = fmt.Sprintf("%s\t%s\t%d\t%s\n", p.Item.ID, author, int64(born), text)
			stage.Add(1)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	follows := make([]string, t.authors*t.readers)
	g, of = errgroup.WithContext(ctx)
	g.SetLimit(64)
	for i := range follows {
		reader, author := readers[i%t.readers].id, authors[i/t.readers].id
		g.Go(func() error {
			_, err := s.server.Node.Accounts().Follow(of, reader, author, s.server.Now())
			follows[i] = fmt.Sprintf("%s\t%s\n", reader, author)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return readers, errors.Join(writeLines(filepath.Join(folder, homePosts), posts), writeLines(filepath.Join(folder, homeFollows), follows))
}

func writeLines(file string, lines []string) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := bufio.NewWriter(f)
	for _, line := range lines {
		_, _ = w.WriteString(line) // Flush returns the error
	}
	return w.Flush()
}

// homeSide is who answers: the product, or the peer with a table.
type homeSide struct {
	what    string
	url     string
	request func(reader httpUser) string

	rates   []float64
	latency *hdrhistogram.Histogram
}

// pull measures pages of homes, in turns with the peer if it starts.
func (t homeTrial) pull(ctx context.Context, b *bench, s *httpBench, folder string, readers []httpUser) (err error) {
	ours := &homeSide{what: "homes", url: s.server.API(), request: func(r httpUser) string {
		return "GET /v1/me/home?limit=" + strconv.Itoa(t.page) + " HTTP/1.1\r\nHost: mayfly\r\nAuthorization: Bearer " + r.token + "\r\n\r\n"
	}}
	sides := []*homeSide{ours}
	peer, err := startHTTPPeer(ctx, b.peers, "postgres", folder, len(readers))
	if err != nil {
		if err := b.withoutPeer(ctx, "the ratios to PostgreSQL are", err); err != nil {
			return err
		}
	} else {
		defer func() { err = errors.Join(err, peer.stop()) }()
		for _, path := range []string{"/home", "/home-by-time"} {
			sides = append(sides, &homeSide{what: "PostgreSQL, " + path, url: peer.URL, request: func(r httpUser) string {
				return "GET " + path + "?limit=" + strconv.Itoa(t.page) + "&reader=" + r.id.String() + " HTTP/1.1\r\nHost: mayfly\r\n\r\n"
			}})
		}
	}
	if err := sameHomes(sides, readers[0], t.page); err != nil {
		return err
	}
	for _, side := range sides {
		side.latency = newLatencies()
	}
	for range baselineTurns {
		for _, side := range sides {
			if err := t.turn(ctx, b, side, readers); err != nil {
				return fmt.Errorf("%s: %w", side.what, err)
			}
		}
	}
	b.report.add("home.pull_per_s", median(ours.rates))
	b.report.add("home.pull_p50_ms", float64(ours.latency.ValueAtQuantile(50))/1e6)
	b.report.add("home.pull_p99_ms", float64(ours.latency.ValueAtQuantile(99))/1e6)
	if len(sides) > 1 {
		b.report.add("home.pull_ratio_postgres", medianRatio(ours.rates, sides[1].rates))
		b.report.add("home.pull_ratio_postgres_by_time", medianRatio(ours.rates, sides[2].rates))
		b.report.add("home.pull_postgres_per_s", median(sides[1].rates))
		b.report.add("home.pull_postgres_p99_ms", float64(sides[1].latency.ValueAtQuantile(99))/1e6)
	}
	return nil
}

// turn measures one side.
func (t homeTrial) turn(ctx context.Context, b *bench, side *homeSide, readers []httpUser) (err error) {
	askers, err := dialAll(side.url, len(readers), func(conn *httpConn, n int) httpAsker {
		return &bareAsker{conn: conn, request: []byte(side.request(readers[n])), want: http.StatusOK}
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(askers)) }()
	rate, latency, err := httpTrial{warm: t.warm / baselineTurns, lasts: t.lasts / baselineTurns}.rate(ctx, b, side.what, askers)
	if err != nil {
		return err
	}
	side.latency.Merge(latency)
	side.rates = append(side.rates, rate)
	return nil
}

// rate measures until something was answered: in a short turn on a busy machine it may be
// nothing. It returns the answers in a second.
func (t httpTrial) rate(ctx context.Context, b *bench, what string, askers []httpAsker) (float64, *hdrhistogram.Histogram, error) {
	for took := t.lasts; ; took += t.lasts {
		latency, err := t.measure(ctx, b, what, askers, func() {})
		if err != nil || latency.TotalCount() > 0 {
			return float64(latency.TotalCount()) / took.Seconds(), latency, err
		}
	}
}

// sameHomes reports an error unless every side shows a reader the same posts.
func sameHomes(sides []*homeSide, reader httpUser, page int) error {
	var first []string
	for n, side := range sides {
		_, body, err := answerTo(side.url, []byte(side.request(reader)), http.StatusOK)
		if err != nil {
			return fmt.Errorf("%s: %w", side.what, err)
		}
		var answer struct {
			Posts []struct{ ID string }
		}
		if err := json.Unmarshal(body, &answer); err != nil {
			return fmt.Errorf("%s: %w", side.what, err)
		}
		var ids []string
		for _, p := range answer.Posts {
			ids = append(ids, p.ID)
		}
		if n == 0 {
			first = ids
		}
		if len(ids) != page || !slices.Equal(ids, first) {
			return fmt.Errorf("%s shows %d other posts than the product: %v, not %v", side.what, len(ids), ids, first)
		}
	}
	return nil
}

// postWriter publishes one post after the other, each of another author.
type postWriter struct {
	conn    *httpConn
	random  *rand.Rand
	authors []httpUser
	request []byte
}

func (w *postWriter) next() []byte {
	const body = `{"text":"` + loadCaption + ` #sea","lifetime":"24h"}`
	w.request = append(w.request[:0], "POST /v1/posts HTTP/1.1\r\nHost: mayfly\r\nContent-Type: application/json\r\nContent-Length: "...)
	w.request = strconv.AppendInt(w.request, int64(len(body)), 10)
	w.request = append(append(w.request, "\r\nAuthorization: Bearer "...), w.authors[w.random.IntN(len(w.authors))].token...)
	return append(append(w.request, "\r\n\r\n"...), body...)
}

func (w *postWriter) ask() error   { return w.conn.do(w.next(), http.StatusCreated) }
func (w *postWriter) close() error { return w.conn.close() }

// create publishes posts, and stories with a picture, by turns.
func (t homeTrial) create(ctx context.Context, b *bench, s *httpBench) (err error) {
	authors, err := s.users("post-author", t.writes.authors)
	if err != nil {
		return err
	}
	posts, err := dialAll(s.server.API(), t.writes.writers, func(conn *httpConn, n int) httpAsker {
		return &postWriter{conn: conn, random: rand.New(rand.NewPCG(b.seed, uint64(n))), authors: authors}
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(posts)) }()
	stories, err := t.writes.newWriters(s, b.seed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll(stories)) }()
	turn := t.writes
	turn.warm, turn.lasts = t.writes.warm/baselineTurns, t.writes.lasts/(2*baselineTurns)
	var rates [2][]float64
	all := newLatencies()
	for range baselineTurns {
		for n, askers := range [][]httpAsker{posts, stories} {
			rate, latency, err := turn.rate(ctx, b, []string{"publish posts", "publish stories"}[n], askers)
			if err != nil {
				return err
			}
			if rates[n] = append(rates[n], rate); n == 0 {
				all.Merge(latency)
			}
		}
	}
	b.report.add("posts.creates_per_s", median(rates[0]))
	b.report.add("posts.creates_p99_ms", float64(all.ValueAtQuantile(99))/1e6)
	b.report.add("posts.creates_stories_per_s", median(rates[1]))
	return nil
}
