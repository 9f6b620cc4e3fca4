package media

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/mayflyhq/mayfly"
)

// mp4File is what has been seen of one. Chunks of samples are found by their
// place in the file: what is taken out leaves a free box of the same size.
type mp4File struct {
	within []mp4Box // the boxes around, outermost first; never deeper than the grammar
	moov   bool
	mdat   bool
	video  bool
}

// mp4Box is a box whose parts are looked at one by one.
type mp4Box struct {
	name string
	left int64
}

func mp4Start(c *Cleaned) (step, error) { return (&mp4File{}).box, nil }

// box reads the head of the next box and decides about it.
func (f *mp4File) box(c *Cleaned) (step, error) {
	for len(f.within) > 0 && f.within[len(f.within)-1].left == 0 {
		f.within = f.within[:len(f.within)-1]
	}
	in := ""
	if len(f.within) > 0 {
		in = f.within[len(f.within)-1].name
	} else if end, err := c.atEnd(); end || err != nil {
		return f.end(c, err)
	}
	head, size, err := f.head(c, in)
	if err != nil || head == nil {
		return f.end(c, err)
	}
	name := string(head[4:8])
	if len(f.within) > 0 {
		box := &f.within[len(f.within)-1]
		if size > box.left {
			return nil, broken("box %q is larger than %q, which it is in", name, in)
		}
		box.left -= size
	}
	return f.treat(c, mp4Fates(in, name), name, head, size-int64(len(head)))
}

// head reads the head of a box: its size, its name, and its size once more where
// it is large. At the outermost level a strange box behind the video is where
// the file ends and something else begins: then it is nil.
func (f *mp4File) head(c *Cleaned, in string) (head []byte, size int64, err error) {
	if in == "" && f.moov && f.mdat {
		next, err := c.in.Peek(8)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, cutOff(err)
		}
		if len(next) < 8 || mp4Fates(in, string(next[4:8])) == mp4Strange {
			return nil, 0, nil
		}
	}
	if head, err = c.take(8); err != nil {
		return nil, 0, err
	}
	switch size = int64(binary.BigEndian.Uint32(head)); size {
	case 0:
		return nil, 0, mayfly.Errorf(mayfly.Unsupported, "a box that goes on to the end of the file").WithHint("save the video again")
	case 1:
		large, err := c.take(8)
		if err != nil {
			return nil, 0, err
		}
		head = append(head, large...)
		if size = int64(binary.BigEndian.Uint64(large)); size < 0 {
			return nil, 0, broken("a box of a size beyond all bounds")
		}
	}
	if size < int64(len(head)) {
		return nil, 0, broken("a box smaller than itself")
	}
	if size-int64(len(head)) > c.left {
		return nil, 0, c.tooLong()
	}
	return head, size, nil
}

func (f *mp4File) end(c *Cleaned, err error) (step, error) {
	switch {
	case err != nil:
		return nil, err
	case !f.moov || !f.mdat:
		return nil, broken("it has no video, or ends before it")
	case !f.video || c.width == 0:
		return nil, broken("it has no picture")
	}
	return nil, nil
}

// maxMP4Read bounds the boxes that are read whole; all of them are small.
const maxMP4Read = 64 << 10

func (f *mp4File) treat(c *Cleaned, fate mp4Fate, name string, head []byte, n int64) (step, error) {
	switch {
	case fate == mp4Strange:
		return nil, broken("a box %q", name)
	case fate == mp4Free:
		copy(head[4:], "free")
		c.out.Write(head)
		return pass(n, blank, f.box), nil
	case fate == mp4Open:
		f.moov = f.moov || name == "moov"
		f.within = append(f.within, mp4Box{name: name, left: n})
		c.out.Write(head)
		return f.box, nil
	case fate == mp4Pass:
		f.mdat = f.mdat || name == "mdat"
		c.out.Write(head)
		return pass(n, keep, f.box), nil
	case n > maxMP4Read:
		return nil, broken("box %q of %d bytes", name, n)
	}
	data, err := c.take(int(n))
	if err != nil {
		return nil, err
	}
	if err := f.read(c, name, data); err != nil {
		return nil, err
	}
	c.out.Write(head)
	c.out.Write(data)
	return f.box, nil
}
