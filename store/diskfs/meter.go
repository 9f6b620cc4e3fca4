package diskfs

import (
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Meter counts what goes to disk. The zero Meter is ready; safe for concurrent use.
type Meter struct {
	counts [categories]struct{ syncs, bytes atomic.Int64 }
}

// Count is how often something was synced, and how many bytes were written.
type Count struct {
	Syncs, Bytes int64
}

// Counts is what a Meter has counted.
type Counts struct {
	WAL    Count // write-ahead logs
	Tables Count // sorted tables
	Media  Count // media, in files of their own or apart from their keys
	Other  Count // manifests, markers, folders
}

type category uint8

const (
	wal category = iota
	tables
	media
	other
	categories
)

// mediaPrefix begins the name by which drivers call what they write for media.
const mediaPrefix = "mayfly-media"

func categoryOf(name string, written vfs.DiskWriteCategory) category {
	switch {
	case strings.HasSuffix(name, ".log"):
		return wal
	case strings.HasSuffix(name, ".sst"):
		return tables
	case strings.HasSuffix(name, ".blob"), strings.HasPrefix(string(written), mediaPrefix):
		return media
	default:
		return other
	}
}

// Read is what has been counted so far.
func (m *Meter) Read() Counts {
	read := func(c category) Count {
		return Count{Syncs: m.counts[c].syncs.Load(), Bytes: m.counts[c].bytes.Load()}
	}
	return Counts{WAL: read(wal), Tables: read(tables), Media: read(media), Other: read(other)}
}

// Total is the sum.
func (c Counts) Total() Count {
	return Count{
		Syncs: c.WAL.Syncs + c.Tables.Syncs + c.Media.Syncs + c.Other.Syncs,
		Bytes: c.WAL.Bytes + c.Tables.Bytes + c.Media.Bytes + c.Other.Bytes,
	}
}

// Since is what came on top of an earlier reading.
func (c Counts) Since(before Counts) Counts {
	return Counts{
		WAL: c.WAL.since(before.WAL), Tables: c.Tables.since(before.Tables),
		Media: c.Media.since(before.Media), Other: c.Other.since(before.Other),
	}
}

func (c Count) since(before Count) Count {
	return Count{Syncs: c.Syncs - before.Syncs, Bytes: c.Bytes - before.Bytes}
}
