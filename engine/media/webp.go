package media

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"image"
	"io"

	"golang.org/x/image/webp"
)

// webpFile is what has been seen of one. The size of the whole stands in front,
// so that what is taken out leaves a chunk of zeros behind, which readers skip.
type webpFile struct {
	left     int64 // bytes of it that are to come
	frame    int64 // bytes of the frame of an animation that are to come
	extended bool
	animated bool
	first    bool
	pictured bool
	alpha    bool // the picture, or this frame of the animation, has its transparency
	profiled bool // a colour profile was looked at
}

// losslessTables is how much memory the code tables of lossless data may take: up to 2600
// groups of five tables.
const losslessTables = 2600 * 52 << 10

const webpNothing = "JUNK" // the name of a chunk that readers skip

// What the header of an extended WebP announces.
const (
	webpAnimation = 0x02
	webpXMP       = 0x04
	webpEXIF      = 0x08
	webpAlpha     = 0x10
)

func webpStart(c *Cleaned) (step, error) {
	b, err := c.take(12)
	if err != nil {
		return nil, err
	}
	size := int64(binary.LittleEndian.Uint32(b[4:]))
	if size-4 > c.left {
		return nil, c.tooLong()
	}
	if size < 4+8 || size%2 != 0 {
		return nil, broken("a size of %d bytes", size)
	}
	c.out.Write(b)
	f := &webpFile{left: size - 4, first: true}
	return f.chunk, nil
}

// chunk reads the head of a chunk and decides about it. Behind the size that the
// file says nothing is read.
func (f *webpFile) chunk(c *Cleaned) (step, error) {
	if f.left == 0 {
		if !f.pictured {
			return nil, broken("it has no picture")
		}
		return nil, nil
	}
	if err := c.element(); err != nil {
		return nil, err
	}
	head, err := c.take(8)
	if err != nil {
		return nil, err
	}
	name, n := string(head[:4]), int64(binary.LittleEndian.Uint32(head[4:]))
	padded := n + n%2
	inFrame := f.frame > 0
	if padded+8 > f.left || inFrame && padded+8 > f.frame {
		return nil, broken("chunk %q is larger than what it is in", name)
	}
	f.left -= 8 + padded
	if inFrame {
		f.frame -= 8 + padded
	}
	first := f.first
	f.first = false
	switch {
	case name == "VP8X" && first:
		return f.header(c, head, n)
	case name == "ANMF" && f.animated && !inFrame:
		return f.frameHead(c, head, n)
	case (name == "VP8 " || name == "VP8L") && f.expectsPicture(first, inFrame):
		return f.picture(c, head, n)
	case name == "ICCP" && n <= maxICC && f.extended && !f.pictured && !f.profiled && !inFrame:
		return f.profile(c, head, int(padded), int(n))
	case f.kept(name, n, inFrame):
		c.out.Write(head)
		return pass(padded, keep, f.chunk), nil
	default:
		copy(head, webpNothing)
		c.out.Write(head)
		return pass(padded, blank, f.chunk), nil
	}
}

// expectsPicture says whether picture data belong here: in a frame of an
// animation, or once in a file.
func (f *webpFile) expectsPicture(first, inFrame bool) bool {
	if f.animated {
		return inFrame
	}
	return !f.pictured && (first || f.extended)
}

func (f *webpFile) kept(name string, n int64, inFrame bool) bool {
	switch name {
	case "ALPH":
		first := !f.alpha && f.extended && (inFrame || !f.animated && !f.pictured)
		f.alpha = true
		return first
	case "ANIM":
		return f.animated && !inFrame && n == 6
	default:
		return false
	}
}

// profile passes the one colour profile, cleaned, if it is well-formed. It keeps its
// size, with zeros behind its tags: the size of the whole file was written before.
func (f *webpFile) profile(c *Cleaned, head []byte, padded, n int) (step, error) {
	f.profiled = true
	head = bytes.Clone(head)
	data, err := c.take(padded)
	if err != nil {
		return nil, err
	}
	profile := cleanProfile(data[:n])
	clear(data)
	if profile == nil || len(profile) > n {
		copy(head, webpNothing)
	} else {
		copy(data, profile)
		binary.BigEndian.PutUint32(data, uint32(n))
	}
	c.out.Write(head)
	c.out.Write(data)
	return f.chunk, nil
}

// header is what an extended file has in it; it must not announce what is taken
// out.
func (f *webpFile) header(c *Cleaned, head []byte, n int64) (step, error) {
	if n != 10 {
		return nil, broken("a header of %d bytes", n)
	}
	b, err := c.take(10)
	if err != nil {
		return nil, err
	}
	b[0] &^= webpXMP | webpEXIF
	b[1], b[2], b[3] = 0, 0, 0
	f.extended, f.animated = true, b[0]&webpAnimation != 0
	c.out.Write(head)
	c.out.Write(b)
	return f.chunk, c.measure(uint24(b[4:])+1, uint24(b[7:])+1)
}

func uint24(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

// frameHead is that of one frame of an animation; its chunks follow.
func (f *webpFile) frameHead(c *Cleaned, head []byte, n int64) (step, error) {
	const length = 16
	if n < length+8 || n%2 != 0 {
		return nil, broken("a frame of %d bytes", n)
	}
	b, err := c.take(length)
	if err != nil {
		return nil, err
	}
	left, top, width, height := uint64(uint24(b))*2, uint64(uint24(b[3:]))*2, uint64(uint24(b[6:]))+1, uint64(uint24(b[9:]))+1
	if left+width > uint64(c.width) || top+height > uint64(c.height) {
		return nil, broken("a frame outside of its picture")
	}
	c.out.Write(head)
	c.out.Write(b)
	f.alpha = false
	f.left, f.frame = f.left+n-length, n-length
	return f.chunk, nil
}

// picture holds the dimensions that the picture data say of themselves against
// those that were announced: decoders go by either.
func (f *webpFile) picture(c *Cleaned, head []byte, n int64) (step, error) {
	look := int64(10)
	if string(head[:4]) == "VP8L" {
		look = 5
	}
	if n < look {
		return nil, broken("picture data of %d bytes", n)
	}
	b, err := c.take(int(look))
	if err != nil {
		return nil, err
	}
	width, height, err := webpDimensions(string(head[:4]), b)
	if err != nil {
		return nil, err
	}
	switch {
	case !f.extended:
		err = c.measure(width, height)
	case f.animated && (width > c.width || height > c.height), !f.animated && (width != c.width || height != c.height):
		err = broken("picture data of %d × %d pixels in a picture of %d × %d", width, height, c.width, c.height)
	}
	if err != nil {
		return nil, err
	}
	pixels := int64(width) * int64(height)
	need, tables := 2*pixels, int64(0)
	if f.alpha || string(head[:4]) == "VP8L" {
		need, tables = 8*pixels, losslessTables // four bytes, and four where colours are looked up
	}
	if err := c.reserve(need, tables); err != nil {
		return nil, err
	}
	f.pictured = true
	c.out.Write(head)
	c.out.Write(b)
	return pass(n+n%2-look, keep, f.chunk), nil
}

func webpDimensions(name string, b []byte) (width, height uint32, err error) {
	if name == "VP8L" {
		bits := binary.LittleEndian.Uint32(b[1:])
		if b[0] != 0x2f || bits>>29 != 0 {
			return 0, 0, broken("lossless data that do not begin as such")
		}
		return bits&0x3fff + 1, bits>>14&0x3fff + 1, nil
	}
	if b[0]&1 != 0 || string(b[3:6]) != "\x9d\x01\x2a" {
		return 0, 0, broken("picture data that do not begin with a key frame")
	}
	return uint32(binary.LittleEndian.Uint16(b[6:]) & 0x3fff), uint32(binary.LittleEndian.Uint16(b[8:]) & 0x3fff), nil
}

// decodeWebP decodes a cleaned WebP: of an animation, which the decoder does not
// know, its first frame.
func decodeWebP(r io.Reader) (image.Image, error) {
	in := bufio.NewReader(r)
	head, err := in.Peek(12 + 8 + 1)
	if err != nil || string(head[12:16]) != "VP8X" || head[20]&webpAnimation == 0 {
		return webp.Decode(in)
	}
	if _, err := in.Discard(12); err != nil {
		return nil, err
	}
	still, err := firstFrame(in)
	if err != nil {
		return nil, err
	}
	return webp.Decode(still)
}

// firstFrame finds the first frame of an animation and makes a file of it. The
// frame has been cleaned: its lengths are true.
func firstFrame(in *bufio.Reader) (io.Reader, error) {
	var head [8 + 16]byte
	for {
		if _, err := io.ReadFull(in, head[:8]); err != nil {
			return nil, cutOff(err)
		}
		n := int64(binary.LittleEndian.Uint32(head[4:]))
		if string(head[:4]) == "ANMF" {
			break
		}
		if _, err := io.CopyN(io.Discard, in, n+n%2); err != nil {
			return nil, cutOff(err)
		}
	}
	if _, err := io.ReadFull(in, head[8:]); err != nil {
		return nil, cutOff(err)
	}
	rest := binary.LittleEndian.Uint32(head[4:]) - 16
	var flags byte
	if first, err := in.Peek(4); err == nil && string(first) == "ALPH" {
		flags = webpAlpha
	}
	still := binary.LittleEndian.AppendUint32([]byte("RIFF"), 4+18+rest)
	still = append(still, "WEBPVP8X\x0a\x00\x00\x00"...)
	still = append(still, flags, 0, 0, 0)
	still = append(still, head[8+6:8+12]...) // its dimensions
	return io.MultiReader(bytes.NewReader(still), io.LimitReader(in, int64(rest))), nil
}
