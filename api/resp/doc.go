// Package resp serves the key-value store over the Redis protocol (RESP2 and RESP3),
// so that Redis clients work (K1).
//
// A client can make the server hold only what a limit allows: every length is checked
// before memory is taken for it, and the requests and answers of all connections share
// one budget. Answers and errors are in the words of Redis; docs/kv.md lists where
// they differ. The package decides nothing about namespaces, keys and expiry: it
// translates commands into operations of product/kv.
package resp
