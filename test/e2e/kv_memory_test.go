package e2e

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly/store/storetest"
	"github.com/mayflyhq/mayfly/test/pace"
)

const (
	kvClients   = 10_000
	kvPerClient = 16 << 10  // bytes of resident memory that a connection may cost
	kvBudget    = 256 << 20 // what requests and answers of all connections share
)

// The real binary with ten thousand connections: its resident memory grows by 16 KiB for
// each at most, and by the budget of requests and answers where they hold some (C9). It
// collects garbage earlier than it does by default, where memory.limit decides.
func TestTenThousandConnectionsTakeABoundedMemory(t *testing.T) {
	pace.Slow(t, "opens 10,000 connections, several times")
	t.Setenv("GOGC", "100")
	const begun = "*10\r\n$1024\r\n"
	value := strings.Repeat("x", 64<<10)
	for _, c := range []struct {
		name   string
		budget int64
		begin  func(k *kvLoad, nc net.Conn, i int) error
	}{
		{"idle", 0, func(*kvLoad, net.Conn, int) error { return nil }},
		{"idle after commands and a pipeline", 0, func(k *kvLoad, nc net.Conn, i int) error {
			if err := k.asks(nc, "AUTH cache "+k.key, "+OK\r\n"); err != nil {
				return err
			}
			if err := k.asks(nc, fmt.Sprintf("SET key%d value EX 1000", i), "+OK\r\n"); err != nil {
				return err
			}
			return k.asks(nc, strings.Repeat("GET none\r\n", 299)+"GET none", strings.Repeat("$-1\r\n", 300))
		}},
		{"slow readers", kvBudget, func(k *kvLoad, nc net.Conn, i int) error {
			if err := k.asks(nc, "AUTH cache "+k.key, "+OK\r\n"); err != nil {
				return err
			}
			if i == 0 {
				if err := k.asks(nc, "SET big "+value[:60<<10], "+OK\r\n"); err != nil {
					return err
				}
				if err := k.asks(nc, "SET small "+value[:4000], "+OK\r\n"); err != nil {
					return err
				}
			}
			get := "GET small\r\n"
			if i%2 == 0 {
				get = "GET big\r\n"
			}
			return k.throws(nc, strings.Repeat(get, 300))
		}},
		{"garbage before AUTH", kvBudget, func(k *kvLoad, nc net.Conn, i int) error {
			if i%1000 == 0 { // it is sent until the server reads no more
				go func() { _, _ = io.Copy(nc, repeated("*2\r\n$3\r\nGET\r\n$4\r\nnone\r\n", 64<<20)) }()
				return nil
			}
			return k.throws(nc, begun+value[:1000])
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := startKVLoad(t)
			before := k.resident()
			stop := make(chan struct{})
			highest := make(chan int64, 1)
			go func() { highest <- k.highest(stop) }()
			k.connectAll(c.begin)
			time.Sleep(3 * time.Second) // the server works on what it has got
			close(stop)
			peak := <-highest
			most := before + c.budget + int64(len(k.conns))*kvPerClient
			each := (peak - before) >> 10 / int64(len(k.conns))
			t.Logf("%d connections, %s: resident memory %d MiB before, %d MiB at most: %d KiB a connection", len(k.conns), c.name, before>>20, peak>>20, each)
			if peak > most {
				t.Errorf("more than %d MiB", most>>20)
			}
		})
	}
}

// kvLoad is the real binary with many clients of the Redis protocol.
type kvLoad struct {
	*server
	key   string
	conns []net.Conn
}

func startKVLoad(t *testing.T) *kvLoad {
	t.Helper()
	at, folder := storetest.Address(t), t.TempDir()
	k := &kvLoad{server: serveIn(t, folder, fmt.Sprintf("listen:\n  kv: %s\n  max_connections_per_address: %d\nkv:\n  namespaces: [cache]\nmemory:\n  limit: 440MiB\ndisk:\n  floor: 64MiB\n", at, 2*kvClients))}
	k.redis = at
	k.key = k.addKVKey(folder, "cache")
	return k
}

// connectAll opens the connections, and begins each.
func (k *kvLoad) connectAll(begin func(k *kvLoad, nc net.Conn, i int) error) {
	k.Helper()
	n := kvClients
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		k.Fatal(err)
	}
	n = min(n, int(files.Cur)-1000) // the server has the same limit
	k.conns = make([]net.Conn, n)
	k.Cleanup(func() {
		for _, nc := range k.conns {
			if nc != nil {
				_ = nc.Close() // the server may have closed it
			}
		}
	})
	var next atomic.Int64
	var at sync.WaitGroup
	for range 8 {
		at.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !k.Failed(); i = int(next.Add(1)) - 1 {
				nc, err := net.Dial("tcp", k.redis)
				if err != nil {
					k.Error(err)
					return
				}
				k.conns[i] = nc
				if err := nc.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
					k.Error(err)
				}
				if err := begin(k, nc, i); err != nil {
					k.Errorf("connection %d: %v", i, err)
				}
			}
		})
	}
	at.Wait()
}

// asks sends a command and reads the answer.
func (k *kvLoad) asks(nc net.Conn, command, answer string) error {
	if err := nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := io.WriteString(nc, command+"\r\n"); err != nil {
		return err
	}
	got := make([]byte, len(answer))
	if n, err := io.ReadFull(nc, got); err != nil || string(got) != answer {
		return fmt.Errorf("%.20s: got %.80q, %w", command, got[:n], err)
	}
	return nil
}

// throws sends what fits, and reads nothing. The server may hang up.
func (k *kvLoad) throws(nc net.Conn, text string) error {
	if err := nc.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		return err
	}
	_, _ = io.WriteString(nc, text)
	return nil
}

// highest is the most resident memory that the server has until stop is closed.
func (k *kvLoad) highest(stop <-chan struct{}) (most int64) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", k.process.Process.Pid))
		var size, resident int64
		if _, scanned := fmt.Sscan(string(b), &size, &resident); err != nil || scanned != nil {
			k.Errorf("read the resident memory: %v", errors.Join(err, scanned))
		}
		most = max(most, resident*int64(os.Getpagesize()))
		select {
		case <-stop:
			return most
		case <-tick.C:
		}
	}
}
