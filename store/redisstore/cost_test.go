//go:build servers

package redisstore

import (
	"fmt"
	"testing"
	"time"
)

// go test -tags servers -run NONE -bench . -benchtime 2s ./store/redisstore

func BenchmarkTake(b *testing.B) {
	for _, name := range []string{oneServer, redisCluster} {
		b.Run(name, func(b *testing.B) {
			l := open(b, at(b, name)).Limits()
			rate := hourly(1 << 30)
			for i := 0; b.Loop(); i++ {
				if taken, err := l.Take(b.Context(), fmt.Sprint("user", i%1000), rate, 1, 0); err != nil || !taken.OK {
					b.Fatal(taken, err)
				}
			}
		})
	}
}

func BenchmarkLease(b *testing.B) {
	s := open(b, at(b, oneServer))
	sub, err := s.Signals().Subscribe(b.Context(), nil)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		sub.Lease()
	}
}

func BenchmarkPublish(b *testing.B) {
	for _, name := range []string{oneServer, redisCluster} {
		for _, nodes := range []int{1, 3, 10} {
			b.Run(fmt.Sprintf("%s/%d nodes", name, nodes), func(b *testing.B) {
				o := at(b, name)
				var stores []*Store
				for range nodes {
					stores = append(stores, open(b, o))
				}
				s := stores[0].Signals()
				until(b, "every node holds a lease", func() bool {
					for _, s := range stores {
						if _, held := s.Signals().tracker.lease(s.Signals().now()); !held {
							return false
						}
					}
					return s.now() > s.noteGeneration(s.generation)+time.Second
				})
				for b.Loop() {
					if err := s.Publish(b.Context(), freshSignal()); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
