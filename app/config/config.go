// Package config is in charge of the settings: one struct whose comments are
// the manual, its defaults, and the check that refuses what cannot work before
// anything is opened.
//
// Every window of the product is a field here. The package opens nothing and
// knows no driver.
package config

import (
	"path/filepath"
	"time"

	"github.com/mayflyhq/mayfly"
)

// The profiles.
const (
	Embedded = "embedded"
	Cluster  = "cluster"
)

// Config is everything that can be set.
type Config struct {
	// Profile is what the process stands on. "embedded" is one process with
	// everything in its data folder. "cluster" is one of several on Cassandra, Redis, Kafka and S3.
	Profile string
	// Roles are what this process does among several: "api" answers users, "walk" ends
	// and archives items, "all" does both.
	Roles []string
	// Node names this process among others on the same store, and the mark of
	// its clock. It must stay the same over restarts. On a cluster each has its own,
	// its host's name unless it is set.
	Node string
	// Data is the data folder. One process at a time uses it. On a cluster it holds
	// no items: only where the admin listener is, and the key unless it is elsewhere.
	Data string
	// Deletions is the folder of the deletion ledger; the data folder's name with
	// "-erased" behind it unless it is set. Keep it out of backups of Data and never put an old one
	// back: it makes sure that an erased account stays erased when an old backup is put back.
	Deletions string

	Listen  Listen
	Tokens  Tokens
	Rates   Rates
	Traces  Traces
	Stories Stories
	Births  Births
	Walk    Walk
	Ends    Ends
	Retry   Retry
	Clock   Clock
	Log     Log
	Disk    Disk
	Memory  Memory
	Media   Media

	Cassandra Cassandra
	Redis     Redis
	Kafka     Kafka
	S3        S3
}

// Stories are the rules of stories.
type Stories struct {
	// Lifetimes are those that an author may choose; the first is the default.
	Lifetimes []mayfly.Lifetime
	// Live is how many live stories an author may have; the next is answered 409.
	Live int
	// MaxImage, MaxVideo and MaxPixels bound one medium, before it is decoded.
	MaxImage, MaxVideo Bytes
	MaxPixels          int64
	// Thumbnails is how many images are made smaller at once.
	Thumbnails int
	// ThumbnailPixels is the largest image that is made smaller: decoding takes up to
	// 15 bytes a pixel beside what Memory bounds. A larger one is shown as it is.
	ThumbnailPixels int64
	// URLs is how long a signed media URL lasts at most while a story serves, and
	// ArchiveURLs one of its author's archive.
	URLs, ArchiveURLs time.Duration
}

// Listen is where the server listens, and how long it waits for whom (C9).
type Listen struct {
	// API is the address of the public listener. It has /readyz for a load balancer.
	API string
	// Admin is the address of the listener for operators: metrics, health, explain,
	// holds. It has no TLS. Loopback unless you know who reaches it; empty: there is none.
	Admin string
	// Public is the URL that users reach the server by, such as https://stories.example.org;
	// empty: media URLs are relative.
	Public string
	// Cert and Key are the files of a TLS certificate in PEM and of its private key;
	// empty: plain HTTP.
	Cert string `key:"cert_file"`
	Key  string `key:"key_file"`
	// ACME are the domains to obtain certificates for from an ACME CA. Email is the contact
	// address that the CA gets. Authority is the URL of the CA's directory (default: Let's Encrypt).
	ACME      []string `key:"acme_domains"`
	Email     string   `key:"acme_email"`
	Authority string   `key:"acme_directory"`
	// Origins are the web origins that may call from a browser (CORS); * is any.
	Origins []string
	// Proxies are the networks of proxies whose X-Forwarded-For is believed.
	Proxies []string
	// HeaderWithin, BodyWithin and IdleWithin limit how long a client may take to send
	// its headers, to send each part of a body, and to wait between two requests.
	HeaderWithin time.Duration `key:"header_timeout"`
	BodyWithin   time.Duration `key:"body_timeout"`
	IdleWithin   time.Duration `key:"idle_timeout"`
	// DrainAfter is how long a server that was asked to stop keeps serving while /readyz
	// reports not ready, so that a load balancer notices before connections are refused. The default is
	// 5s on a cluster and 0s on the embedded profile. A second signal ends the wait.
	// DrainWithin is how long requests in progress may then take to finish.
	DrainAfter  time.Duration
	DrainWithin time.Duration `key:"drain_timeout"`
	// Connections is the maximum number of open connections.
	Connections int `key:"max_connections"`
}

// Tokens are who may call (C1).
type Tokens struct {
	// Issuer is who Mayfly's own tokens are from, and Audience whom all tokens are for.
	Issuer, Audience string
	// Home is the issuer whose UUID subjects are users as they are, and whose
	// subjects ~name stands for; Issuer unless it is set (C8).
	Home string
	// KeyFile holds the key that Mayfly signs with; made at first start, readable by
	// its owner only. In the data folder unless it is set.
	KeyFile string
	// Access and Refresh are how long the two kinds of token last.
	Access, Refresh time.Duration
	// Trusted is the issuer of tokens that the embedding product makes. Its public
	// keys are in JWKSFile or at JWKSURL, one of the two.
	Trusted  string
	JWKSFile string
	JWKSURL  string `key:"jwks_url"`
	// JWKSEvery is how often the keys are read again.
	JWKSEvery time.Duration `key:"jwks_interval"`
}

// Rates are the limits at the door (C3), such as 300/3h: so many in so long.
// 0 is no limit.
type Rates struct {
	// Writes and Reads are per user.
	Writes, Reads Rate
	// AddressReads and AddressWrites are per address, for callers without a token.
	AddressReads, AddressWrites Rate
}

// Traces go to an OpenTelemetry collector.
type Traces struct {
	// Endpoint is the collector's OTLP/HTTP URL; empty: no traces.
	Endpoint string
	// Share is the ratio of requests that are traced, from 0 to 1.
	Share float64 `key:"sample_ratio"`
}

// DeletionsFolder is where the deletion ledger is.
func (c Config) DeletionsFolder() string {
	if c.Deletions != "" {
		return c.Deletions
	}
	return filepath.Clean(c.Data) + "-erased"
}

// Births are the windows of intake.
type Births struct {
	// Timeout is how long after its id was minted a birth may still commit; one
	// that has not is abandoned and answered 503. It must be shorter than
	// Walk.Settle, or a slow birth could slip behind a watermark (L4).
	Timeout time.Duration
	// KeepKeys is how long an idempotency key is remembered. A retry that comes
	// later is a new birth.
	KeepKeys time.Duration
	// RemindAfter is how far ahead a reminder is written. At least two minutes in
	// production; short in tests.
	RemindAfter time.Duration
}

// Walk are the windows of the walks, the sweep among them (L4).
type Walk struct {
	// Cadence is how often each walk looks for items that are due.
	Cadence time.Duration `key:"interval"`
	// Settle is how far the durable watermark trails behind now, so that a slow
	// birth cannot slip behind it. Longer than Births.Timeout.
	Settle time.Duration
	// Page is how many rows are read at once.
	Page int
	// Batch is how many items are changed at once; it halves on time-outs and recovers.
	Batch int
	// Lateness is the budget: a walk goes as slowly as lets a minute's items be
	// done within it, and faster only with a backlog.
	Lateness time.Duration
	// Lease is how long a walker holds its shard without renewing. After a crash
	// another takes over when it has run out.
	Lease time.Duration
	// Timeout is how long one batch may take before it counts as timed out.
	Timeout time.Duration
}

// Ends are the windows of the life after the deadline. They are counted from the
// deadline unless they say otherwise.
type Ends struct {
	// Reconcile and ReconcileLate are when items are looked at once more for
	// whatever got stuck (L6).
	Reconcile, ReconcileLate time.Duration
	// ArchiveAfter is the safety window: so long media stay hot, and a restore is instant.
	ArchiveAfter time.Duration
	// ArchiveWorkers is how many copies to cold storage are under way at once.
	ArchiveWorkers int
	// ArchiveLateness is how late the archive may be while it goes slowly.
	ArchiveLateness time.Duration
	// Verify is how a copy is verified before hot is erased: "bytes" reads it
	// back and hashes it; "checksum" asks the cold side for its checksum, and reads a sample back.
	Verify string
	// RetireAfter is how long archived items are kept; 0 is for ever.
	RetireAfter time.Duration
	// Tombstone is how long after max(deadline, deletion) it is remembered that an
	// item was there and is deleted.
	Tombstone time.Duration
	// RestoreWithin is how long after its end support can bring an item back.
	RestoreWithin time.Duration
	// OrphanAge is how old media that nobody published must be to be collected, and
	// OrphansEvery how often they are looked for.
	OrphanAge, OrphansEvery time.Duration
	// ScrubBytes is how many bytes of archived media are read again each second, to
	// find those that have changed; 0 is none. ScrubEvery is how often each is read at most.
	ScrubBytes Bytes
	ScrubEvery time.Duration
}

// Retry is how failed steps are retried (L10).
type Retry struct {
	// Tries is how often a step is attempted before it becomes a dead letter.
	Tries int `key:"max_attempts"`
	// Longest is the longest pause between two attempts. The first pause is Births.RemindAfter.
	Longest time.Duration `key:"max_backoff"`
}

// Clock are the windows of the node's clock (L7).
type Clock struct {
	// Limit is the largest step of the system's clock that is followed without a
	// question. One further forward is unconfirmed until the system reports a
	// synchronised clock or an operator confirms: nothing is published or erased
	// meanwhile.
	Limit time.Duration
	// Outage is the longest absence over a reboot that needs no confirmation.
	Outage time.Duration
	// SavePeriod is how often the clock's mark is saved. After a reboot with a
	// clock that is behind, time goes on two of these above the mark.
	SavePeriod time.Duration
}

// Log are the windows of the event log (L8).
type Log struct {
	// Retention is how long events are kept: 30 days at least in production,
	// because a consumer that has been away for longer misses some.
	Retention time.Duration
	// TrimEvery is how often what is older is forgotten.
	TrimEvery time.Duration
}

// Disk bounds what goes to disk.
type Disk struct {
	// Floor is the free space below which births are refused (507) while expiry,
	// deletes and reads go on. A write-ahead log that cannot be written is the end
	// of the process (I20), so the floor must leave room for everything that
	// still has to be written when births have stopped: memtables to flush,
	// compactions (each writes its result before its input goes), and the sweep of
	// what is alive, about 100 bytes an item. 1 GiB carries 5 million live
	// items; above that set 200 bytes an item.
	Floor Bytes
	// Share is how much of one core the ledger's flushes and compactions use while
	// there is no hurry, so that reads do not wait behind them; 0 is all of it.
	Share float64
	// ReclaimEvery is how often space of rows past their time is taken back.
	ReclaimEvery time.Duration
	// ReclaimMediaEvery is the same for small media that were deleted. It rewrites
	// what lies between them, so it is seldom; with many deletes the store does it by itself.
	ReclaimMediaEvery time.Duration
}

// Memory bounds what the process takes. Limit is the sum that the parts below
// are chosen for; it does not grow with items.
type Memory struct {
	// Limit is what the Go runtime is told to stay below (GOMEMLIMIT). The
	// resident set is about this plus 30 MiB of code and kernel buffers.
	Limit Bytes
	// Cache is for blocks of the ledger.
	Cache Bytes
	// Memtable is the size of one of the ledger's write buffers; up to three are in memory.
	Memtable Bytes
	// Rows is how many rows with their bodies the gate caches, about 600 bytes each.
	Rows int
	// Buckets is how many rate-limit counters are kept, about 100 bytes each.
	Buckets int
	// MediaCache and MediaMemtable are the same for the index and the small media
	// of each of the two tiers.
	MediaCache, MediaMemtable Bytes
}

// Media are the rules of media.
type Media struct {
	// Inline is the size up to which a medium is kept in the media database
	// rather than in a file of its own (docs/decisions/0002-small-media.md).
	Inline Bytes
	// Max is the largest medium that is taken.
	Max Bytes
	// MaxCount is how many media an item may have, 10 at most.
	MaxCount int
	// MaxBody is how much text and overlays an item may have beside its media.
	MaxBody Bytes
	// UploadLife is how long an upload may wait to be published.
	UploadLife mayfly.Lifetime
}

// Cassandra is where the cluster profile keeps items and rows.
type Cassandra struct {
	// Hosts are some of the nodes, such as 10.0.0.1 or 10.0.0.1:9042; the others are
	// found through them, at the same port.
	Hosts []string
	// Keyspace is made at first start.
	Keyspace string
	// Copies is the replication factor of a new keyspace, and the least that an existing
	// one must have. With 3 the loss of one node is survived.
	Copies int `key:"replication_factor"`
	// DataCentres are where a new keyspace has how many copies, such as east:3, west:3;
	// empty: Copies of them anywhere.
	DataCentres []string
	// User and Password are who we are; empty: nobody. A password may be written as
	// file:PATH, the file that holds it.
	User     string
	Password mayfly.Secret
	// TLS encrypts the connections. Authority is a CA bundle in PEM that signed the servers'
	// certificates; empty: the system's CAs.
	TLS       bool
	Authority string `key:"ca_file"`
	// Timeout is how long one request may take. Less than half of Births.Timeout and of
	// Walk.Timeout: what meets a node that hangs is then tried at another in time.
	Timeout time.Duration
}

// Redis is where nodes of a cluster share limits and tell each other what has
// changed. Nothing in it is needed for a right answer; it needs no persistence.
type Redis struct {
	// Addresses are those of one server, or of some nodes of a Redis Cluster.
	Addresses []string
	// Prefix is how every key begins. Each cluster of nodes has its own.
	Prefix string
	// User and Password are who we are; empty: the default user. A password may be
	// written as file:PATH.
	User     string
	Password mayfly.Secret
	// TLS encrypts the connections. Authority is a CA bundle in PEM that signed the servers'
	// certificates; empty: the system's CAs.
	TLS       bool
	Authority string `key:"ca_file"`
	// Lease is how long a node may answer from its cache without having heard from
	// the server. The same on every node; 3s at most, since it answers from nothing that is older.
	Lease time.Duration
}

// Kafka is where the cluster profile keeps events.
type Kafka struct {
	// Brokers are the addresses of some of them; the others are found through them.
	Brokers []string
	// Prefix is before the names of topics and groups.
	Prefix string
	// Partitions and Copies are the partitions and the replication factor of new topics;
	// existing topics must have at least that replication factor. Partitions cannot be changed later.
	Partitions int
	Copies     int `key:"replication_factor"`
	// User and Password are who we are; empty: nobody. A password may be written as
	// file:PATH. Mechanism is SCRAM-SHA-512 or SCRAM-SHA-256.
	User      string
	Password  mayfly.Secret
	Mechanism string
	// TLS encrypts the connections. Authority is a CA bundle in PEM that signed the servers'
	// certificates; empty: the system's CAs.
	TLS       bool
	Authority string `key:"ca_file"`
}

// S3 is where the cluster profile keeps media.
type S3 struct {
	// Endpoint is the server, such as https://s3.eu-central-1.amazonaws.com.
	Endpoint string
	// Public is the same server as users reach it; empty: as Endpoint.
	Public string
	// Region is the server's.
	Region string
	// Key and Secret sign requests; empty: AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
	// AWS_SESSION_TOKEN of the environment. Each may be written as file:PATH.
	Key, Secret mayfly.Secret
	// Authority is a CA bundle in PEM that signed the server's certificate; empty: the
	// system's CAs.
	Authority string `key:"ca_file"`
	// Hot, Cold and Deletions are buckets, or prefixes of buckets, such as media/hot.
	// Keep Deletions out of backups: see Deletions above.
	Hot, Cold, Deletions string
	// ColdClass is the storage class of archived media, one that answers at once; empty:
	// the server's choice, for servers that know no others.
	ColdClass string
	// Presign lets users load public stories, and authors their archive, from the server
	// itself, by addresses that end with the story; and upload to it.
	Presign bool
}
