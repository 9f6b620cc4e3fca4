// Package diskstore is in charge of the embedded tier of media storage:
// store.Blobs on a folder.
//
// An object of up to Options.Inline bytes is a value in a Pebble database; a
// bigger one is a file of its own with a number for a name. One ordered index in
// that database tells of both, and it alone says what exists: a file that it
// does not name is garbage, collected when the folder is next opened
// (docs/decisions/0002-small-media.md).
//
// Its invariant: an object can be read if and only if it was written whole, and
// every byte handed out has passed its checksum (I14). A key never becomes part
// of a path. After a failed durable write nothing more is acknowledged (I20).
package diskstore
