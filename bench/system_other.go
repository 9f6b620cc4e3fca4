//go:build !linux

package bench

import (
	"os"
	"runtime"
	"time"
)

// alarm wakes a goroutine at an instant, as exactly as Go's timers can.
type alarm struct{}

func newAlarm() (*alarm, error) { return &alarm{}, nil }

func (*alarm) until(at time.Time) error {
	time.Sleep(time.Until(at))
	return nil
}

func (*alarm) close() error { return nil }

// inMemory is not known on this system.
func inMemory(string) bool { return false }

// residentBytes is what the Go runtime has from the system: the resident set
// itself cannot be asked for everywhere.
func residentBytes() (int64, error) {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.Sys - m.HeapReleased), nil
}

// allocated is the size of a file.
func allocated(info os.FileInfo) int64 { return info.Size() }
