// Package redisstore is in charge of what the nodes of a cluster share for a
// while: Limits and Signals, on one Redis server or a Redis Cluster, 7 or newer.
//
// Its invariant: nothing in Redis is needed for a right answer (I19). Publish
// returns nil only when every node of the roll has acknowledged, or a lease has
// passed since; what a flush, a restart, a fail-over or an eviction forgets is
// told from the life of the server's memory, and costs leases, never an answer.
//
// It never takes the server's clock for a lease's end, nor a TTL for anything
// but tidying (trap 11). Secrets reach no log, error or String. How signals are
// acknowledged, and why, stands in signals.go.
package redisstore
