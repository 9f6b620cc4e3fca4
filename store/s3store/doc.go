// Package s3store is in charge of the cluster's tiers of media storage:
// store.Blobs on a bucket, or a prefix of one, of a server that speaks S3.
//
// Its invariant: what it reports as written a server has acknowledged, with the
// hash of every byte signed into the request; what is read and is not what was
// written is an error, and comes without its last bytes (I14). The hash that goes
// along with a copy is the writer's word; only Checksum is the server's (L9).
//
// One layer retries, boundedly; each prefix of keys has a token bucket that a
// SlowDown halves (L11). Secrets reach no log, error or String.
package s3store
