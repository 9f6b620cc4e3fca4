package resp_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly/store"
	"github.com/mayflyhq/mayfly/store/kvpebble"
)

// BenchmarkCommands sends commands through 50 connections, in pipelines of 1 and of 16,
// to a server on the embedded store in memory. An operation is one command.
func BenchmarkCommands(b *testing.B) {
	const conns, keys = 50, 1000
	open := change{store: func(store.KV) store.KV {
		s, err := kvpebble.Open(kvpebble.Options{FS: vfs.NewMem(), Dir: "kv", Sync: kvpebble.EverySec})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		return s
	}}
	e := serve(b, open)
	e.realTime.Store(true)
	value := strings.Repeat("v", 64)
	fill := e.connect()
	for i := range keys {
		fill.want("OK", "SET", fmt.Sprintf("key:%012d", i), value)
	}
	for _, command := range []struct {
		name, answer string
		request      func(key string) string
	}{
		{"get", "$64\r\n" + value + "\r\n", func(key string) string { return encode("GET", key) }},
		{"set", "+OK\r\n", func(key string) string { return encode("SET", key, value, "PX", "360000000") }},
	} {
		for _, pipeline := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/p%d", command.name, pipeline), func(b *testing.B) {
				var left atomic.Int64
				left.Store(int64(b.N))
				var clients []net.Conn
				for range conns {
					clients = append(clients, e.connect().nc)
				}
				b.ReportAllocs()
				b.ResetTimer()
				var wg sync.WaitGroup
				for n, nc := range clients {
					wg.Go(func() {
						request := strings.Repeat(command.request(fmt.Sprintf("key:%012d", n)), pipeline)
						in, answers := bufio.NewReader(nc), make([]byte, pipeline*len(command.answer))
						for left.Add(-int64(pipeline)) > -int64(pipeline) {
							if _, err := io.WriteString(nc, request); err != nil {
								b.Error(err)
								return
							}
							if _, err := io.ReadFull(in, answers); err != nil {
								b.Error(err)
								return
							}
							if string(answers[:len(command.answer)]) != command.answer {
								b.Errorf("answer %q", answers)
								return
							}
						}
					})
				}
				wg.Wait()
			})
		}
	}
}
