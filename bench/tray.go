package bench

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/loop"
)

// trayTrial asks a whole server for trays over HTTP. Every reader follows every author,
// and every author has live stories; readers have seen the newest of half of them. A
// reader asks again only when nothing of what was read for the last tray is cached: that
// is how clients ask.
type trayTrial struct {
	authors, stories int // stories of each author
	readers          int
	rounds           int // how often each reader asks, beside a first time
}

func trayTrialOf(f benchForm) trayTrial {
	if f == quickForm {
		return trayTrial{authors: 1_000, stories: 2, readers: 20, rounds: 5}
	}
	return trayTrial{authors: 1_000, stories: 3, readers: 40, rounds: 20}
}

// trayReader is a reader on a connection of its own.
type trayReader struct {
	httpUser
	conn *httpConn
}

func (t trayTrial) run(ctx context.Context, b *bench, folder string) (err error) {
	s, err := openHTTPBench(ctx, folder, func(*config.Config) {})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	users, err := t.load(ctx, b, s)
	if err != nil {
		return fmt.Errorf("load what trays show: %w", err)
	}
	if err := restUntil(ctx, b, s.io); err != nil {
		return err
	}
	readers := make([]trayReader, len(users))
	for i, user := range users {
		conn, err := dialHTTP(s.server.API())
		if err != nil {
			return err
		}
		defer func() { _ = conn.close() }() // nothing is on its way
		readers[i] = trayReader{user, conn}
	}
	plain, err := t.check(readers)
	if err != nil {
		return err
	}
	pace := (store.CacheAge + store.CacheAge/4) / time.Duration(len(readers))
	cold, bytes, err := t.ask(ctx, b, "ask for trays", readers, t.rounds, pace)
	if err != nil {
		return err
	}
	warm, _, err := t.ask(ctx, b, "ask for trays at once again", readers[:1], 50*t.rounds, 0)
	if err != nil {
		return err
	}
	b.report.add("tray.p99_ms", float64(cold.ValueAtQuantile(99))/1e6)
	b.report.add("tray.p50_ms", float64(cold.ValueAtQuantile(50))/1e6)
	b.report.add("tray.bytes", float64(bytes))
	b.report.add("tray.plain_bytes", float64(plain))
	b.report.add("tray.again_p99_ms", float64(warm.ValueAtQuantile(99))/1e6)
	b.report.add("tray.asked", float64(cold.TotalCount()))
	b.addIO("tray", s.io())
	return nil
}

// load publishes the stories, and makes the readers follow all authors and see the
// newest story of half of them.
func (t trayTrial) load(ctx context.Context, b *bench, s *httpBench) ([]httpUser, error) {
	authors, err := s.users("tray-author", t.authors)
	if err != nil {
		return nil, err
	}
	users, err := s.users("tray-reader", t.readers)
	if err != nil {
		return nil, err
	}
	picture, err := benchPicture(b.seed)
	if err != nil {
		return nil, err
	}
	stage := b.progress.Begin("publish, follow and view", t.authors)
	defer stage.End()
	const together = 32
	g, ctx := errgroup.WithContext(ctx)
	for worker := range together {
		g.Go(func() error {
			conn, err := dialHTTP(s.server.API())
			if err != nil {
				return err
			}
			defer func() { _ = conn.close() }() // nothing is on its way
			form, random := newHTTPForm(picture, formStory("followers")), rand.New(rand.NewPCG(b.seed, uint64(worker)))
			for a := worker; a < len(authors) && ctx.Err() == nil; a += together {
				for range t.stories {
					if err := conn.do(form.publish(nil, authors[a], random), http.StatusCreated); err != nil {
						return err
					}
				}
				text, err := conn.field("id")
				if err != nil {
					return err
				}
				newest, err := mayfly.ParseID(text)
				if err != nil {
					return err
				}
				for _, reader := range users {
					if err := s.server.Node.Accounts().Relate(ctx, authors[a].id, reader.id, mayfly.Follower, 0, s.server.Now()); err != nil {
						return err
					}
					if a%2 == 0 {
						if err := s.server.Node.Stories().View(ctx, newest, mayfly.ViewerOf(reader.id), s.server.Now()); err != nil {
							return err
						}
					}
				}
				stage.Add(1)
			}
			return ctx.Err()
		})
	}
	return users, g.Wait()
}

// tray asks for the tray of a reader and returns it as it was sent.
func (r trayReader) tray() ([]byte, error) {
	err := r.conn.do([]byte("GET /v1/me/tray HTTP/1.1\r\nHost: mayfly\r\nAccept-Encoding: gzip\r\nAuthorization: Bearer "+r.token+"\r\n\r\n"), http.StatusOK)
	return r.conn.body, err
}

// check asks each reader's tray once and reads all of it. It returns the size of the
// largest without compression.
func (t trayTrial) check(readers []trayReader) (largest int, err error) {
	for _, r := range readers {
		body, err := r.tray()
		if err != nil {
			return 0, err
		}
		zipped, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return 0, err
		}
		var plain bytes.Buffer
		if _, err := plain.ReadFrom(zipped); err != nil {
			return 0, err
		}
		largest = max(largest, plain.Len())
		var tray wire.Tray
		if err := json.Unmarshal(plain.Bytes(), &tray); err != nil {
			return 0, err
		}
		unseen := 0
		for _, slot := range tray.Slots {
			if slot.Seen == nil {
				unseen++
			}
		}
		if len(tray.Slots) != t.authors || unseen != t.authors/2 {
			return 0, fmt.Errorf("a tray of %d authors, %d unseen", len(tray.Slots), unseen)
		}
	}
	return largest, nil
}

// ask asks so many rounds, one reader after the other. It returns how long each tray
// took, and the size of the largest.
func (t trayTrial) ask(ctx context.Context, b *bench, title string, readers []trayReader, rounds int, pace time.Duration) (*hdrhistogram.Histogram, int, error) {
	stage := b.progress.Begin(title, rounds*len(readers))
	defer stage.End()
	latency, largest := newLatencies(), 0
	due := time.Now()
	for n := range rounds * len(readers) {
		if err := loop.Rest(ctx, time.Until(due)); err != nil {
			return nil, 0, err
		}
		begun := time.Now()
		body, err := readers[n%len(readers)].tray()
		if err != nil {
			return nil, 0, err
		}
		if err := latency.RecordValue(time.Since(begun).Nanoseconds()); err != nil {
			return nil, 0, err
		}
		largest = max(largest, len(body))
		due = begun.Add(pace)
		stage.Add(1)
	}
	return latency, largest, nil
}
