package media

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/mayflyhq/mayfly"
)

// unknown is the size of an element that lasts until another begins, as programs
// write it that do not know how long they will record.
const unknown = math.MaxInt64

// webmFile is what has been seen of one.
type webmFile struct {
	within        []webmElement
	webm, video   bool
	clustered     bool
	width, height uint32
}

type webmElement struct {
	id   ebmlID
	left int64
}

func webmStart(c *Cleaned) (step, error) { return (&webmFile{}).element, nil }

// element reads the head of the next element and decides about it.
func (f *webmFile) element(c *Cleaned) (step, error) {
	for len(f.within) > 0 && f.within[len(f.within)-1].left == 0 {
		closed := f.within[len(f.within)-1].id
		f.within = f.within[:len(f.within)-1]
		if err := f.closed(c, closed); err != nil {
			return nil, err
		}
		if closed == segment { // what follows is not of it
			return nil, f.whole(c)
		}
	}
	if f.openEnded() {
		end, err := c.atEnd()
		if err != nil {
			return nil, err
		}
		if end {
			return nil, f.whole(c)
		}
	}
	if err := c.element(); err != nil {
		return nil, err
	}
	head, id, size, err := ebmlHead(c)
	if err != nil {
		return nil, err
	}
	in, fate := f.place(id)
	if fate == webmPass && size > webmLongest(id) {
		fate = webmVoid
	}
	if fate == webmStrange {
		if f.openEnded() && f.clustered {
			return nil, f.whole(c)
		}
		if in == 0 || size == unknown {
			return nil, broken("an element %x out of place", uint32(id))
		}
		fate = webmVoid
	}
	if err := f.enter(id, size, int64(len(head))); err != nil {
		return nil, err
	}
	if size != unknown && size > c.left {
		return nil, c.tooLong()
	}
	return f.treat(c, fate, head, id, size)
}

// openEnded says whether the file may end here: everything around is of unknown
// size.
func (f *webmFile) openEnded() bool {
	for _, e := range f.within {
		if e.left != unknown {
			return false
		}
	}
	return len(f.within) > 0
}

// place says in what an element is and what becomes of it. One that belongs to a
// segment ends a cluster of unknown size.
func (f *webmFile) place(id ebmlID) (in ebmlID, fate webmFate) {
	if len(f.within) == 0 {
		return 0, webmFates(0, id)
	}
	last := f.within[len(f.within)-1]
	fate = webmFates(last.id, id)
	if last.id == cluster && last.left == unknown && fate == webmVoid && id != void && id != 0xbf {
		f.within = f.within[:len(f.within)-1]
		return segment, webmFates(segment, id)
	}
	return last.id, fate
}

// enter takes the element's bytes off what it is in.
func (f *webmFile) enter(id ebmlID, size, head int64) error {
	if size == unknown && id != segment && id != cluster {
		return broken("an element %x of unknown size", uint32(id))
	}
	if len(f.within) == 0 {
		return nil
	}
	around := &f.within[len(f.within)-1]
	switch {
	case around.left == unknown: // and so is all that is around it
	case size == unknown || size > around.left-head:
		return broken("an element %x larger than %x, which it is in", uint32(id), uint32(around.id))
	default:
		around.left -= head + size
	}
	return nil
}

const (
	maxWebMRead   = 16
	maxWebMConfig = 256 << 10 // of a decoder; for Vorbis about 4 KiB
)

func (f *webmFile) treat(c *Cleaned, fate webmFate, head []byte, id ebmlID, size int64) (step, error) {
	switch fate {
	case webmOpen:
		f.clustered = f.clustered || id == cluster
		f.within = append(f.within, webmElement{id, size})
		c.out.Write(head)
		return f.element, f.open(id)
	case webmPass:
		c.out.Write(head)
		return pass(size, keep, f.element), nil
	case webmBlank:
		c.out.Write(head)
		return pass(size, blank, f.element), nil
	case webmRead, webmConfig:
		if fate == webmRead && size > maxWebMRead || size > maxWebMConfig {
			return nil, broken("an element %x of %d bytes", uint32(id), size)
		}
		data, err := c.take(int(size))
		if err != nil {
			return nil, err
		}
		if fate == webmConfig {
			if err := clearVorbis(data); err != nil {
				return nil, err
			}
		}
		c.out.Write(head)
		c.out.Write(data)
		return f.element, f.read(id, data)
	default:
		return writeVoid(c, len(head), size, f.element), nil
	}
}

func (f *webmFile) open(id ebmlID) error {
	switch {
	case id == segment && !f.webm:
		return broken("it does not begin as a WebM")
	case id == videoPart:
		f.width, f.height = 0, 0
	}
	return nil
}

// read takes what has to be known. Tracks of another sort than picture and sound
// hold what may say where a video was filmed, among the samples of the others.
func (f *webmFile) read(id ebmlID, data []byte) error {
	var number uint64
	for _, b := range data {
		number = number<<8 | uint64(b)
	}
	switch id {
	case docType:
		if f.webm = string(data) == "webm"; !f.webm {
			return mayfly.Errorf(mayfly.Unsupported, "a file of type %q", data).WithHint("save it as WebM or MP4")
		}
	case trackType:
		if number != 1 && number != 2 {
			return mayfly.Errorf(mayfly.Unsupported, "a video with a track of type %d", number).WithHint("save it with picture and sound only")
		}
		f.video = f.video || number == 1
	case pixelWidth:
		f.width = uint32(min(number, math.MaxUint32))
	case pixelHigh:
		f.height = uint32(min(number, math.MaxUint32))
	}
	return nil
}

func (f *webmFile) closed(c *Cleaned, id ebmlID) error {
	if id != videoPart || uint64(f.width)*uint64(f.height) <= uint64(c.width)*uint64(c.height) {
		return nil
	}
	return c.measure(f.width, f.height)
}

func (f *webmFile) whole(c *Cleaned) error {
	if !f.webm || !f.video || !f.clustered || c.width == 0 {
		return broken("it has no picture, or ends before it")
	}
	return nil
}

// ebmlID is the id of an element, with its length marker as it is written.
type ebmlID uint32

// The elements that mean something here.
const (
	ebmlHeader ebmlID = 0x1a45dfa3
	docType    ebmlID = 0x4282
	void       ebmlID = 0xec

	segment    ebmlID = 0x18538067
	info       ebmlID = 0x1549a966
	tracks     ebmlID = 0x1654ae6b
	trackEntry ebmlID = 0xae
	trackType  ebmlID = 0x83
	videoPart  ebmlID = 0xe0
	audioPart  ebmlID = 0xe1
	pixelWidth ebmlID = 0xb0
	pixelHigh  ebmlID = 0xba
	cluster    ebmlID = 0x1f43b675
	blockGroup ebmlID = 0xa0
	additions  ebmlID = 0x75a1
	addition   ebmlID = 0xa6
	seekHead   ebmlID = 0x114d9b74
	seek       ebmlID = 0x4dbb
	cues       ebmlID = 0x1c53bb6b
	cuePoint   ebmlID = 0xbb
	cuePlace   ebmlID = 0xb7
	colour     ebmlID = 0x55b0
	mastering  ebmlID = 0x55d0
	projection ebmlID = 0x7670
)

// webmFate is what becomes of an element.
type webmFate uint8

const (
	webmVoid    webmFate = iota // leaves an element of the same size that says nothing
	webmPass                    // passes as it is
	webmBlank                   // passes with zeros: it has to be there, and need not say anything
	webmOpen                    // its parts are looked at
	webmRead                    // is read, and passes
	webmConfig                  // configures a decoder: passes without comments
	webmStrange                 // is of no sort that is known here
)

// webmFates is the grammar: what may be in which element. Places in the file are
// written down in it, so that what is taken out leaves as many bytes.
func webmFates(in, id ebmlID) webmFate {
	switch in {
	case 0:
		if id == ebmlHeader || id == segment {
			return webmOpen
		}
		return webmStrange
	case ebmlHeader:
		switch id {
		case docType:
			return webmRead
		case 0x4286, 0x42f7, 0x42f2, 0x42f3, 0x4287, 0x4285: // versions and lengths
			return webmPass
		}
	case segment:
		switch id {
		case info, tracks, cluster, seekHead, cues:
			return webmOpen
		case void, 0xbf, 0x1043a770, 0x1254c367, 0x1941a469: // checksum, chapters, tags, attachments
			return webmVoid
		}
		return webmStrange
	case info:
		switch id {
		case 0x2ad7b1, 0x4489: // timestamp scale, duration
			return webmPass
		case 0x4d80, 0x5741: // the programs that wrote it
			return webmBlank
		}
	case tracks:
		if id == trackEntry {
			return webmOpen
		}
	case trackEntry:
		switch id {
		case videoPart, audioPart:
			return webmOpen
		case trackType:
			return webmRead
		case 0xd7, 0x73c5, 0xb9, 0x88, 0x55aa, 0x9c, 0x6de7, 0x6df8, 0x23e383, 0x234e7a, 0x23314f, 0x55ee, 0x22b59c, 0x22b59d, 0x86, 0x56aa, 0x56bb:
			return webmPass
		case 0x63a2:
			return webmConfig
		}
	case videoPart:
		switch id {
		case pixelWidth, pixelHigh:
			return webmRead
		case 0x9a, 0x9d, 0x53b8, 0x53c0, 0x54aa, 0x54bb, 0x54cc, 0x54dd, 0x54b0, 0x54ba, 0x54b2, 0x54b3:
			return webmPass
		case colour, projection:
			return webmOpen
		}
	case colour:
		if id >= 0x55b1 && id <= 0x55bd {
			return webmPass
		}
		if id == mastering {
			return webmOpen
		}
	case mastering:
		if id >= 0x55d1 && id <= 0x55da {
			return webmPass
		}
	case projection:
		if id == 0x7671 || id >= 0x7673 && id <= 0x7675 { // without private data
			return webmPass
		}
	case audioPart:
		switch id {
		case 0xb5, 0x78b5, 0x9f, 0x6264:
			return webmPass
		}
	case cluster:
		switch id {
		case blockGroup:
			return webmOpen
		case 0xe7, 0xa3, 0xa7, 0xab: // timestamp, simple block, position, size of the one before
			return webmPass
		}
	case blockGroup:
		switch id {
		case 0xa1, 0x9b, 0xfb, 0x75a2: // block, duration, reference, padding
			return webmPass
		case additions:
			return webmOpen
		}
	case additions:
		if id == addition {
			return webmOpen
		}
	case addition:
		if id == 0xee || id == 0xa5 { // its sort, and the data, such as transparency
			return webmPass
		}
	case seekHead:
		if id == seek {
			return webmOpen
		}
	case seek:
		if id == 0x53ab || id == 0x53ac { // what, and where
			return webmPass
		}
	case cues:
		if id == cuePoint {
			return webmOpen
		}
	case cuePoint:
		if id == 0xb3 { // time
			return webmPass
		}
		if id == cuePlace {
			return webmOpen
		}
	case cuePlace:
		switch id {
		case 0xf7, 0xf1, 0xf0, 0xb2, 0x5378: // track, cluster, position, duration, block
			return webmPass
		}
	}
	return webmVoid
}

// webmLongest is how many bytes an element may have that passes as it is: media data may
// be long, numbers are not.
func webmLongest(id ebmlID) int64 {
	switch id {
	case 0xa3, 0xa1, 0xa5: // blocks, and what is added to one
		return unknown
	case 0x86, 0x22b59c, 0x22b59d: // names of codecs and languages
		return 32
	default:
		return 8
	}
}

// clearVorbis clears the comments in the configuration of Vorbis: three packets behind
// their lengths, the second of which is a list of texts.
func clearVorbis(b []byte) error {
	at := bytes.Index(b, []byte("\x03vorbis"))
	if len(b) == 0 || b[0] != 2 || at < 0 {
		return nil
	}
	text := b[at+7:]
	number := func() uint64 {
		if len(text) < 4 {
			return unknown
		}
		n := binary.LittleEndian.Uint32(text)
		text = text[4:]
		return uint64(n)
	}
	for left, first := uint64(1), true; left > 0; left, first = left-1, false { // the maker, then the comments
		size := number()
		if size > uint64(len(text)) {
			return broken("comments of a decoder that are cut off")
		}
		copy(text, bytes.Repeat([]byte{' '}, int(size)))
		text = text[size:]
		if first {
			if left = number(); left > uint64(len(text)) {
				return broken("more comments of a decoder than there is room for")
			}
			left++
		}
	}
	return nil
}

// writeVoid writes an element of the same length that says nothing.
func writeVoid(c *Cleaned, head int, size int64, then step) step {
	wide := min(8, head-1) // of the size, behind an id of one byte
	rest := size + int64(head-1-wide)
	c.out.WriteByte(byte(void))
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(rest)|1<<(7*wide))
	c.out.Write(b[8-wide:])
	c.out.Write(make([]byte, head-1-wide))
	return pass(size, blank, then)
}

// ebmlHead reads the id and the size of an element.
func ebmlHead(c *Cleaned) (head []byte, id ebmlID, size int64, err error) {
	first, err := c.takeByte()
	if err != nil {
		return nil, 0, 0, err
	}
	n := bits.LeadingZeros8(first)
	if n > 3 {
		return nil, 0, 0, broken("an element with an id of %d bytes", n+1)
	}
	rest, err := c.take(n)
	if err != nil {
		return nil, 0, 0, err
	}
	head = append([]byte{first}, rest...)
	for _, b := range head {
		id = id<<8 | ebmlID(b)
	}
	if first, err = c.takeByte(); err != nil {
		return nil, 0, 0, err
	}
	if n = bits.LeadingZeros8(first); n > 7 {
		return nil, 0, 0, broken("an element with a size of more than 8 bytes")
	}
	if rest, err = c.take(n); err != nil {
		return nil, 0, 0, err
	}
	head = append(append(head, first), rest...)
	value := uint64(first) &^ (0x80 >> n)
	for _, b := range rest {
		value = value<<8 | uint64(b)
	}
	if value == 1<<(7*(n+1))-1 {
		return head, id, unknown, nil
	}
	return head, id, int64(value), nil
}
