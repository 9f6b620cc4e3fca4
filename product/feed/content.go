package feed

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/feed/text"
)

// Kind is what a post is.
type Kind uint8

// The kinds. Their numbers are part of the stored format.
const (
	Original Kind = iota + 1
	Reply         // to another post
	Quote         // of another post, with a text of its own
	Repost        // of another post, with nothing of its own
)

// String returns the kind as JSON has it.
func (k Kind) String() string {
	switch k {
	case Reply:
		return "reply"
	case Quote:
		return "quote"
	case Repost:
		return "repost"
	default:
		return "post"
	}
}

// content is what the body of a post has beside its text and media.
type content struct {
	kind     Kind
	own      bool        // a reply in a thread of which its author wrote everything before
	about    mayfly.ID   // what it replies to, quotes or reposts; zero of an Original
	root     mayfly.ID   // of a reply: the first post of the thread
	path     []mayfly.ID // of a reply: what is between root and about, in the order of the thread
	entities []text.Entity
}

const (
	contentFormat = 1
	flagOwn       = 1
	// maxPath is how many of the posts between root and about a reply names: the nearest.
	maxPath = 18
)

// ancestors returns the first post of the thread, and the nearest of those between it
// and the post, in the order of the thread.
func (c content) ancestors() []mayfly.ID {
	switch {
	case c.kind != Reply:
		return nil
	case c.root == c.about:
		return []mayfly.ID{c.root}
	default:
		return append(append([]mayfly.ID{c.root}, c.path...), c.about)
	}
}

// bytes encodes the content: format, kind, flags, about, root, path, entities.
func (c content) bytes() []byte {
	b := []byte{contentFormat, byte(c.kind), 0}
	if c.own {
		b[2] = flagOwn
	}
	b = append(append(append(b, c.about[:]...), c.root[:]...), byte(len(c.path)))
	for _, id := range c.path {
		b = append(b, id[:]...)
	}
	for _, e := range c.entities {
		b = append(b, byte(e.Kind))
		b = binary.AppendUvarint(b, uint64(e.Start))
		b = binary.AppendUvarint(b, uint64(e.End-e.Start))
	}
	return b
}

// readContent reads what bytes wrote about a text. Errors: Corrupt.
func readContent(b []byte, written string) (content, error) {
	const head = 3 + 2*16 + 1
	bad := mayfly.Errorf(mayfly.Corrupt, "the content of a post cannot be read: %d bytes", len(b))
	if len(b) < head || b[0] != contentFormat || Kind(b[1]) < Original || Kind(b[1]) > Repost {
		return content{}, bad
	}
	c := content{kind: Kind(b[1]), own: b[2]&flagOwn != 0, about: mayfly.ID(b[3:19]), root: mayfly.ID(b[19:35])}
	between := int(b[35])
	if b = b[head:]; between > maxPath || len(b) < 16*between {
		return content{}, bad
	}
	for ; between > 0; between, b = between-1, b[16:] {
		c.path = append(c.path, mayfly.ID(b[:16]))
	}
	for len(b) > 0 {
		kind := text.Kind(b[0])
		start, n := binary.Uvarint(b[1:])
		if n <= 0 {
			return content{}, bad
		}
		length, m := binary.Uvarint(b[1+n:])
		if m <= 0 || kind < text.Mention || kind > text.Link || start > uint64(len(written)) || length > uint64(len(written))-start {
			return content{}, bad
		}
		c.entities = append(c.entities, text.Entity{Kind: kind, Start: int(start), End: int(start + length)})
		b = b[1+n+m:]
	}
	return c, nil
}

// entry is the value of a row of the author index: what is needed without the post,
// also after it was erased.
type entry struct {
	kind  Kind
	own   bool
	about mayfly.ID
}

const entrySize = 3 + 16

func (e entry) bytes() []byte {
	b := []byte{contentFormat, byte(e.kind), 0}
	if e.own {
		b[2] = flagOwn
	}
	return append(b, e.about[:]...)
}

func readEntry(b []byte) (entry, error) {
	if len(b) != entrySize || b[0] != contentFormat {
		return entry{}, mayfly.Errorf(mayfly.Corrupt, "an entry of the author index of %d bytes cannot be read", len(b))
	}
	return entry{kind: Kind(b[1]), own: b[2]&flagOwn != 0, about: mayfly.ID(b[3:])}, nil
}
