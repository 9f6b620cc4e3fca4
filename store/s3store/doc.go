// Package s3store implements store.Blobs on a bucket, or a prefix of a bucket, of
// an S3 server.
//
// A write is reported only after the server acknowledged it, and the hash of all
// bytes is signed with the request. A read that differs from what was written
// returns an error and never its last bytes (I14). The hash stored beside an object
// is the writer's; only Checksum returns one that the server computed (L9).
//
// Only Store.try retries, a bounded number of times. Each prefix of keys has a token
// bucket whose rate a SlowDown halves (L11). Secrets reach no log, error or String.
package s3store
