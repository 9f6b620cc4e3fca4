// Package diskstore implements store.Blobs on a folder: the embedded tier of media
// storage.
//
// An object of up to Options.InlineBytes shares a volume with others: a file
// that is appended to and synced for many writers at once. A bigger one is a file
// of its own. An ordered index in a Pebble database names the place of each, and
// it alone says what exists (docs/decisions/0002-small-media.md).
//
// An object can be read if and only if it was written completely, and every byte
// returned has passed its checksum (I14). A key never becomes part of a path. After a
// failed durable write nothing more is acknowledged (I20).
package diskstore
