// Package wire is in charge of the shapes that travel between a server and its
// callers: what httpapi answers and the client reads, as JSON. One word per
// idea (SPEC §1); instants are absolute, RFC 3339, UTC, milliseconds.
//
// It has no behaviour, and imports nothing but the vocabulary.
package wire
