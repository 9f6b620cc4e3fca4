//go:build servers

package kafkastore

import (
	"testing"

	"github.com/mayflyhq/mayfly"
)

// BenchmarkAppend500 appends pages of a sweep with sixteen walkers.
func BenchmarkAppend500(b *testing.B) {
	benchmarkAppend(b, 500)
}

// BenchmarkAppend1 appends single births.
func BenchmarkAppend1(b *testing.B) {
	benchmarkAppend(b, 1)
}

func benchmarkAppend(b *testing.B, page int) {
	o := brokerOptions(b)
	o.Partitions = 64
	s := open(b, o)
	events := make([]mayfly.Event, page)
	for i := range events {
		events[i] = life(b, 1)[0]
	}
	if err := s.Append(b.Context(), events...); err != nil { // the first append also finds the leaders
		b.Fatal(err)
	}
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := s.Append(b.Context(), events...); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N*page)/b.Elapsed().Seconds(), "events/s")
}

// BenchmarkRead500 reads and commits pages of 500.
func BenchmarkRead500(b *testing.B) {
	s := open(b, brokerOptions(b))
	const page = 500
	events := make([]mayfly.Event, page)
	for i := range events {
		events[i] = life(b, 1)[0]
	}
	for range b.N {
		if err := s.Append(b.Context(), events...); err != nil {
			b.Fatal(err)
		}
	}
	r := join(b, s, "bench")
	b.ResetTimer()
	for read := 0; read < b.N*page; {
		records, err := r.Next(b.Context(), page)
		if err == nil {
			err = r.Commit(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		read += len(records)
	}
	b.ReportMetric(float64(b.N*page)/b.Elapsed().Seconds(), "events/s")
}
