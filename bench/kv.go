package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly/app/admin"
	"github.com/mayflyhq/mayfly/app/config"
)

// kvTrial writes and reads keys over the Redis protocol, with the next request when the
// answer to the last has come, in turns with redis-server and with Badger behind the
// same code of the protocol, if they are there, each in a process of its own. Then it
// reads more than the memory holds, and looks at the disk and at reads while the space of
// expired keys is taken back. Servers and clients share the machine.
type kvTrial struct {
	httpTrial     // warm-up and length of one turn
	conns     int // connections
	keys      int // that are written and read in the comparison
	cached    int // keys of the trial of memory
	stored    int // keys of the trial of reclaim

	every, look time.Duration // disk.reclaim_every in that trial, and how often it looks at the disk
	ahead       time.Duration // by how much its clock is past the expiry: keys are counted by the minute
}

func kvTrialOf(f benchForm) kvTrial {
	t := kvTrial{conns: 50, keys: 200_000, cached: 1_000_000, stored: 5_000_000}
	t.warm, t.lasts = time.Second, 5*time.Second
	t.every, t.look = config.Default().Disk.ReclaimEvery, time.Second
	if f == quickForm {
		t.keys, t.cached, t.stored = 50_000, 300_000, 100_000
		t.warm, t.lasts = 100*time.Millisecond, 400*time.Millisecond
		t.every, t.look, t.ahead = time.Second, 100*time.Millisecond, 2*time.Minute
	}
	return t
}

const (
	kvKey       = 16  // bytes of a key
	kvValue     = 64  // bytes of a value
	kvFill      = 500 // keys of a pipeline that fills a store
	kvFillers   = 4   // connections that do so
	kvNamespace = "bench"
	kvLives     = 100 * time.Hour
)

func (t kvTrial) run(ctx context.Context, b *bench, folder string) error {
	if err := t.compare(ctx, b, folder); err != nil {
		return err
	}
	if err := t.beyondMemory(ctx, b, filepath.Join(folder, "memory")); err != nil {
		return fmt.Errorf("beyond memory: %w", err)
	}
	if err := t.reclaim(ctx, b, filepath.Join(folder, "reclaim")); err != nil {
		return fmt.Errorf("reclaim: %w", err)
	}
	return nil
}

// compare measures the product and its peers by turns.
func (t kvTrial) compare(ctx context.Context, b *bench, folder string) (err error) {
	var sides []*kvSide
	defer func() {
		for _, s := range sides {
			err = errors.Join(err, s.stop())
		}
	}()
	start := func(s *kvSide, err error) (*kvSide, error) {
		if err != nil {
			return nil, err
		}
		sides = append(sides, s)
		return s, t.each(ctx, b, s, kvLoad{write: true, keys: t.keys}, func(a *kvAsker, key int) { a.set(key, kvLives) })
	}
	ours := make(map[string]*kvSide)
	for _, sync := range []string{"always", "everysec"} {
		server, err := startKV(ctx, filepath.Join(folder, sync), "", "kv.sync="+sync)
		if err != nil {
			return err
		}
		if ours[sync], err = start(&server.kvSide, nil); err != nil {
			return err
		}
	}
	peers := make(map[string]*kvSide)
	for name, open := range map[string]func() (*kvSide, error){
		"redis":          func() (*kvSide, error) { return redisSide(ctx, filepath.Join(folder, "redis"), "always") },
		"redis everysec": func() (*kvSide, error) { return redisSide(ctx, filepath.Join(folder, "redis-everysec"), "everysec") },
		"badger":         func() (*kvSide, error) { return badgerSide(ctx, b.peers, filepath.Join(folder, "badger")) },
	} {
		if peers[name], err = start(open()); err == nil {
			continue
		}
		if err := b.withoutPeer(ctx, "the ratios to "+name+" are", err); err != nil {
			return err
		}
	}
	for _, load := range []struct {
		name     string // of the figures
		suffix   string // of the ratio
		write    bool
		pipeline int
		ours     *kvSide
		peers    map[string]*kvSide
	}{
		{"set", "", true, 1, ours["always"], map[string]*kvSide{"redis": peers["redis"], "badger": peers["badger"]}},
		{"set", "_p16", true, 16, ours["always"], map[string]*kvSide{"redis": peers["redis"]}},
		{"get", "", false, 1, ours["always"], map[string]*kvSide{"redis": peers["redis"], "badger": peers["badger"]}},
		{"get", "_p16", false, 16, ours["always"], map[string]*kvSide{"redis": peers["redis"]}},
		{"set_everysec", "", true, 1, ours["everysec"], map[string]*kvSide{"redis": peers["redis everysec"]}},
	} {
		l := kvLoad{write: load.write, pipeline: load.pipeline, keys: t.keys, step: 1}
		mine, theirs := &pasteRates{}, make(map[string]*pasteRates)
		for range baselineTurns {
			if err := t.turn(ctx, b, load.ours, l, mine); err != nil {
				return err
			}
			for name, peer := range load.peers {
				if peer == nil {
					continue
				}
				if theirs[name] == nil {
					theirs[name] = &pasteRates{}
				}
				if err := t.turn(ctx, b, peer, l, theirs[name]); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
		figure := "kv." + load.name + load.suffix
		b.report.add(figure+"_per_s", median(mine.perSecond))
		b.report.add(figure+"_p99_ms", float64(mine.latency.ValueAtQuantile(99))/1e6)
		for name, rates := range theirs {
			b.report.add("kv."+load.name+"_ratio_"+name+load.suffix, medianRatio(mine.perSecond, rates.perSecond))
			b.report.add(figure+"_"+name+"_per_s", median(rates.perSecond))
		}
	}
	return nil
}

// turn measures one load on one side.
func (t kvTrial) turn(ctx context.Context, b *bench, s *kvSide, l kvLoad, into *pasteRates) (err error) {
	var askers []httpAsker
	defer func() { err = errors.Join(err, closeAll(askers)) }()
	for n := range t.conns {
		a, err := s.dial(l, b.seed+uint64(n))
		if err != nil {
			return err
		}
		askers = append(askers, a)
	}
	all, took := newLatencies(), time.Duration(0)
	for all.TotalCount() == 0 { // a busy machine may answer nothing in a short turn
		latency, err := t.measure(ctx, b, l.String(), askers, func() {})
		if err != nil {
			return err
		}
		all.Merge(latency)
		took += t.lasts
	}
	into.add(all, took)
	into.perSecond[len(into.perSecond)-1] *= float64(l.pipeline)
	return nil
}

// each sends a command for every key of the load, in long pipelines.
func (t kvTrial) each(ctx context.Context, b *bench, s *kvSide, l kvLoad, command func(a *kvAsker, key int)) error {
	stage := b.progress.Begin(l.String(), l.keys/max(l.step, 1))
	defer stage.End()
	g, ctx := errgroup.WithContext(ctx)
	for n := range kvFillers {
		g.Go(func() (err error) {
			a, err := s.dial(l, uint64(n))
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, a.close()) }()
			step := max(l.step, 1)
			for key := n * step; key < l.keys; {
				a.request, a.pipeline, a.read = a.request[:0], 0, a.read[:0]
				for ; key < l.keys && a.pipeline < kvFill; key += kvFillers * step {
					command(a, key)
					a.pipeline++
				}
				if err := errors.Join(a.send(), ctx.Err()); err != nil {
					return err
				}
				stage.Add(a.pipeline)
			}
			return nil
		})
	}
	return g.Wait()
}

// kvLoad is what a connection sends again and again: so many commands at once, each
// for one of the keys that step divides.
type kvLoad struct {
	write      bool
	pipeline   int
	keys, step int
	gone       bool // no key is there
}

func (l kvLoad) String() string {
	what := map[bool]string{true: "SET", false: "GET"}[l.write]
	if l.pipeline == 0 {
		return what + " of every key"
	}
	return fmt.Sprintf("%s, pipelines of %d", what, l.pipeline)
}

// kvSide is a server that speaks the Redis protocol.
type kvSide struct {
	address string
	key     string // of the namespace; "": no AUTH
	stop    func() error
}

func redisSide(ctx context.Context, folder, fsync string) (*kvSide, error) {
	p, err := startRedis(ctx, folder, fsync)
	if err != nil {
		return nil, err
	}
	return &kvSide{address: p.address, stop: p.stop}, nil
}

// badgerSide starts the program badger of bench/peers.
func badgerSide(ctx context.Context, programs, folder string) (*kvSide, error) {
	p, err := startHTTPPeer(ctx, programs, "badger", folder, 1)
	if err != nil {
		return nil, err
	}
	return &kvSide{address: p.URL, key: p.Users[0].Token, stop: p.stop}, nil
}

// dial opens a connection.
func (s *kvSide) dial(l kvLoad, seed uint64) (*kvAsker, error) {
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		return nil, err
	}
	a := &kvAsker{kvLoad: l, net: conn, in: bufio.NewReaderSize(conn, 16<<10), random: rand.New(rand.NewPCG(seed, 11))}
	if s.key == "" {
		return a, nil
	}
	opening := &kvAsker{kvLoad: kvLoad{write: true, pipeline: 1}, net: conn, in: a.in}
	opening.request = fmt.Appendf(nil, "*3\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(kvNamespace), kvNamespace, len(s.key), s.key)
	if err := opening.send(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return a, nil
}

// kvAsker is a connection. It speaks just enough of the protocol, because what it costs
// is taken from the servers, which run on the same cores.
type kvAsker struct {
	kvLoad
	net     net.Conn
	in      *bufio.Reader
	random  *rand.Rand
	request []byte
	read    []int // keys of the request whose values are compared
	value   []byte
}

func (a *kvAsker) close() error { return a.net.Close() }

func (a *kvAsker) next() []byte {
	a.request, a.read = a.request[:0], a.read[:0]
	for range a.pipeline {
		key := a.random.IntN(a.keys/a.step) * a.step
		if a.write {
			a.set(key, kvLives)
		} else {
			a.get(key)
		}
	}
	return a.request
}

func (a *kvAsker) get(key int) {
	a.request = appendKey(append(a.request, "*2\r\n$3\r\nGET\r\n"...), key)
	a.read = append(a.read, key)
}

// appendValue appends the value of a key: bytes that look random, and do not shrink.
func appendValue(to []byte, key int) []byte {
	for i := range uint64(kvValue / 8) { // SplitMix64
		z := (uint64(key)*(kvValue/8) + i + 1) * 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		to = binary.LittleEndian.AppendUint64(to, z^z>>31)
	}
	return to
}

// set appends a SET.
func (a *kvAsker) set(key int, lives time.Duration) {
	a.request = append(appendKey(append(a.request, "*5\r\n$3\r\nSET\r\n"...), key), "$64\r\n"...)
	a.request = appendValue(a.request, key)
	px := strconv.FormatInt(lives.Milliseconds(), 10)
	a.request = append(strconv.AppendInt(append(a.request, "\r\n$2\r\nPX\r\n$"...), int64(len(px)), 10), "\r\n"+px+"\r\n"...)
}

// appendKey appends a key of 16 bytes as an argument.
func appendKey(to []byte, key int) []byte {
	to = append(to, "$16\r\nkey:000000000000\r\n"...)
	for i := len(to) - 3; key > 0; i-- {
		to[i] = byte('0' + key%10)
		key /= 10
	}
	return to
}

func (a *kvAsker) ask() error {
	a.next()
	return a.send()
}

// send sends the request and reads the answers.
func (a *kvAsker) send() error {
	if _, err := a.net.Write(a.request); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	want := "+OK\r\n"
	if a.gone {
		want = "$-1\r\n"
	} else if !a.write {
		want = "$64\r\n"
	}
	for i := range a.pipeline {
		line, err := a.in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("read an answer: %w", err)
		}
		if string(line) != want {
			return fmt.Errorf("the answer is %.300q, not %q", line, want)
		}
		if a.write || a.gone {
			continue
		}
		a.value = append(appendValue(a.value[:0], a.read[i]), "\r\n"...)
		got, err := a.in.Peek(len(a.value))
		if err != nil {
			return fmt.Errorf("read a value: %w", err)
		}
		if !bytes.Equal(got, a.value) {
			return fmt.Errorf("the value of key %d is %x, not %x", a.read[i], got, a.value)
		}
		if _, err := a.in.Discard(len(got)); err != nil {
			return err
		}
	}
	return nil
}

// kvServer is the product as it is run: mayfly serve, in a process of its own.
type kvServer struct {
	kvSide
	*peer
}

// startKV starts this program as a server with its data in folder, with the default
// settings but for set. key is that of its namespace; "" makes one.
func startKV(ctx context.Context, folder, key string, set ...string) (_ *kvServer, err error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	data := filepath.Join(folder, "data")
	args := []string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	for _, one := range append(kvSettings(), set...) {
		args = append(args, "--set", one)
	}
	process := exec.CommandContext(ctx, program, args...)
	process.Dir = folder // a configuration file in the current folder is not for it
	process.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAYFLY_") })
	said := new(firstBytes)
	process.Stderr = said
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s := &kvServer{kvSide: kvSide{key: key}}
	if s.peer, err = startPeer(process); err != nil {
		return nil, err
	}
	s.kvSide.stop = s.leave
	defer func() {
		if err != nil {
			err = fmt.Errorf("mayfly serve: %w: %s", errors.Join(err, s.peer.stop()), bytes.TrimSpace(said.text))
		}
	}()
	var adminURL string
	lines := bufio.NewReader(out)
	for s.address == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if _, after, found := strings.Cut(line, "admin API at "); found {
			adminURL, _, _ = strings.Cut(after, ";")
		}
		if _, after, found := strings.Cut(line, "(Redis protocol) at "); found {
			s.address, _, _ = strings.Cut(after, ": ")
		}
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }() // until the program ends
	if key != "" {
		return s, nil
	}
	cfg := config.Default()
	cfg.Data = data
	return s, admin.Do(ctx, admin.Options{Config: cfg, URL: adminURL, By: "bench", Changes: true}, func(ctx context.Context, api admin.API) error {
		made, err := api.AddKVKey(ctx, kvNamespace, "benchmark")
		s.key = made.Key
		return err
	})
}

// kvSettings are the settings of every server of the trial.
func kvSettings() []string {
	return []string{"listen.kv=127.0.0.1:0", "kv.namespaces=" + kvNamespace, "kv.quota=1024GiB"}
}

// leave lets the server stop in order.
func (s *kvServer) leave() error {
	if err := s.process.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return <-s.exited
}
