package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/server"
	"github.com/mayflyhq/mayfly/product/account"
)

// httpTrial sends requests to a whole server over sockets of the loopback: it
// publishes, then reads, each over so many connections, with the next request when
// the answer to the last has come, in turns with a bare net/http server; then in
// turns with PocketBase, if there is one. Servers and clients share the machine.
type httpTrial struct {
	writers, readers int // connections
	warm, lasts      time.Duration
	authors          int // who publish
	viewers          int // who read
	stories          int // that are read
	peerLive         int // live stories of each author in the comparison with a peer
}

func httpTrialOf(f benchForm) httpTrial {
	t := httpTrial{writers: 64, readers: 32, warm: 3 * time.Second, lasts: 30 * time.Second, authors: 10_000, viewers: 2_000, stories: 4_000, peerLive: mayfly.DefaultLive}
	if f == quickForm {
		t.warm, t.lasts, t.authors, t.viewers, t.stories = time.Second, 5*time.Second, 3_000, 1_000, 2_000
	}
	return t
}

// readAuthors is how many authors the stories that are read have.
const readAuthors = 100

func (t httpTrial) run(ctx context.Context, b *bench, folder string) (err error) {
	s, err := openHTTPBench(ctx, folder, func(*config.Config) {})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx)) }()
	writers, err := t.newWriters(s, b.seed)
	if err != nil {
		return err
	}
	creates := httpPair{what: "creates", title: "publish", askers: writers, request: slices.Clone(writers[0].next()), want: http.StatusCreated, writes: true}
	if err := t.compare(ctx, b, s, folder, creates); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	readers, err := t.newReaders(ctx, b, s)
	if err != nil {
		return err
	}
	reads := httpPair{what: "reads", title: "read", askers: readers, request: slices.Clone(readers[0].next()), want: http.StatusOK}
	if err := t.compare(ctx, b, s, folder, reads); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if err := t.comparePocketBase(ctx, b, s, folder); err != nil {
		return fmt.Errorf("PocketBase: %w", err)
	}
	b.addIO("http", s.io())
	return nil
}

func (t httpTrial) report(b *bench, what string, latency *hdrhistogram.Histogram) {
	b.report.add("http."+what+"_per_s", float64(latency.TotalCount())/t.lasts.Seconds())
	b.report.add("http."+what+"_p50_ms", float64(latency.ValueAtQuantile(50))/1e6)
	b.report.add("http."+what+"_p99_ms", float64(latency.ValueAtQuantile(99))/1e6)
}

// httpAsker sends one request after the other on a connection of its own. Any
// answer but the expected one is an error, and ends the trial.
type httpAsker interface {
	next() []byte // the request that ask sends; valid until the next call
	ask() error
	close() error
}

// measure lets the askers ask, and records what was both asked and answered after
// the warm-up. It calls left whenever an asker is through.
func (t httpTrial) measure(ctx context.Context, b *bench, what string, askers []httpAsker, left func()) (*hdrhistogram.Histogram, error) {
	latencies := make([]*hdrhistogram.Histogram, len(askers))
	err := b.progress.Timed(ctx, fmt.Sprintf("%s, %d connections", what, len(askers)), t.warm+t.lasts, func(ctx context.Context) error {
		from := time.Now().Add(t.warm)
		g, ctx := errgroup.WithContext(ctx)
		for n, asker := range askers {
			latencies[n] = newLatencies()
			g.Go(func() error {
				defer left()
				return askUntil(ctx, asker, latencies[n], from, from.Add(t.lasts))
			})
		}
		return g.Wait()
	})
	all := newLatencies()
	for _, l := range latencies {
		all.Merge(l)
	}
	return all, err
}

func askUntil(ctx context.Context, asker httpAsker, latency *hdrhistogram.Histogram, from, until time.Time) error {
	for {
		begun := time.Now()
		if !begun.Before(until) || ctx.Err() != nil {
			return ctx.Err()
		}
		if err := asker.ask(); err != nil {
			return err
		}
		if ended := time.Now(); !begun.Before(from) && ended.Before(until) {
			if err := latency.RecordValue(ended.Sub(begun).Nanoseconds()); err != nil {
				return err
			}
		}
	}
}

// httpBench is the server of the trial, with its log in a file as an operator's.
type httpBench struct {
	server *server.Local
	log    *os.File
}

func openHTTPBench(ctx context.Context, folder string, set func(*config.Config)) (*httpBench, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	cfg := httpBenchConfig(folder)
	set(&cfg)
	log, err := os.Create(filepath.Join(folder, "log"))
	if err != nil {
		return nil, err
	}
	s := &httpBench{log: log}
	s.server, err = server.Start(ctx, cfg, server.LocalOptions{Log: slog.New(slog.NewTextHandler(io.Writer(log), nil))})
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return s, nil
}

// httpBenchConfig is the product's, but for limits that no asker reaches: they
// are counted all the same.
func httpBenchConfig(folder string) config.Config {
	cfg := config.Default()
	cfg.Data = filepath.Join(folder, "data")
	cfg.Listen.API, cfg.Listen.Admin = "127.0.0.1:0", ""
	many := config.Rate{Count: math.MaxInt32, Per: time.Hour}
	cfg.Rates = config.Rates{Writes: many, Reads: many, AddressReads: many, AddressWrites: many}
	cfg.Stories.Live = 10_000
	return cfg
}

func (s *httpBench) io() benchIO {
	total := s.server.Store.Meter.Read().Total()
	return benchIO{fsyncs: total.Syncs, bytes: total.Bytes}
}

func (s *httpBench) close(ctx context.Context) error {
	return errors.Join(s.server.Stop(ctx), s.log.Close())
}

// httpUser is a user with a token.
type httpUser struct {
	id    mayfly.UserID
	token string
}

func (s *httpBench) user(name string, scope account.Scope) (httpUser, error) {
	user := mayfly.HomeUserOf(s.server.Config.Tokens.Issuer, name)
	token, err := s.server.Node.Accounts().Mint(user, name, []account.Scope{scope}, 2*time.Hour, s.server.Now())
	return httpUser{user, string(token)}, err
}

func (s *httpBench) users(role string, n int) ([]httpUser, error) {
	all := make([]httpUser, n)
	for i := range all {
		var err error
		if all[i], err = s.user(fmt.Sprintf("%s-%d", role, i), account.User); err != nil {
			return nil, err
		}
	}
	return all, nil
}
