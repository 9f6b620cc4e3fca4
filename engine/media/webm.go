package media

import (
	"math"

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
	head, id, size, err := ebmlHead(c)
	if err != nil {
		return nil, err
	}
	in, fate := f.place(id)
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

const maxWebMRead = 16

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
	case webmRead:
		if size > maxWebMRead {
			return nil, broken("an element %x of %d bytes", uint32(id), size)
		}
		data, err := c.take(int(size))
		if err != nil {
			return nil, err
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
