package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/loop"
)

// redisPeer is a redis-server of the benchmark, with its append-only file on the disk
// that is measured.
type redisPeer struct {
	*peer
	client  rueidis.Client
	address string
}

// startRedis starts redis-server on a free port of the loopback. With fsync "always" it
// syncs every write before it answers. An error means that there is no server to
// compare with.
func startRedis(ctx context.Context, folder, fsync string) (*redisPeer, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	folder, err = filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	process, err := startPeer(exec.CommandContext(ctx, program, "--bind", "127.0.0.1", "--port", port, "--dir", folder,
		"--appendonly", "yes", "--appendfsync", fsync, "--save", "", "--daemonize", "no", "--logfile", "redis.log"))
	if err != nil {
		return nil, err
	}
	p := &redisPeer{peer: process, address: address}
	if err := p.connect(ctx, address); err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

// freeAddress returns an address of the loopback that was free a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// connect waits until the server answers, for ten seconds at most.
func (p *redisPeer) connect(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true, DisableRetry: true,
			ClientSetInfo: rueidis.DisableClientSetInfo, ConnWriteTimeout: time.Minute,
		})
		if err == nil {
			p.client = client
			return nil
		}
		select {
		case exit := <-p.exited:
			p.exited <- exit
			return fmt.Errorf("redis-server ended: %w", errors.Join(exit, err))
		default:
		}
		if waited := loop.Rest(ctx, 20*time.Millisecond); waited != nil {
			return fmt.Errorf("redis-server does not answer at %s: %w", address, err)
		}
	}
}

// stop ends the server.
func (p *redisPeer) stop() error {
	if p.client != nil {
		p.client.Close()
	}
	return p.peer.stop()
}

// redisDrain is a turn of the baseline: stories whose ends are members of sorted
// sets, one set for each shard, are expired in pipelined batches of 500. Each gets
// an update of its row (HSET) and an event (XADD); ZREM removes the batch from the
// set after that.
type redisDrain struct {
	peer    *redisPeer
	stories int
	event   string // as many bytes as an event of the product has
}

const redisBatch = 500

// run loads the stories, drains them, and returns how many a second were drained.
func (d redisDrain) run(ctx context.Context) (float64, error) {
	if err := d.peer.client.Do(ctx, d.peer.client.B().Flushall().Build()).Error(); err != nil {
		return 0, fmt.Errorf("redis: empty the server: %w", err)
	}
	if err := d.shards(ctx, d.load); err != nil {
		return 0, fmt.Errorf("redis: load: %w", err)
	}
	start := time.Now()
	if err := d.shards(ctx, d.drain); err != nil {
		return 0, fmt.Errorf("redis: drain: %w", err)
	}
	took := time.Since(start)
	events, err := d.peer.client.Do(ctx, d.peer.client.B().Xlen().Key("events").Build()).AsInt64()
	if err == nil && events != int64(d.stories) {
		err = fmt.Errorf("redis: %d stories were due, and the stream has %d events", d.stories, events)
	}
	return float64(d.stories) / took.Seconds(), err
}

func (d redisDrain) shards(ctx context.Context, do func(ctx context.Context, shard int, due string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for shard := range mayfly.Shards {
		g.Go(func() error { return do(ctx, shard, "due:"+strconv.Itoa(shard)) })
	}
	return g.Wait()
}

// load writes the rows of a shard and its sorted set.
func (d redisDrain) load(ctx context.Context, shard int, due string) error {
	b := d.peer.client.B()
	var commands rueidis.Commands
	flush := func() error {
		defer func() { commands = commands[:0] }()
		return d.send(ctx, commands)
	}
	for i := shard; i < d.stories; i += mayfly.Shards {
		var id [16]byte
		binary.BigEndian.PutUint64(id[:], uint64(i)*0x9e3779b97f4a7c15)
		binary.BigEndian.PutUint64(id[8:], uint64(i))
		commands = append(commands,
			b.Hset().Key("story:"+string(id[:])).FieldValue().FieldValue("state", "1").FieldValue("generation", "1").FieldValue("text", loadCaption).Build(),
			b.Zadd().Key(due).ScoreMember().ScoreMember(float64(i), string(id[:])).Build())
		if len(commands) >= 2*redisBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// drain expires the stories of a shard.
func (d redisDrain) drain(ctx context.Context, _ int, due string) error {
	b := d.peer.client.B()
	commands := make(rueidis.Commands, 0, 2*redisBatch+1)
	for {
		page := b.Zrangebyscore().Key(due).Min("-inf").Max("+inf").Limit(0, redisBatch).Build()
		ids, err := d.peer.client.Do(ctx, page).AsStrSlice()
		if err != nil || len(ids) == 0 {
			return err
		}
		commands = commands[:0]
		for _, id := range ids {
			commands = append(commands,
				b.Hset().Key("story:"+id).FieldValue().FieldValue("state", "2").FieldValue("generation", "2").Build(),
				b.Xadd().Key("events").Id("*").FieldValue().FieldValue("e", d.event).Build())
		}
		commands = append(commands, b.Zrem().Key(due).Member(ids...).Build())
		if err := d.send(ctx, commands); err != nil {
			return err
		}
	}
}

func (d redisDrain) send(ctx context.Context, commands rueidis.Commands) error {
	if len(commands) == 0 {
		return nil
	}
	for _, r := range d.peer.client.DoMulti(ctx, commands...) {
		if err := r.Error(); err != nil {
			return err
		}
	}
	return nil
}
