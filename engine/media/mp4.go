package media

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"

	"github.com/mayflyhq/mayfly"
)

// mp4File is a video in boxes, MP4 or QuickTime, while it is cleaned. It is kept until
// all of it has arrived, because the index that tells which bytes are samples often comes
// last. Then it is passed on as MP4: boxes stay where they are, those that are not needed
// become free boxes of the same size, and what no sample names becomes zeros.
type mp4File struct {
	mdat, moov   bool
	moovAt, size int64 // where in the spool the index lies, and its size

	index  *mp4Index
	movie  []byte // the cleaned index
	at     int64  // in the spool: the next box to pass on
	place  int64  // of that box in the file
	named  mp4Spans
	pieces mp4Spans // named by the last fragment
}

// mp4NewHead heads a file of old QuickTime, which does not tell its type.
const mp4NewHead = "\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isommp42"

// isOldQuickTime reports whether a file begins as one of QuickTime that has no type.
func isOldQuickTime(head []byte) bool {
	if len(head) < 8 || head[0] != 0 && string(head[4:8]) != "mdat" {
		return false
	}
	switch string(head[4:8]) {
	case "moov", "mdat", "wide", "free", "skip", "pnot":
		return true
	default:
		return false
	}
}

func mp4Start(*Cleaned) (step, error) { return (&mp4File{}).arrive, nil }

// arrive reads the head of the next box of the file.
func (f *mp4File) arrive(c *Cleaned) (step, error) {
	if end, err := c.atEnd(); end || err != nil {
		return f.arrived, err
	}
	if f.moov && f.mdat { // a strange box behind the video is where something else begins
		next, err := c.in.Peek(8)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, cutOff(err)
		}
		if len(next) < 8 || mp4Fates(string(next[4:8])) == mp4Strange {
			return f.arrived, nil
		}
	}
	if err := c.element(); err != nil {
		return nil, err
	}
	head, n, err := mp4Head(c.take)
	if err != nil {
		return nil, err
	}
	if n > c.left {
		return nil, c.tooLong()
	}
	return f.keep(c, head, n)
}

// keep writes a box to the spool; of one that is not needed only the head.
func (f *mp4File) keep(c *Cleaned, head []byte, n int64) (step, error) {
	name := string(head[4:8])
	fate := mp4Fates(name)
	switch {
	case fate == mp4Strange:
		return nil, broken("a box %q", name)
	case fate == mp4Keep && n > c.largestBox(name):
		return nil, mayfly.Errorf(mayfly.TooLarge, "a box %q of %d bytes", name, n).WithHint("save the video again, or a shorter one")
	case name == "moov" && f.moov:
		return nil, broken("it has two indexes")
	case name == "moov":
		f.moov, f.moovAt, f.size = true, c.spool.size+int64(len(head)), n
	case name == "mdat":
		f.mdat = true
	case fate == mp4Free:
		copy(head[4:], "free")
	}
	if _, err := c.spool.Write(head); err != nil {
		return nil, err
	}
	if fate == mp4Free {
		return pass(n, drop, f.arrive), nil
	}
	return f.write(n), nil
}

// write writes the next n bytes to the spool, piece by piece.
func (f *mp4File) write(n int64) step {
	return func(c *Cleaned) (step, error) {
		b, err := c.take(int(min(n, piece)))
		if err != nil {
			return nil, err
		}
		if _, err := c.spool.Write(b); err != nil {
			return nil, err
		}
		if n > piece {
			return f.write(n - piece), nil
		}
		return f.arrive, nil
	}
}

// largestBox is how many bytes a box may have. The index is in memory as a whole.
func (c *Cleaned) largestBox(name string) int64 {
	switch name {
	case "moov":
		return min(max(4<<20, c.limits.Video/16), 32<<20)
	case "moof":
		return 1 << 20
	case "ftyp", "sidx":
		return 64 << 10
	default:
		return c.limits.Video
	}
}

// mp4Head reads the head of a box with take: its size, its name, and its size once more
// where it is large. It returns the head and how many bytes follow it.
func mp4Head(take func(n int) ([]byte, error)) (head []byte, n int64, err error) {
	if head, err = take(8); err != nil {
		return nil, 0, err
	}
	size := int64(binary.BigEndian.Uint32(head))
	switch size {
	case 0:
		return nil, 0, mayfly.Errorf(mayfly.Unsupported, "a box that goes on to the end of the file").WithHint("save the video again")
	case 1:
		large, err := take(8)
		if err != nil {
			return nil, 0, err
		}
		head = append(head, large...)
		if size = int64(binary.BigEndian.Uint64(large)); size < 0 {
			return nil, 0, broken("a box of a size beyond all bounds")
		}
	}
	if n = size - int64(len(head)); n < 0 {
		return nil, 0, broken("a box smaller than itself")
	}
	return head, n, nil
}

// arrived cleans the index when the whole video is there.
func (f *mp4File) arrived(c *Cleaned) (step, error) {
	if !f.moov || !f.mdat {
		return nil, broken("it has no video, or ends before it")
	}
	if err := c.enterVideos(); err != nil {
		return nil, err
	}
	f.index = &mp4Index{c: c, tracks: map[uint32]*mp4Track{}}
	first := make([]byte, 8)
	if err := c.spool.read(first, 0); err != nil {
		return nil, err
	}
	if string(first[4:]) != "ftyp" {
		c.out.WriteString(mp4NewHead)
		f.index.shift = int64(len(mp4NewHead))
	}
	f.movie = make([]byte, f.size)
	if err := c.spool.read(f.movie, f.moovAt); err != nil {
		return nil, err
	}
	if err := f.index.clean(f.movie); err != nil {
		return nil, err
	}
	f.named, f.index.samples = mergeSpans(f.index.samples), nil
	return f.leave, nil
}

// leave passes the next box on.
func (f *mp4File) leave(c *Cleaned) (step, error) {
	if f.at == c.spool.size {
		return nil, nil
	}
	head, n, err := mp4Head(func(n int) ([]byte, error) { return f.read(c, n) })
	if err != nil {
		return nil, err
	}
	start := f.place
	f.place += int64(len(head)) + n
	switch string(head[4:8]) {
	case "free":
		c.out.Write(head)
		return zeros(n, f.leave), nil
	case "mdat":
		c.out.Write(head)
		return f.media(start+int64(len(head)), n), nil
	case "moov":
		f.at += n
		c.out.Write(head)
		return whole(f.movie, f.leave), nil
	}
	data, err := f.read(c, int(n))
	if err != nil {
		return nil, err
	}
	switch string(head[4:8]) {
	case "ftyp":
		err = mp4Type(data)
	case "moof":
		err = f.fragment(data, start)
	case "sidx":
		mp4Segments(head, data)
	}
	c.out.Write(head)
	c.out.Write(data)
	return f.leave, err
}

// read reads the next n bytes of the spool.
func (f *mp4File) read(c *Cleaned, n int) ([]byte, error) {
	b := make([]byte, n)
	err := c.spool.read(b, f.at)
	f.at += int64(n)
	return b, err
}

// zeros writes n zeros, piece by piece.
func zeros(n int64, then step) step {
	return func(c *Cleaned) (step, error) {
		c.out.Write(make([]byte, min(n, piece)))
		if n > piece {
			return zeros(n-piece, then), nil
		}
		return then, nil
	}
}

// whole writes b, piece by piece.
func whole(b []byte, then step) step {
	return func(c *Cleaned) (step, error) {
		c.out.Write(b[:min(len(b), piece)])
		if len(b) > piece {
			return whole(b[piece:], then), nil
		}
		return then, nil
	}
}

// media passes n bytes of media data that lie at place: those that samples name, and
// zeros for the others.
func (f *mp4File) media(place, n int64) step {
	return func(c *Cleaned) (step, error) {
		b, err := f.read(c, int(min(n, piece)))
		if err != nil {
			return nil, err
		}
		out := make([]byte, len(b))
		f.named.copy(out, b, place)
		f.pieces.copy(out, b, place)
		c.out.Write(out)
		if n > piece {
			return f.media(place+piece, n-piece), nil
		}
		return f.leave, nil
	}
}

// fragment cleans the index of a fragment that begins at place.
func (f *mp4File) fragment(data []byte, place int64) error {
	if last := len(f.pieces) - 1; last >= 0 && f.pieces[last].to > place {
		return mayfly.Errorf(mayfly.Unsupported, "a video whose fragments lie among each other").WithHint("save the video again")
	}
	if err := f.index.fragment(data, place); err != nil {
		return err
	}
	f.pieces, f.index.samples = mergeSpans(f.index.samples), nil
	return nil
}

// mp4Span is a range of bytes of the file.
type mp4Span struct{ from, to int64 }

// mp4Spans are spans in order that do not touch each other.
type mp4Spans []mp4Span

func mergeSpans(spans []mp4Span) mp4Spans {
	slices.SortFunc(spans, func(a, b mp4Span) int { return int(min(1, max(-1, a.from-b.from))) })
	merged := spans[:0]
	for _, s := range spans {
		if last := len(merged) - 1; last >= 0 && s.from <= merged[last].to {
			merged[last].to = max(merged[last].to, s.to)
		} else {
			merged = append(merged, s)
		}
	}
	return merged
}

// copy copies the bytes of b, which lie at place, that are in a span, and forgets the
// spans before them.
func (s *mp4Spans) copy(out, b []byte, place int64) {
	end := place + int64(len(b))
	for len(*s) > 0 && (*s)[0].to <= place {
		*s = (*s)[1:]
	}
	for _, span := range *s {
		if span.from >= end {
			return
		}
		from, to := max(span.from, place)-place, min(span.to, end)-place
		copy(out[from:to], b[from:to])
	}
}

// mp4Type makes the type of the file that of an MP4 file: brands of other sorts, and of
// cameras, do not stay.
func mp4Type(data []byte) error {
	if len(data) < 8 {
		return broken("a type of %d bytes", len(data))
	}
	for at := 0; at < len(data); at += 4 {
		brand := data[at:min(at+4, len(data))]
		switch {
		case at == 4:
			copy(brand, "\x00\x00\x02\x00") // a version, which says nothing
		case len(brand) < 4:
			clear(brand)
		case !mp4Brand(string(brand)) || string(brand) == quickTime || string(brand) == sonyXAVC:
			copy(brand, "isom")
		}
	}
	return nil
}

// mp4Segments clears what lies behind an index of segments. One that cannot be read
// becomes a free box: players find segments without it.
func mp4Segments(head, data []byte) {
	n := 4 + 4 + 4 + 8 + 4
	if len(data) > 0 && data[0] != 0 {
		n += 8
	}
	if len(data) >= n {
		n += 12 * int(binary.BigEndian.Uint16(data[n-2:]))
	}
	if n > len(data) {
		copy(head[4:], "free")
		n = 0
	}
	clear(data[n:])
}

// Brands of files that become MP4.
const (
	quickTime = "qt  "
	sonyXAVC  = "XAVC"
)

// mp4Brand reports whether a file of that major brand is taken. HEIC, AVIF and others are
// built alike and are something else.
func mp4Brand(brand string) bool {
	switch brand {
	case "isom", "mp41", "mp42", "mp71", "avc1", "M4V ", "M4VP", "M4VH", "dash", "msnv", "MSNV", "cmfc", "cmf2", "3gp4", "3gp5", "3gp6", sonyXAVC, quickTime:
		return true
	default:
		return len(brand) == 4 && brand[:3] == "iso" && brand[3] >= '1' && brand[3] <= '9'
	}
}

// mp4Fate is what becomes of a box of the file.
type mp4Fate uint8

const (
	mp4Free    mp4Fate = iota // becomes a free box
	mp4Keep                   // is cleaned
	mp4Strange                // is of no sort that is known here
)

func mp4Fates(name string) mp4Fate {
	switch name {
	case "ftyp", "moov", "moof", "mdat", "sidx":
		return mp4Keep
	case "free", "skip", "wide", "uuid", "meta", "udta", "pdin", "emsg", "prft", "mere", "meco", "pnot", "junk", "PICT", "styp", "ssix", "mfra":
		return mp4Free
	default:
		return mp4Strange
	}
}
