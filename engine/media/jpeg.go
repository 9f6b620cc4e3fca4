package media

import (
	"bytes"
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
)

// The markers of a JPEG that mean something here.
const (
	soi  = 0xd8
	eoi  = 0xd9
	sos  = 0xda
	dqt  = 0xdb
	dri  = 0xdd
	dht  = 0xc4
	app0 = 0xe0
	com  = 0xfe
)

// A progressive JPEG has about ten scans. Decoding takes as long as all of them
// together: at most as long as a picture of the largest size in so many.
const (
	maxScans       = 100
	scansOfLargest = 12
)

// jpegFile is what has been seen of one.
type jpegFile struct {
	framed, scanned bool
	memory          int64 // that decoding takes
	converted       bool  // its colours are not those of photos: they are decoded into a second picture
	scans           int64
	turned          bool // an orientation was found
	profile         iccParts
}

func jpegStart(c *Cleaned) (step, error) {
	if _, err := c.take(2); err != nil {
		return nil, err
	}
	c.out.Write([]byte{0xff, soi})
	return (&jpegFile{}).segment, nil
}

// segment reads one marker with what belongs to it. What decoding needs passes;
// everything else stays behind, and so does all that follows the end of image.
func (f *jpegFile) segment(c *Cleaned) (step, error) {
	if err := c.element(); err != nil {
		return nil, err
	}
	marker, err := jpegMarker(c)
	if err != nil {
		return nil, err
	}
	if marker == eoi {
		if !f.scanned {
			return nil, broken("it has no picture")
		}
		c.out.Write([]byte{0xff, eoi})
		return nil, nil
	}
	return f.marked(c, marker)
}

// jpegMarker reads a marker; fill bytes before it are legal and mean nothing.
func jpegMarker(c *Cleaned) (byte, error) {
	b, err := c.takeByte()
	if err == nil && b != 0xff {
		return 0, broken("no marker where one has to be")
	}
	for err == nil && b == 0xff {
		b, err = c.takeByte()
	}
	return b, err
}

func (f *jpegFile) marked(c *Cleaned, marker byte) (step, error) {
	if marker < 0xc0 || marker >= 0xd0 && marker <= soi {
		return nil, broken("marker %02x out of place", marker)
	}
	length, err := c.take(2)
	if err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(length)) - 2
	if n < 0 {
		return nil, broken("a segment shorter than itself")
	}
	data, err := c.take(n)
	if err != nil {
		return nil, err
	}
	switch {
	case marker == dqt || marker == dht || marker == dri:
		if !exactTables(marker, data) {
			return nil, broken("a table that is shorter or longer than it says")
		}
		writeSegment(c, marker, data)
	case marker == sos:
		return f.scan(c, data)
	case marker < app0, marker > app0+15 && marker != com:
		return f.segment, f.frame(c, marker, data)
	case f.scanned: // nothing that describes comes behind the picture has begun
	default:
		f.describe(c, marker, data)
	}
	return f.segment, nil
}

func writeSegment(c *Cleaned, marker byte, data []byte) {
	c.out.Write([]byte{0xff, marker})
	c.out.Write(binary.BigEndian.AppendUint16(nil, uint16(len(data)+2)))
	c.out.Write(data)
}

// frame takes the frame header, with the dimensions. Browsers and decoders know
// three of them: baseline, extended and progressive.
func (f *jpegFile) frame(c *Cleaned, marker byte, data []byte) error {
	if marker < 0xc0 || marker > 0xc2 {
		return mayfly.Errorf(mayfly.Unsupported, "a JPEG of a rare sort (marker %02x)", marker).WithHint("save it as a baseline or progressive JPEG")
	}
	if f.framed || len(data) < 6+3 || len(data) != 6+3*int(data[5]) {
		return broken("not one frame header")
	}
	f.framed = true
	writeSegment(c, marker, data)
	height, width := binary.BigEndian.Uint16(data[1:]), binary.BigEndian.Uint16(data[3:])
	f.memory = jpegMemory(int64(width), int64(height), data[6:], marker == 0xc2)
	f.converted = f.converted || data[5] == 4 || data[6] == 'R'
	return c.measure(uint32(width), uint32(height))
}

// jpegMemory is how many bytes decoding takes: a byte for each sample, four more for its
// coefficient if the picture is progressive.
func jpegMemory(width, height int64, components []byte, progressive bool) int64 {
	across, down, each := int64(1), int64(1), int64(0) // samples of a unit, in blocks of 8 × 8
	for n := 0; n+3 <= len(components); n += 3 {
		h, v := int64(components[n+1]>>4), int64(components[n+1]&15)
		across, down, each = max(across, h), max(down, v), each+h*v
	}
	wide := int64(1)
	if progressive {
		wide = 1 + 4
	}
	units := ((width + 8*across - 1) / (8 * across)) * ((height + 8*down - 1) / (8 * down))
	return units * 64 * each * wide
}

// describe decides about what describes the picture: how its colours are meant
// and which side is up stay; who took it where, when and with what does not.
func (f *jpegFile) describe(c *Cleaned, marker byte, data []byte) {
	const jfif, adobe = 14, 12 // bytes of each, without thumbnails and the like
	switch {
	case marker == app0 && len(data) >= jfif && bytes.HasPrefix(data, []byte("JFIF\x00")):
		data = data[:jfif]
		data[12], data[13] = 0, 0 // no thumbnail
		writeSegment(c, marker, data)
	case marker == app0+1 && bytes.HasPrefix(data, []byte(exifName)) && !f.turned:
		turned := exifOrientation(data[len(exifName):])
		if turned == upright {
			return
		}
		f.turned, c.turned = true, turned
		writeSegment(c, marker, exifOf(turned))
	case marker == app0+2:
		for _, part := range f.profile.add(data) {
			writeSegment(c, marker, part)
		}
	case marker == app0+14 && len(data) >= adobe && bytes.HasPrefix(data, []byte("Adobe")):
		f.converted = f.converted || data[adobe-1] == 0
		writeSegment(c, marker, data[:adobe])
	}
}

func (f *jpegFile) scan(c *Cleaned, data []byte) (step, error) {
	if !f.framed || len(data) < 4 || len(data) != 4+2*int(data[0]) {
		return nil, broken("a scan before its frame, or a false one")
	}
	if !f.scanned {
		if f.converted {
			f.memory += 4 * int64(c.width) * int64(c.height)
		}
		if err := c.reserve(f.memory, 0); err != nil {
			return nil, err
		}
	}
	f.scanned = true
	// Each scan goes over the whole picture again, and costs a few bytes to send.
	if f.scans++; f.scans > maxScans || f.scans*int64(c.width)*int64(c.height) > scansOfLargest*c.limits.Pixels {
		return nil, mayfly.Errorf(mayfly.TooLarge, "a picture of %d × %d pixels in %d scans", c.width, c.height, f.scans).
			WithHint("save it with fewer scans, or as a baseline JPEG")
	}
	writeSegment(c, sos, data)
	return f.entropy, nil
}

// entropy passes coded data up to the next marker that is not a part of it.
func (f *jpegFile) entropy(c *Cleaned) (step, error) {
	if _, err := c.in.Peek(2); err != nil {
		return nil, cutOff(err)
	}
	coded, _ := c.in.Peek(c.in.Buffered())
	n, marked := codedBytes(coded)
	if err := c.spend(int64(n)); err != nil {
		return nil, err
	}
	c.out.Write(coded[:n])
	if _, err := c.in.Discard(n); err != nil {
		return nil, cutOff(err)
	}
	if marked {
		return f.segment, nil
	}
	return f.entropy, nil
}

// codedBytes counts the bytes of b, which has two at least, before a marker. The
// last one may be the half of something, and is counted the next time.
func codedBytes(b []byte) (n int, marked bool) {
	for n < len(b) {
		at := bytes.IndexByte(b[n:], 0xff)
		if at < 0 {
			return len(b), false
		}
		if n += at; n+1 == len(b) {
			return n, false
		}
		if code := b[n+1]; code != 0 && (code < 0xd0 || code >= soi) {
			return n, true
		}
		n += 2 // a byte of ff, or a restart
	}
	return n, false
}

// exactTables says whether a segment is tables for decoding and nothing else:
// behind them there would be room for anything.
func exactTables(marker byte, data []byte) bool {
	if marker == dri {
		return len(data) == 2
	}
	for len(data) > 0 {
		n := quantization(data)
		if marker == dht {
			n = huffman(data)
		}
		if n > len(data) {
			return false
		}
		data = data[n:]
	}
	return true
}

// quantization is how long the quantization table is that data begin with.
func quantization(data []byte) int {
	if data[0]>>4 == 0 {
		return 1 + 64
	}
	return 1 + 2*64
}

// huffman is how long the code table is that data begin with: how many codes
// there are of each length, and what they stand for.
func huffman(data []byte) int {
	n := 1 + 16
	for i := 1; i <= 16 && i < len(data); i++ {
		n += int(data[i])
	}
	return n
}

const (
	exifName = "Exif\x00\x00"

	upright     = 1 // the orientation of a picture that is stored as it is shown
	lastUpright = 4 // from 5 on width and height change places

	orientationTag = 0x0112
	shortType      = 3
)

// exifOrientation is the orientation in a TIFF block, upright where it says none.
func exifOrientation(tiff []byte) uint8 {
	if len(tiff) < 8 {
		return upright
	}
	var order binary.ByteOrder = binary.BigEndian
	if string(tiff[:2]) == "II" {
		order = binary.LittleEndian
	} else if string(tiff[:2]) != "MM" {
		return upright
	}
	at := uint64(order.Uint32(tiff[4:]))
	if order.Uint16(tiff[2:]) != 42 || at+2 > uint64(len(tiff)) {
		return upright
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			return upright
		}
		if order.Uint16(entries) == orientationTag && order.Uint16(entries[2:]) == shortType && order.Uint32(entries[4:]) == 1 {
			if v := order.Uint16(entries[8:]); v >= upright && v <= 8 {
				return uint8(v)
			}
			return upright
		}
		entries = entries[12:]
	}
	return upright
}

// exifOf is an EXIF segment that says the orientation and nothing else.
func exifOf(turned uint8) []byte {
	b := []byte(exifName + "MM\x00\x2a\x00\x00\x00\x08\x00\x01")
	b = binary.BigEndian.AppendUint16(b, orientationTag)
	b = binary.BigEndian.AppendUint16(b, shortType)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = append(b, 0, turned, 0, 0)
	return append(b, 0, 0, 0, 0) // no other directory
}
