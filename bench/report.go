package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// benchFigure is one figure that a trial reports. Scripts rely on names and units:
// their meaning never changes.
type benchFigure struct {
	name string
	unit string
	held benchBound
	what string
}

// benchBound is the bar of a figure; the zero bound is no bar.
type benchBound struct {
	sign  string // ≤ or ≥
	value float64
}

func atMost(v float64) benchBound  { return benchBound{"≤", v} }
func atLeast(v float64) benchBound { return benchBound{"≥", v} }

func (b benchBound) met(v float64) bool {
	switch b.sign {
	case "≤":
		return v <= b.value
	case "≥":
		return v >= b.value
	default:
		return true
	}
}

func benchFigures() []benchFigure {
	var nothing benchBound
	return []benchFigure{
		{"gate.expired_ns", "ns", nothing, "verdict on an expired id, by the id alone"},
		{"gate.ratio_bloom", "1", atMost(1), "that time / look-up of an id that is in a Bloom filter of 10 M ids, by turns"},
		{"gate.bloom_ns", "ns", nothing, "that look-up"},
		{"gate.expired_allocs", "1", atMost(0), "allocations of it"},
		{"gate.live_ns", "ns", atMost(1000), "verdict on a live cached item"},
		{"gate.live_allocs", "1", nothing, "allocations of it"},
		{"gate.uncached_ns", "ns", nothing, "live item that is not in the gate's cache"},
		{"gate.author_ns", "ns", nothing, "expired item for its author, cached"},

		{"births.metadata_per_s", "1/s", nothing, "durable births without media, 64 writers"},
		{"births.metadata_p50_ms", "ms", nothing, "of one of them"},
		{"births.metadata_p99_ms", "ms", nothing, "of one of them"},
		{"births.ratio_bare", "1", nothing, "births without media / bare writes of the same bytes, writers and fsyncs, by turns"},
		{"births.media_per_s", "1/s", nothing, "with one opaque medium of 8 KiB each"},
		{"births.media_p50_ms", "ms", nothing, "of upload and birth"},
		{"births.media_p99_ms", "ms", nothing, "of upload and birth"},
		{"births.keyed_per_s", "1/s", nothing, "without media, with an idempotency key each"},
		{"births.keyed_p50_ms", "ms", nothing, "of one of them"},
		{"births.keyed_p99_ms", "ms", nothing, "of one of them"},

		{"sweep.stories_per_s", "1/s", nothing, "three due minutes, unpaced, 16 shards at once"},
		{"sweep.ratio_bare", "1", nothing, "that rate / bare Pebble batches of the same bytes, a sync for each 500, by turns"},
		{"sweep.ratio_redis", "1", atLeast(2), "that rate / drain of a sorted set of Redis with HSET and XADD, appendfsync always, by turns"},
		{"sweep.redis_per_s", "1/s", nothing, "stories of that drain"},
		{"sweep.stories", "1", nothing, "in it"},
		{"sweep.bytes_per_story", "B", nothing, "written to disk, compactions included"},
		{"sweep.allocs_per_story", "1", nothing, "allocations, background included"},

		{"archive.stories_per_s", "1/s", nothing, "hot to cold, verified, hot deleted; unpaced, one medium of 8 KiB each"},
		{"archive.ratio_bare", "1", nothing, "that rate / bare writes of the same bytes, writers and fsyncs, by turns"},
		{"archive.stories", "1", nothing, "in it"},
		{"archive.bytes_per_story", "B", nothing, "written to disk, compactions included"},
		{"archive.stories_per_fsync", "1", nothing, "stories for each fsync"},

		{"reads.p99_ratio", "1", nothing, "p99 swept / p99 at rest, median of the pairs of rounds"},
		{"reads.per_s", "1/s", nothing, "asked, on a schedule fixed in advance"},
		{"reads.idle_p50_us", "us", nothing, "at rest, from the scheduled instant"},
		{"reads.idle_p99_us", "us", nothing, "median of the rounds"},
		{"reads.swept_p50_us", "us", nothing, "while stories are swept"},
		{"reads.swept_p99_us", "us", atMost(500), "median of the rounds"},
		{"reads.swept_per_s", "1/s", nothing, "stories swept a second during those rounds"},
		{"reads.lag_s", "s", nothing, "how late the sweep was at most"},
		{"reads.archive_p99_ratio", "1", nothing, "p99 with sweep and archive / p99 at rest, median of the pairs that have both"},
		{"reads.archived_p99_us", "us", atMost(2000), "median of the rounds with sweep and archive"},
		{"reads.archived_per_s", "1/s", nothing, "stories archived a second during those rounds"},

		{"growth.sweep_ratio", "1", atMost(1.15), "cost of sweeping a story, many live items / few; median of the pairs"},
		{"growth.few_items", "1", nothing, "live items: few"},
		{"growth.many_items", "1", nothing, "live items: many"},
		{"growth.few_ns_per_story", "ns", nothing, "sweep with few"},
		{"growth.many_ns_per_story", "ns", nothing, "sweep with many"},
		{"growth.restart_s", "s", atMost(2), "open, start and answer a read, with many; the slowest"},
		{"growth.bytes_per_item", "B", nothing, "on disk, with many: row, body, indexes, event"},
		{"growth.rss_mib", "MiB", atMost(512), "resident set at most, with many, under births, reads and sweep"},
		{"growth.rss_few_mib", "MiB", nothing, "the same with few"},
		{"growth.load_per_s", "1/s", nothing, "items loaded in bulk"},

		{"http.creates_per_s", "1/s", nothing, "stories published over HTTP, durable, one JPEG of 8 KiB each"},
		{"http.creates_p50_ms", "ms", nothing, "of one of them"},
		{"http.creates_p99_ms", "ms", nothing, "of one of them"},
		{"http.creates_ratio_bare", "1", nothing, "that rate / bare net/http with the same bytes and fsyncs, by turns"},
		{"http.reads_per_s", "1/s", nothing, "live stories opened over HTTP, each gated for a viewer with a token"},
		{"http.reads_p50_ms", "ms", nothing, "of one of them"},
		{"http.reads_p99_ms", "ms", nothing, "of one of them"},
		{"http.reads_ratio_bare", "1", nothing, "that rate / bare net/http with the same bytes, by turns"},
		{"http.creates_ratio_pocketbase", "1", atLeast(2), "published by 32 authors with 100 live stories each, row and photo synced before the answer / PocketBase, which syncs neither (WAL, synchronous=NORMAL)"},
		{"http.reads_ratio_pocketbase", "1", atLeast(5), "JSON of a live story / of a record of PocketBase, by turns"},
		{"http.bytes_ratio_pocketbase", "1", atLeast(3), "photo of 8 KiB of a live story / file of PocketBase, by turns"},
		{"http.creates_pocketbase_per_s", "1/s", nothing, "records created by PocketBase"},
		{"http.reads_pocketbase_per_s", "1/s", nothing, "records read from PocketBase"},
		{"http.bytes_pocketbase_per_s", "1/s", nothing, "files read from PocketBase"},

		{"paste.create_ratio", "1", atLeast(2), "pastes of 1 KiB created, content and record synced before the answer / rustypaste, which syncs nothing; 1,000 stored in each, by turns"},
		{"paste.raw_ratio", "1", atLeast(2), "bytes of a paste read / rustypaste; 1,000 stored in each, by turns"},
		{"paste.create_many_ratio", "1", atLeast(2), "creates / rustypaste, 100,000 stored in each, one connection"},
		{"paste.raw_many_ratio", "1", atLeast(2), "reads / rustypaste, 100,000 stored in each, one connection"},
		{"paste.create_bare_ratio", "1", atLeast(0.5), "creates / a loop that writes and syncs 1 KiB, then a record, without HTTP"},
		{"paste.create_bare_parallel_ratio", "1", nothing, "creates / as many such loops as connections, each with files of its own"},
		{"paste.raw_bare_ratio", "1", atLeast(0.6), "reads / bare net/http that sends the same header and bytes from memory"},
		{"paste.create_growth_ratio", "1", atMost(1.25), "p50 of a create with 1 M stored (20,000 with --quick) / with 1,000"},
		{"paste.create_per_s", "1/s", nothing, "pastes created over HTTP, durable, 32 connections, 1,000 stored"},
		{"paste.create_p50_ms", "ms", nothing, "of one of them"},
		{"paste.create_p99_ms", "ms", nothing, "of one of them"},
		{"paste.create_rustypaste_per_s", "1/s", nothing, "created by rustypaste, 1,000 stored"},
		{"paste.raw_per_s", "1/s", atLeast(10_000), "bytes of pastes read over HTTP, 32 connections"},
		{"paste.raw_p99_ms", "ms", atMost(80), "of one of them"},
		{"paste.raw_rustypaste_per_s", "1/s", nothing, "read from rustypaste, 1,000 stored"},
		{"paste.edge_hit_p99_ms", "ms", atMost(10), "of a read that Varnish answers from its cache, Zipf (1.1), 8 connections"},
		{"paste.edge_hit_share", "1", nothing, "of these reads, once the cache is warm"},
		{"paste.page_warm_per_s", "1/s", nothing, "pages with highlighting, in the cache of pages"},
		{"paste.page_cold_per_s", "1/s", nothing, "pages that are highlighted for the request"},
		{"paste.create_10m_mib_s", "MiB/s", nothing, "pastes of 10 MiB created, durable, one connection"},
		{"paste.record_bytes", "B", atMost(maxPasteRecord), "values of row and body in the store, the largest"},

		{"graph.followers", "1", nothing, "followers of one author"},
		{"graph.follows_per_s", "1/s", nothing, "follows a second, 8 side by side, on a disk that is not synced"},
		{"graph.page_p99_ms", "ms", nothing, "p99 of a page of 200 followers, all pages in turn"},
		{"graph.page_max_ms", "ms", nothing, "the slowest page"},
		{"graph.bytes_per_edge", "B", nothing, "keys and values of an edge in both directions"},
		{"graph.partitions", "1", nothing, "partitions of the followers"},
		{"graph.largest_partition_mb", "MB", atMost(100), "the largest of them"},

		{"tray.p99_ms", "ms", atMost(20), "a tray of 1,000 authors with live stories over HTTP, its relations not cached"},
		{"tray.p50_ms", "ms", nothing, "of one of them"},
		{"tray.bytes", "B", atMost(64 << 10), "of it as it is sent to a client that accepts gzip, the largest"},
		{"tray.plain_bytes", "B", nothing, "of it without compression"},
		{"tray.again_p99_ms", "ms", nothing, "the same tray at once again, everything cached"},
		{"tray.asked", "1", nothing, "trays that were measured"},

		{"kv.set_ratio_redis", "1", atLeast(1), "keys set, 50 connections, values of 64 B, synced before the answer / redis-server with appendfsync always, by turns"},
		{"kv.set_ratio_redis_p16", "1", atLeast(0.5), "the same in pipelines of 16"},
		{"kv.get_ratio_redis", "1", atLeast(0.5), "keys read / redis-server, by turns"},
		{"kv.get_ratio_redis_p16", "1", atLeast(0.3), "the same in pipelines of 16"},
		{"kv.set_ratio_badger", "1", atLeast(1.5), "keys set / Badger with SyncWrites and the time to live, behind the same code of the protocol, by turns"},
		{"kv.get_ratio_badger", "1", atLeast(1.5), "keys read / the same Badger, by turns"},
		{"kv.set_everysec_ratio_redis", "1", atLeast(0.5), "keys set, synced every second / redis-server with appendfsync everysec, by turns"},
		{"kv.beyond_memory_ratio", "1", nothing, "keys read from data of ten times kv.memory / the same with all of it in memory, by turns"},
		{"kv.reclaim_p99_ratio", "1", atMost(1.5), "p99 of a read while the space of expired keys is taken back / at rest, median of the pairs"},
		{"kv.disk_over_live", "1", atMost(1.3), "(disk - 128 MiB, at least 0) / bytes of live keys and values, when the space of the other half has been taken back"},
		{"kv.disk_mib", "MiB", nothing, "on disk then"},
		{"kv.disk_over_live_badger", "1", nothing, "the same of Badger, as long after the expiry"},
		{"kv.disk_badger_mib", "MiB", nothing, "on Badger's disk then"},
		{"kv.live_mib", "MiB", nothing, "keys and values that live then"},
		{"kv.reclaim_s", "s", atMost(600), "from the expiry until then, without traffic"},
		{"kv.reclaim_flushes", "1", nothing, "flushes of memtables meanwhile"},
		{"kv.reclaim_compared", "1", nothing, "live keys read after that, each with its value"},
		{"kv.reclaim_gone", "1", nothing, "expired keys that were absent"},
		{"kv.reclaim_p99_ms", "ms", nothing, "p99 of a read meanwhile, 50 connections"},
		{"kv.reclaim_rest_p99_ms", "ms", nothing, "at rest"},
		{"kv.get_beyond_memory_per_s", "1/s", nothing, "keys read from data of ten times kv.memory"},
		{"kv.get_cached_per_s", "1/s", nothing, "with all of it in memory"},
		{"kv.set_per_s", "1/s", nothing, "keys set over the Redis protocol, durable, 50 connections"},
		{"kv.set_p99_ms", "ms", nothing, "of one of them"},
		{"kv.set_redis_per_s", "1/s", nothing, "set in redis-server, appendfsync always"},
		{"kv.set_badger_per_s", "1/s", nothing, "set in Badger"},
		{"kv.set_p16_per_s", "1/s", nothing, "keys set in pipelines of 16"},
		{"kv.set_p16_p99_ms", "ms", nothing, "of a pipeline"},
		{"kv.set_p16_redis_per_s", "1/s", nothing, "set in redis-server in pipelines of 16, appendfsync always"},
		{"kv.get_per_s", "1/s", nothing, "keys read, 50 connections"},
		{"kv.get_p99_ms", "ms", nothing, "of one of them"},
		{"kv.get_redis_per_s", "1/s", nothing, "read from redis-server"},
		{"kv.get_badger_per_s", "1/s", nothing, "read from Badger"},
		{"kv.get_p16_per_s", "1/s", nothing, "keys read in pipelines of 16"},
		{"kv.get_p16_p99_ms", "ms", nothing, "of a pipeline"},
		{"kv.get_p16_redis_per_s", "1/s", nothing, "read from redis-server in pipelines of 16"},
		{"kv.set_everysec_per_s", "1/s", nothing, "keys set with kv.sync everysec, 50 connections"},
		{"kv.set_everysec_p99_ms", "ms", nothing, "of one of them"},
		{"kv.set_everysec_redis_per_s", "1/s", nothing, "set in redis-server, appendfsync everysec"},

		{"home.pull_ratio_postgres", "1", atLeast(2), "pages of 20 posts of 200 authors / PostgreSQL with an index by author and time, behind bare net/http: author_id = ANY(…) ORDER BY created_at DESC LIMIT 20, by turns"},
		{"home.pull_ratio_postgres_by_time", "1", nothing, "the same, with an index by time too: its best case, as every post is of an author who is followed"},
		{"home.pull_per_s", "1/s", nothing, "pages of homes, 16 connections, 1,000 posts of each author (100 with --quick)"},
		{"home.pull_p50_ms", "ms", nothing, "of one of them"},
		{"home.pull_p99_ms", "ms", nothing, "of one of them"},
		{"home.pull_postgres_per_s", "1/s", nothing, "the same pages from PostgreSQL with the index by author and time"},
		{"home.pull_postgres_p99_ms", "ms", nothing, "of one of them"},
		{"posts.creates_per_s", "1/s", nothing, "posts published over HTTP, durable, 64 connections"},
		{"posts.creates_p99_ms", "ms", nothing, "of one of them"},
		{"posts.creates_stories_per_s", "1/s", nothing, "stories with a picture published by turns with them"},

		{"cluster.sweep_ratio", "1", atLeast(8), "batches of 500 / single rows, by turns, median of the pairs"},
		{"cluster.sweep_batch_per_s", "1/s", nothing, "stories swept, one conditional batch for 500 of them, 16 clients"},
		{"cluster.sweep_single_per_s", "1/s", nothing, "stories swept, one conditional write each, the same clients and table"},
		{"cluster.births_per_s", "1/s", nothing, "births without media and key, 32 writers, one node"},
		{"cluster.births_p50_ms", "ms", nothing, "of one of them"},
		{"cluster.births_p99_ms", "ms", nothing, "of one of them"},
		{"cluster.births_keyed_per_s", "1/s", nothing, "with an idempotency key each: a conditional write more"},
		{"cluster.births_keyed_p50_ms", "ms", nothing, "of one of them"},
		{"cluster.births_keyed_p99_ms", "ms", nothing, "of one of them"},
		{"cluster.archive_per_s", "1/s", nothing, "hot to cold, verified, hot deleted; two nodes, unpaced, one medium of 8 KiB each"},
		{"cluster.end_to_end_per_s", "1/s", nothing, "published with key and medium, expired, archived, two nodes; lifetime and window left out"},
		{"cluster.end_to_end_s", "s", nothing, "from the first publish until the last is archived, these included"},
		{"cluster.stories", "1", nothing, "that lived so"},
		{"cluster.retries", "1", nothing, "publishes that were not answered, and sent again with the same key"},
		{"cluster.sweep_lag_p50_ms", "ms", nothing, "from the deadline until a reader of the log has the expiry"},
		{"cluster.sweep_lag_p99_ms", "ms", atMost(60_000), "the same"},
		{"cluster.rss_mib", "MiB", nothing, "resident set at most meanwhile: two nodes, their clients and the reader"},
		{"cluster.lost", "1", atMost(0), "audit: acknowledged, and not there with every byte and event"},
		{"cluster.resurrected", "1", atMost(0), "audit: expired, and active again"},
		{"cluster.early", "1", atMost(0), "audit: ended before its deadline"},
		{"cluster.late", "1", atMost(0), "audit: not archived in the end"},
		{"cluster.leak", "1", atMost(0), "audit: open to strangers after its deadline"},
		{"cluster.double", "1", atMost(0), "audit: a step that happened twice"},
		{"cluster.orphan", "1", atMost(0), "audit: a row, object or event of no acknowledged story"},

		{"graph.fsyncs", "1", nothing, "asked for; none is done"},
		{"graph.bytes_written", "B", nothing, "to the file system"},
		{"gate.fsyncs", "1", nothing, "in the file system, load included"},
		{"gate.bytes_written", "B", nothing, "in the file system, load included"},
		{"births.fsyncs", "1", nothing, "in the file system"},
		{"births.bytes_written", "B", nothing, "in the file system"},
		{"sweep.fsyncs", "1", nothing, "in the file system, during the sweep"},
		{"sweep.bytes_written", "B", nothing, "in the file system, during the sweep"},
		{"archive.fsyncs", "1", nothing, "in the file system, during the archiving"},
		{"archive.bytes_written", "B", nothing, "in the file system, during the archiving"},
		{"reads.fsyncs", "1", nothing, "in the file system, during the swept rounds"},
		{"reads.bytes_written", "B", nothing, "in the file system, during the swept rounds"},
		{"growth.fsyncs", "1", nothing, "in the file system, with many, load included"},
		{"growth.bytes_written", "B", nothing, "in the file system, with many, load included"},
		{"http.fsyncs", "1", nothing, "in the file system"},
		{"http.bytes_written", "B", nothing, "in the file system"},
		{"tray.fsyncs", "1", nothing, "in the file system, load included"},
		{"tray.bytes_written", "B", nothing, "to disk, load included"},
		{"paste.fsyncs", "1", nothing, "in the file system, with 100,000 stored (20,000 with --quick), these included"},
		{"paste.bytes_written", "B", nothing, "in the file system, with 100,000 stored (20,000 with --quick), these included"},
		{"home.fsyncs", "1", nothing, "in the file system, load included"},
		{"home.bytes_written", "B", nothing, "in the file system, load included"},
		{"kv.fsyncs", "1", nothing, "in the file system, in the trial of reclaim"},
		{"kv.bytes_written", "B", nothing, "in the file system, in the trial of reclaim"},
	}
}

// benchReport prints figures: as JSON at once, or as one table at the end.
type benchReport struct {
	out     io.Writer
	json    bool
	figures map[string]benchFigure
	table   *tabwriter.Writer
	err     error
}

func newBenchReport(out io.Writer, asJSON bool) *benchReport {
	r := &benchReport{out: out, json: asJSON, figures: make(map[string]benchFigure), table: tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	for _, f := range benchFigures() {
		r.figures[f.name] = f
	}
	return r
}

// add reports one figure. It panics on a name that is not in the table.
func (r *benchReport) add(name string, value float64) {
	f, known := r.figures[name]
	if !known {
		panic("bench: no figure is called " + name)
	}
	if !r.json {
		fmt.Fprintf(r.table, "%s\t%s\t%s\t%s\t%s\n", f.name, readable(value), f.unit, f.held.mark(value), f.what)
		return
	}
	line, err := json.Marshal(struct {
		Name  string  `json:"name"`
		Value float64 `json:"value"`
		Unit  string  `json:"unit"`
	}{f.name, value, f.unit})
	if err == nil {
		_, err = fmt.Fprintf(r.out, "%s\n", line)
	}
	if r.err == nil {
		r.err = err
	}
}

// end prints the table, if there is one.
func (r *benchReport) end() error {
	if r.err == nil && !r.json {
		r.err = r.table.Flush()
	}
	return r.err
}

// mark returns the bound, with a sign that says whether v keeps it.
func (b benchBound) mark(v float64) string {
	switch {
	case b.sign == "":
		return ""
	case b.met(v):
		return "✓ " + b.sign + " " + readable(b.value)
	default:
		return "✗ " + b.sign + " " + readable(b.value)
	}
}

// readable is a number with three or more digits that matter, in groups of three.
func readable(v float64) string {
	switch size := math.Abs(v); {
	case v == math.Trunc(v) || size >= 100:
		return humanize.Comma(int64(math.Round(v)))
	case size >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case size >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
}
