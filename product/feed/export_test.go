package feed

import "github.com/mayflyhq/mayfly"

// The bounds of a home, for tests.
const (
	HomeAuthors = homeAuthors
	HomeScan    = homeScan
)

// PostKey returns the key of a post in the author index.
var PostKey = postKey

// ReplyEntry returns the entry of a reply to a post of another author.
func ReplyEntry(about mayfly.ID) []byte { return entry{kind: Reply, about: about}.bytes() }
