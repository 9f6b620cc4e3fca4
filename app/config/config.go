// Package config defines the settings: one struct whose comments are the manual,
// its defaults, and the validation that runs before anything is opened.
//
// Every duration and limit of the product is a field here. The package opens no
// store and no connection, and knows no driver.
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

// Config holds every setting.
type Config struct {
	// Profile selects the stores. "embedded" is one process with everything in its data
	// folder. "cluster" is one of several nodes on Cassandra, Redis, Kafka and S3.
	Profile string
	// Roles select what this node does in a cluster: "api" serves requests, "walk" expires
	// and archives items, "all" does both.
	Roles []string
	// Node is the name of this node. It must stay the same across restarts, because the
	// node's saved clock is stored under it. On a cluster it must be unique and defaults
	// to the host name.
	Node string
	// Data is the data folder. Only one process at a time can use it. On a cluster it
	// holds no items: only the address of the admin listener, and the signing key unless
	// Tokens.KeyFile names another file.
	Data string
	// Deletions is the folder of the deletion ledger (default: the name of the data folder
	// followed by "-erased"). Because of it an erased account stays erased when an old backup of
	// Data is restored: keep it out of those backups and never replace it with an older copy.
	Deletions string

	Listen  Listen
	Tokens  Tokens
	Rates   Rates
	Traces  Traces
	Stories Stories
	Pastes  Pastes
	KV      KV `key:"kv"`
	Feed    Feed
	Births  Births
	Walk    Walk
	Ends    Ends
	Retry   Retry
	Clock   Clock
	Log     Log
	Disk    Disk
	Memory  Memory
	Media   Media
	Edge    Edge

	Cassandra Cassandra
	Redis     Redis
	Kafka     Kafka
	S3        S3
}

// Stories configures stories.
type Stories struct {
	// Off removes the routes of stories. What was published before still expires, is
	// archived and is erased.
	Off bool
	// Lifetimes are the lifetimes that an author can choose; the first is the default.
	Lifetimes []mayfly.Lifetime
	// Live is the maximum number of live stories of one author. Publishing one more
	// returns 409.
	Live int
	// MaxImage, MaxVideo and MaxPixels limit the size of one image or video. They are
	// checked before it is decoded.
	MaxImage, MaxVideo Bytes
	MaxPixels          int64
	// Thumbnails is the number of thumbnails that are made at the same time.
	Thumbnails int
	// ThumbnailPixels is the largest image that gets a thumbnail. Decoding takes up to
	// 256 MiB for each of Thumbnails in addition to Memory.Limit. An image that is larger
	// or would take more is shown as it is.
	ThumbnailPixels int64
	// URLs is the longest validity of a signed media URL of a live story, and
	// ArchiveURLs of a URL in the author's archive.
	URLs, ArchiveURLs time.Duration
}

// Pastes configures pastes.
type Pastes struct {
	// Off removes the routes and pages of pastes. What was created before still expires
	// and is erased.
	Off bool
	// Anonymous lets anyone create pastes, without a token.
	Anonymous bool
	// Host is the host name that pastes are served on, such as paste.example.org: a second
	// name of this server. Use one if your product has its own pages on the first: what users
	// paste then comes from another origin. Empty serves them beside the API.
	Host string
	// Lifetime is the lifetime of a paste whose author chooses none; ShortestLifetime and
	// LongestLifetime bound what they may choose.
	Lifetime, ShortestLifetime, LongestLifetime mayfly.Lifetime
	// Never lets authors create pastes that never expire.
	Never bool
	// MaxSize is the size of the largest paste.
	MaxSize Bytes
	// Rate is how many pastes a user, or an IP address without a token, may create, and
	// HourlyBytes how many bytes they may send in an hour, at least max_size; 0 means no limit.
	Rate        Rate
	HourlyBytes Bytes
	// PageCache is the memory for rendered pages and for the bytes of small public pastes.
	PageCache Bytes
}

// Feed configures posts and the lists that they are read in (F1).
type Feed struct {
	// Off removes the routes of posts. What was published before still expires and is
	// erased.
	Off bool
	// Lifetime is the lifetime of a post whose author chooses none; ShortestLifetime and
	// LongestLifetime bound what they may choose beside never.
	Lifetime, ShortestLifetime, LongestLifetime mayfly.Lifetime
	// Never lets posts live for ever. Without it Lifetime must have an end.
	Never bool
	// BlocklistFile is a file of host names, one on each line. Posts with links to them, or to
	// names below them, are refused. It is read again when it changes. Links are compared as
	// they are written: what a short link leads to is not looked at.
	BlocklistFile string
	// Hold holds new posts until a moderator releases them: "mayfly held" lists them. Until
	// then no user sees them, not even their authors.
	Hold bool
	// LikeRate is how many likes and reposts a user may set or take back; they do not count as
	// Rates.Writes.
	LikeRate Rate
}

// KV configures the key-value store (K1). Listen.KV is the address of its Redis protocol.
// Sync, ReclaimWithin and Memory are of the embedded profile.
type KV struct {
	// Off removes the routes and the listener of the key-value store. What was stored before
	// still expires and is erased.
	Off bool
	// Namespaces are made at the start, for programs of the operator: they belong to no user.
	// "mayfly kv key add" makes their keys. A namespace that is removed from the list stays.
	Namespaces []string
	// MaxNamespaces is how many namespaces one user or service can make, and OwnerQuota how many
	// bytes their quotas have together; 0 means no limit.
	MaxNamespaces int
	OwnerQuota    Bytes
	// Quota is how many bytes of keys and values a namespace holds. This and the limits below
	// hold for Namespaces, and are the most that users can choose for their own; 0 means no limit.
	Quota Bytes
	// DefaultTTL is the time to live of a key that is written without one; 0 is LongestTTL.
	// LongestTTL is the longest time to live; 0 lets keys live for ever.
	DefaultTTL, LongestTTL time.Duration
	// MaxKey and MaxValue are the sizes of the longest key and of the largest value. A cluster
	// writes 4MiB at once.
	MaxKey, MaxValue Bytes
	// Rate is how many operations on keys a namespace of a user or service serves; 0 means no
	// limit, which is the default on a cluster, where each command would ask Redis. Namespaces
	// of the operator have no limit.
	Rate Rate
	// Events announces expired keys of Namespaces to subscribers. Users choose it for their own.
	// It is not possible on a cluster.
	Events bool
	// LastWriteWins lets nodes of a cluster write keys of Namespaces without agreement. Like
	// Events it is fixed when a namespace is made. Conditions, increments, WATCH and changes of
	// an expiry alone are refused there then.
	LastWriteWins bool
	// AllowFlush allows the commands KEYS and FLUSHDB, which take long on many keys.
	AllowFlush bool
	// Sync is when a write is durable. "always": before it is acknowledged. "everysec": within
	// a second, so that a crash may lose what was acknowledged in the last second.
	Sync string
	// ReclaimWithin is the time after its expiry within which the space of a key is free again,
	// or a 4096th of its lifetime if that is longer.
	ReclaimWithin time.Duration
	// Memory is the size of the block cache and the write buffers of the key-value database.
	Memory Bytes
}

// Listen configures the listeners: addresses, TLS, proxies and timeouts (C9).
type Listen struct {
	// API is the address of the public listener. It also serves /readyz for load balancers.
	API string
	// Admin is the address of the listener for operators: metrics, health and
	// administration. It has no TLS: keep it on loopback or on a private network. Empty
	// turns it off.
	Admin string
	// KV is the address at which the key-value store speaks the Redis protocol, such as
	// 127.0.0.1:6380. It uses the TLS certificate below. Empty turns it off.
	KV string `key:"kv"`
	// Public is the URL at which users reach the server, such as https://stories.example.org.
	// If it is empty, media URLs are relative.
	Public string
	// Cert and Key are PEM files: the TLS certificate and its private key. If they are
	// empty, the server speaks plain HTTP, and the plain Redis protocol.
	Cert string `key:"cert_file"`
	Key  string `key:"key_file"`
	// ACME lists the domains for which certificates are obtained from a CA automatically.
	// Email is the contact address that is sent to the CA. Authority is the URL of the CA's
	// directory (default: Let's Encrypt).
	ACME      []string `key:"acme_domains"`
	Email     string   `key:"acme_email"`
	Authority string   `key:"acme_directory"`
	// Origins are the web origins that may send requests from a browser (CORS); * allows all.
	Origins []string
	// Proxies are the networks of proxies whose X-Forwarded-For header is trusted.
	Proxies []string
	// HeaderWithin, BodyWithin and IdleWithin limit how long a client may take to send the
	// headers, to send the next part of a body, and to send the next request.
	HeaderWithin time.Duration `key:"header_timeout"`
	BodyWithin   time.Duration `key:"body_timeout"`
	IdleWithin   time.Duration `key:"idle_timeout"`
	// DrainAfter is how long a server that is stopping keeps serving while /readyz reports
	// not ready, so that load balancers notice before connections are refused. The default is
	// 5s on a cluster and 0s on the embedded profile. A second signal ends the wait.
	// DrainWithin is how long requests in progress may then take to finish.
	DrainAfter  time.Duration
	DrainWithin time.Duration `key:"drain_timeout"`
	// Connections is the maximum number of open connections of a listener, and PerAddress that of one
	// client: an IPv4 address, or a /64 network of IPv6. The networks of Proxies have no limit
	// of their own: name yours there if users come through a proxy.
	Connections int `key:"max_connections"`
	PerAddress  int `key:"max_connections_per_address"`
}

// Tokens configures authentication (C1).
type Tokens struct {
	// Issuer is the issuer (iss) of the tokens that Mayfly signs, and Audience the
	// audience (aud) that every token must have.
	Issuer, Audience string
	// Home is the issuer whose subjects are the users of this server: a subject that is a
	// UUID is the user's id, and ~NAME in the API means the subject NAME (C8). The default is
	// the value of Issuer.
	Home string
	// KeyFile is the file of the key that Mayfly signs tokens with (default: in the data
	// folder). It is created at the first start and readable by its owner only.
	KeyFile string
	// Access and Refresh are the lifetimes of access tokens and of refresh tokens.
	Access, Refresh time.Duration
	// Trusted is a second issuer whose tokens are accepted: the product that embeds Mayfly.
	// Its public keys are in the file JWKSFile or at JWKSURL; set one of the two.
	Trusted  string
	JWKSFile string
	JWKSURL  string `key:"jwks_url"`
	// JWKSEvery is how often these keys are read again.
	JWKSEvery time.Duration `key:"jwks_interval"`
	// TrustedScopes are the scopes that the trusted issuer may grant: of user, service,
	// moderator and admin. Others in its tokens are ignored.
	TrustedScopes []string
}

// Rates configures the rate limits (C3). 300/3h means at most 300 requests in 3
// hours; 0 means no limit.
type Rates struct {
	// Writes and Reads are the limits of each user.
	Writes, Reads Rate
	// Follows is the limit of each user for following others. Follows count as writes too.
	Follows Rate
	// AddressReads and AddressWrites are the limits of each IP address for requests without
	// a token. POST /v1/token counts as a read, deleting a paste by its delete token as a write;
	// pastes.rate limits new pastes.
	AddressReads, AddressWrites Rate
}

// Traces configures the export of traces to an OpenTelemetry collector.
type Traces struct {
	// Endpoint is the OTLP/HTTP URL of the collector. Empty turns traces off.
	Endpoint string
	// Share is the fraction of requests that are traced, from 0 to 1.
	Share float64 `key:"sample_ratio"`
}

// DeletionsFolder returns the folder of the deletion ledger.
func (c Config) DeletionsFolder() string {
	if c.Deletions != "" {
		return c.Deletions
	}
	return filepath.Clean(c.Data) + "-erased"
}

// Births configures the publishing of items.
type Births struct {
	// Timeout is how long publishing may take, counted from the creation of the item's id.
	// After that it is abandoned and returns 503. It must be shorter than Walk.Settle, else
	// the sweep could miss an item that was stored slowly (L4).
	Timeout time.Duration
	// KeepKeys is how long an idempotency key is kept. A retry after that publishes a
	// second item.
	KeepKeys time.Duration
	// RemindAfter is the delay after which an unfinished step of an item is tried again.
	// Use at least two minutes in production.
	RemindAfter time.Duration
}

// Walk configures the walks: the background loops that expire, archive and clean up
// items in the order of their deadlines (L4).
type Walk struct {
	// Cadence is how often each walk looks for items that are due.
	Cadence time.Duration `key:"interval"`
	// Settle is how far the saved position of a walk stays behind the current time, so that
	// an item that is stored slowly is not missed. It must be longer than Births.Timeout.
	Settle time.Duration
	// Page is the number of rows that are read at once.
	Page int
	// Batch is the number of items that are changed at once. It is halved after a timeout
	// and grows back.
	Batch int
	// Lateness is how late an item may be processed. A walk spreads the items of one minute
	// over this time and goes faster only when it is behind.
	Lateness time.Duration
	// Lease is how long a node owns a shard without renewing. After a crash another node
	// takes the shard when the lease has expired.
	Lease time.Duration
	// Timeout is the longest time that one batch may take.
	Timeout time.Duration
}

// Ends configures what happens after the deadline of an item. Times are counted from the
// deadline unless the comment says otherwise.
type Ends struct {
	// Reconcile and ReconcileLate are when each item is checked again, to finish steps that
	// were left undone (L6).
	Reconcile, ReconcileLate time.Duration
	// ArchiveAfter is how long media stay in hot storage. Until then a restore is immediate.
	ArchiveAfter time.Duration
	// ArchiveWorkers is the number of copies to cold storage that run at the same time.
	ArchiveWorkers int
	// ArchiveLateness is how late an item may be archived. The archive spreads its work over
	// this time and goes faster only when it is behind.
	ArchiveLateness time.Duration
	// Verify selects how a cold copy is verified before the hot one is erased: "bytes" reads
	// it back and hashes it; "checksum" compares the checksum that the cold store reports and
	// reads back a sample.
	Verify string
	// RetireAfter is how long archived items are kept; 0 means for ever.
	RetireAfter time.Duration
	// Tombstone is how long the record that an item was deleted is kept, counted from the
	// later of its deadline and its deletion.
	Tombstone time.Duration
	// RestoreWithin is how long an expired item can be restored.
	RestoreWithin time.Duration
	// OrphanAge is the age at which media that no item owns are erased, and OrphansEvery
	// how often they are searched for; uploads that were never published twelve times as often.
	OrphanAge, OrphansEvery time.Duration
	// ScrubBytes is the number of bytes of archived media that are read again each second to
	// find damaged ones; 0 turns this off. ScrubEvery is the shortest time between two reads
	// of the same medium.
	ScrubBytes Bytes
	ScrubEvery time.Duration
}

// Retry configures the retries of failed steps (L10).
type Retry struct {
	// Tries is the number of attempts before a step becomes a dead letter.
	Tries int `key:"max_attempts"`
	// Longest is the longest pause between two attempts. The first pause is
	// Births.RemindAfter.
	Longest time.Duration `key:"max_backoff"`
}

// Clock configures how the node follows the system clock (L7).
type Clock struct {
	// Limit is the largest jump of the system clock that is accepted. After a larger jump
	// forward nothing is published or erased until the system reports a synchronised clock
	// or an operator confirms the time.
	Limit time.Duration
	// Outage is the longest time that a machine may have been off without a confirmation
	// of the clock.
	Outage time.Duration
	// SavePeriod is how often the time is saved. If the system clock is behind the saved time
	// after a reboot, time continues from the saved time plus twice this period.
	SavePeriod time.Duration
}

// Log configures the event log (L8).
type Log struct {
	// Retention is how long events are kept. A consumer that was stopped for longer misses
	// events; use at least 30 days in production.
	Retention time.Duration
	// TrimEvery is how often older events are removed.
	TrimEvery time.Duration
}

// Disk configures the use of the disk on the embedded profile.
type Disk struct {
	// Floor is the free space below which publishing returns 507, and below half of which
	// views, relations, uploads and sign-ins do so too. Expiry, deletes and reads continue. The process stops if its write-ahead log cannot be written (I20), so the
	// floor must leave room for what is written after publishing has stopped: memtables,
	// compactions (they write their result before they remove their input), and the expiry of
	// the live items, about 100 bytes each. 1 GiB is enough for 5 million live items; above
	// that set 200 bytes per item.
	Floor Bytes
	// Share is the fraction of one core that flushes and compactions of the ledger use while
	// they are not urgent, so that reads are not delayed; 0 means no limit.
	Share float64
	// ReclaimEvery is how often expired rows are deleted. One run takes at most half of it;
	// mayfly_reclaim_lag_seconds tells how far it is behind.
	ReclaimEvery time.Duration
	// ReclaimMediaEvery is how often the bytes of deleted small media, which share files
	// with others, are overwritten in these files and their space is reclaimed. At most 45
	// minutes, so that the bytes are gone within an hour of the deletion.
	ReclaimMediaEvery time.Duration
	// EraseRowsEvery is how often the bytes of deleted rows (texts, views, relations) are
	// erased from the files of the databases. This rewrites up to the whole database. At most
	// 20 hours, so that they are gone within a day of the deletion.
	EraseRowsEvery time.Duration
}

// Memory limits the memory of the process. It does not grow with the number of items. The
// caches and buffers may take up to three quarters of Memory.Limit.
type Memory struct {
	// Limit is the soft memory limit of the Go runtime (GOMEMLIMIT). The resident set is
	// about 30 MiB larger.
	Limit Bytes
	// Cache is the size of the block cache of the ledger.
	Cache Bytes
	// Memtable is the size of one write buffer of the ledger; up to three are in memory.
	Memtable Bytes
	// Rows is the number of rows that the gate caches, about 600 bytes each.
	Rows int
	// Buckets is the number of rate-limit counters that are kept, about 100 bytes each.
	Buckets int
	// MediaCache and MediaMemtable are the block cache and the write buffer of the media
	// database, once for hot and once for cold storage.
	MediaCache, MediaMemtable Bytes
}

// Edge configures the shared caches in front of the API, which keep public answers for a
// short time. Without it answers carry no surrogate keys, and nothing is purged.
type Edge struct {
	// Varnish lists the URLs of the Varnish servers that run deploy/varnish/mayfly.vcl, such as
	// http://10.0.0.5:6081: each of them, not a load balancer before them. What ends is purged on
	// all of them.
	Varnish []string
	// Secret is what a purge is allowed by: MAYFLY_PURGE_SECRET of the environment of the
	// Varnish servers. It can be written as file:PATH.
	Secret mayfly.Secret
	// Timeout is the longest time that one purge request may take.
	Timeout time.Duration
}

// Media configures uploads and media.
type Media struct {
	// Inline is the size up to which a medium is stored in the media database
	// instead of in its own file (docs/decisions/0002-small-media.md).
	Inline Bytes
	// Max is the maximum size of one medium.
	Max Bytes
	// MaxCount is the maximum number of media of one item, up to 10.
	MaxCount int
	// MaxConcurrent is the maximum number of media that one user may send to this node at
	// the same time. One more returns 429.
	MaxConcurrent int
	// MaxOpen and MaxUnpublished bound what one user has reserved and not published: the
	// number of uploads and the sum of their bytes. One more returns 429. An upload counts
	// until it is published or UploadLife has passed.
	MaxOpen        int
	MaxUnpublished Bytes
	// MaxBody is the maximum size of the text and overlays of one item.
	MaxBody Bytes
	// UploadLife is how long an upload is kept until it is published.
	UploadLife mayfly.Lifetime
}

// Cassandra stores items and rows on the cluster profile.
type Cassandra struct {
	// Hosts are some of the nodes, such as 10.0.0.1 or 10.0.0.1:9042. The others are
	// discovered through them and must use the same port.
	Hosts []string
	// Keyspace is the name of the keyspace. It is created at the first start.
	Keyspace string
	// Copies is the replication factor of a new keyspace, and the minimum for an existing
	// one. With 3 the cluster survives the loss of one node.
	Copies int `key:"replication_factor"`
	// DataCentres sets the replication factor of a new keyspace in each data centre, such
	// as east:3, west:3. If it is empty, Copies applies without data centres.
	DataCentres []string
	// User and Password are the credentials; empty means no authentication. The password
	// can be written as file:PATH, which reads it from that file.
	User     string
	Password mayfly.Secret
	// TLS encrypts the connections. Authority is a PEM bundle of the CAs that signed the
	// servers' certificates (default: the CAs of the system).
	TLS       bool
	Authority string `key:"ca_file"`
	// Timeout is the timeout of one request. Keep it below half of Births.Timeout and of
	// Walk.Timeout: a request to a node that hangs can then be retried at another node in time.
	Timeout time.Duration
}

// Redis shares rate limits and cache invalidations between the nodes of a cluster. It needs
// no persistence: answers stay correct when its data is lost.
type Redis struct {
	// Addresses are the addresses of one server, or of some nodes of a Redis Cluster.
	Addresses []string
	// Prefix is the prefix of every key. Clusters that share a Redis need different ones.
	Prefix string
	// User and Password are the credentials; empty means the default user. The password
	// can be written as file:PATH.
	User     string
	Password mayfly.Secret
	// TLS encrypts the connections. Authority is a PEM bundle of the CAs that signed the
	// servers' certificates (default: the CAs of the system).
	TLS       bool
	Authority string `key:"ca_file"`
	// Lease is how long a node may answer from its cache after its last contact with the
	// server, 3s at most. It must be the same on every node.
	Lease time.Duration
}

// Kafka stores events on the cluster profile.
type Kafka struct {
	// Brokers are the addresses of some brokers. The others are discovered through them.
	Brokers []string
	// Prefix is put before the names of topics and consumer groups.
	Prefix string
	// Partitions and Copies are the number of partitions and the replication factor of new
	// topics. Existing topics must have at least that replication factor. Partitions cannot be
	// changed later.
	Partitions int
	Copies     int `key:"replication_factor"`
	// User and Password are the credentials; empty means no authentication. The password
	// can be written as file:PATH. Mechanism is the SASL mechanism, SCRAM-SHA-512 or
	// SCRAM-SHA-256.
	User      string
	Password  mayfly.Secret
	Mechanism string
	// TLS encrypts the connections. Authority is a PEM bundle of the CAs that signed the
	// servers' certificates (default: the CAs of the system).
	TLS       bool
	Authority string `key:"ca_file"`
}

// S3 stores media on the cluster profile.
type S3 struct {
	// Endpoint is the URL of the server, such as https://s3.eu-central-1.amazonaws.com.
	Endpoint string
	// Public is the URL at which users reach the same server (default: the value of
	// Endpoint).
	Public string
	// Region is the region of the server.
	Region string
	// Key and Secret are the access key and the secret key. If they are empty,
	// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN of the environment are
	// used. Each can be written as file:PATH.
	Key, Secret mayfly.Secret
	// Authority is a PEM bundle of the CAs that signed the server's certificate (default:
	// the CAs of the system).
	Authority string `key:"ca_file"`
	// Hot, Cold and Deletions are buckets, or buckets with a prefix, such as media/hot, for
	// hot storage, cold storage and the deletion ledger. Keep Deletions out of backups, like the
	// folder of the same name on the embedded profile.
	Hot, Cold, Deletions string
	// ColdClass is the storage class of archived media; it must allow immediate reads. If it
	// is empty, the server's default is used, for servers without storage classes.
	ColdClass string
	// SpoolDir is the folder in which a medium over 64 KiB waits until it can be sent to the
	// server (default: the folder for temporary files), and SpoolBytes is what may wait there at
	// the same time. Above it uploads return 503.
	SpoolDir   string
	SpoolBytes Bytes
	// Presign lets clients upload media directly to the server, and download public stories
	// and their own archive directly from it, with URLs that expire with the story at the latest.
	Presign bool
}
