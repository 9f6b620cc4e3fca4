package media

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"

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

// read cleans a box in its place: the time of the recording, and the
// names that programs gave.
func (f *mp4File) read(c *Cleaned, name string, data []byte) error {
	switch name {
	case "mvhd", "mdhd":
		_, err := mp4Dateless(data)
		return err
	case "tkhd":
		return f.track(c, data)
	case "hdlr":
		return f.handler(data)
	case "dref":
		return mp4OwnData(data)
	}
	return nil
}

// mp4Dateless takes the two dates out that head a box, and answers what follows
// them.
func mp4Dateless(data []byte) ([]byte, error) {
	n := 4 + 8
	if len(data) > 0 && data[0] == 1 {
		n = 4 + 16
	}
	if len(data) < n {
		return nil, broken("a header of %d bytes", len(data))
	}
	clear(data[4:n])
	return data[n:], nil
}

// track takes the dimensions of a picture, which a matrix may turn.
func (f *mp4File) track(c *Cleaned, data []byte) error {
	rest, err := mp4Dateless(data)
	if err != nil {
		return err
	}
	duration := 4
	if data[0] == 1 {
		duration = 8
	}
	at := 8 + duration + 8 + 8 // id, duration, layer and volume
	if len(rest) < at+36+8 {
		return broken("a track header of %d bytes", len(data))
	}
	matrix, be := rest[at:], binary.BigEndian
	width, height := be.Uint32(matrix[36:])>>16, be.Uint32(matrix[40:])>>16
	if width == 0 || height == 0 {
		return nil // sound
	}
	if be.Uint32(matrix) == 0 && be.Uint32(matrix[16:]) == 0 { // a quarter turn
		width, height = height, width
	}
	if int64(width)*int64(height) <= int64(c.width)*int64(c.height) {
		return nil
	}
	return c.measure(width, height)
}

// handler lets pictures and sound in, without the names of their tracks. Tracks
// of another sort hold what cameras record beside the picture, such as where
// they were; their samples lie among the others and cannot be taken out.
func (f *mp4File) handler(data []byte) error {
	if len(data) < 24 {
		return broken("a handler of %d bytes", len(data))
	}
	kind := string(data[8:12])
	if kind != "vide" && kind != "soun" {
		return mayfly.Errorf(mayfly.Unsupported, "a video with a track of kind %q", kind).
			WithHint("save it with picture and sound only: other tracks may say where it was filmed")
	}
	f.video = f.video || kind == "vide"
	clear(data[12:])
	return nil
}

// mp4OwnData wants every reference to data to be one to the file itself: a player
// must not be sent elsewhere. What such a reference says beside that is blanked.
func mp4OwnData(data []byte) error {
	const own = "url \x00\x00\x00\x01"
	if len(data) < 8 {
		return broken("a reference of %d bytes", len(data))
	}
	for data = data[8:]; len(data) > 0; {
		if len(data) < 12 || string(data[4:12]) != own {
			return mayfly.Errorf(mayfly.Unsupported, "a video whose data lie somewhere else").WithHint("save it as one file")
		}
		size := uint64(binary.BigEndian.Uint32(data))
		if size < 12 || size > uint64(len(data)) {
			return broken("a reference of %d bytes", size)
		}
		clear(data[12:size])
		data = data[size:]
	}
	return nil
}

// mp4Brand says whether a file of that major brand is taken as MP4. HEIC, AVIF,
// QuickTime and still others are built alike and are something else.
func mp4Brand(brand string) bool {
	switch brand {
	case "isom", "mp41", "mp42", "mp71", "avc1", "M4V ", "M4VP", "M4VH", "dash", "msnv", "MSNV", "cmfc", "cmf2", "3gp4", "3gp5", "3gp6":
		return true
	default:
		return len(brand) == 4 && brand[:3] == "iso" && brand[3] >= '1' && brand[3] <= '9'
	}
}

// mp4Fate is what becomes of a box.
type mp4Fate uint8

const (
	mp4Free    mp4Fate = iota // leaves a free box
	mp4Pass                   // passes as it is
	mp4Open                   // its parts are looked at
	mp4Read                   // is read whole, and cleaned
	mp4Strange                // is of no sort that is known here
)

// mp4Fates is the grammar: what may be in which box. Whatever is not here is not
// needed to show the video: udta, meta, uuid, and what makers of cameras add.
func mp4Fates(in, name string) mp4Fate {
	is := func(names string) bool { return strings.Contains(" "+names+" ", " "+name+" ") }
	switch in {
	case "":
		switch {
		case is("ftyp styp"):
			return mp4Read
		case is("mdat sidx ssix"):
			return mp4Pass
		case is("moov moof mfra"):
			return mp4Open
		case is("free skip wide uuid meta udta pdin emsg prft mere meco pnot junk"):
			return mp4Free
		}
		return mp4Strange
	case "moov":
		return choose(is("trak mvex"), mp4Open, choose(is("mvhd"), mp4Read, mp4Free))
	case "trak":
		return choose(is("edts mdia"), mp4Open, choose(is("tkhd"), mp4Read, choose(is("tref"), mp4Pass, mp4Free)))
	case "edts":
		return choose(is("elst"), mp4Pass, mp4Free)
	case "mdia":
		return choose(is("minf"), mp4Open, choose(is("mdhd hdlr"), mp4Read, mp4Free))
	case "minf":
		return choose(is("stbl dinf"), mp4Open, choose(is("vmhd smhd nmhd"), mp4Pass, mp4Free))
	case "dinf":
		return choose(is("dref"), mp4Read, mp4Free)
	case "stbl":
		return choose(is("stsd stts ctts cslg stss stsz stz2 stsc stco co64 sgpd sbgp sdtp stps stsh subs"), mp4Pass, mp4Free)
	case "mvex":
		return choose(is("mehd trex leva"), mp4Pass, mp4Free)
	case "moof":
		return choose(is("traf"), mp4Open, choose(is("mfhd"), mp4Pass, mp4Free))
	case "traf":
		return choose(is("tfhd tfdt trun sbgp sgpd sdtp subs"), mp4Pass, mp4Free)
	case "mfra":
		return choose(is("tfra mfro"), mp4Pass, mp4Free)
	}
	return mp4Free
}

func choose(is bool, then, otherwise mp4Fate) mp4Fate {
	if is {
		return then
	}
	return otherwise
}
