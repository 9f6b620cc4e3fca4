// Package redisstore implements rate limits and cache invalidation (Limits and
// Signals) on one Redis server or a Redis Cluster, version 7 or newer.
//
// Correct answers never depend on data in Redis: after a flush, a restart, a
// fail-over or an eviction caches lose their leases and rows are read from the
// store again (I19). Publish returns nil only when every member has acknowledged
// the signal or can no longer hold a lease. The server's clock never decides when
// a lease ends, and a TTL only cleans up. Secrets reach no log, error or String.
// The protocol of signals is described at the type Signals.
package redisstore
