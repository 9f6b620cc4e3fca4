package media

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"hash/crc32"
	"io"
)

const pngSignature = "\x89PNG\r\n\x1a\n"

// pngFile is what has been seen of one.
type pngFile struct {
	crc      uint32 // of the chunk that passes
	seen     map[string]bool
	pictured bool
	ended    bool // its picture: no more of it may come
	profiled bool
	unpacked int64 // bytes of colour profiles, good or bad
}

func pngStart(c *Cleaned) (step, error) {
	b, err := c.take(len(pngSignature) + 8 + 13 + 4)
	if err != nil {
		return nil, err
	}
	head := b[len(pngSignature):]
	if binary.BigEndian.Uint32(head) != 13 || string(head[4:8]) != "IHDR" {
		return nil, broken("it does not begin with its header")
	}
	if crc32.ChecksumIEEE(head[4:21]) != binary.BigEndian.Uint32(head[21:]) {
		return nil, broken("the header's checksum is wrong")
	}
	c.out.Write(b)
	if err := c.measure(binary.BigEndian.Uint32(head[8:]), binary.BigEndian.Uint32(head[12:])); err != nil {
		return nil, err
	}
	need := 4 * int64(c.width) * int64(c.height)
	if depth := head[16]; depth == 16 {
		need *= 2
	}
	if interlaced := head[20]; interlaced != 0 { // each pass is a picture of its own
		need *= 2
	}
	return (&pngFile{seen: map[string]bool{}}).chunk, c.reserve(need, 0)
}

// pngKept is how long a chunk may be that is needed to show the picture as it is
// meant; none for the others. Text, time and EXIF are not needed, and neither are
// the frames of an animation: what is left shows its still picture.
func pngKept(name string) (longest int64, kept bool) {
	switch name {
	case "IDAT":
		return 1<<31 - 1, true
	case "PLTE":
		return 3 * 256, true
	case "tRNS":
		return 256, true
	case "sRGB":
		return 1, true
	case "gAMA", "sBIT", "cICP":
		return 4, true
	case "bKGD":
		return 6, true
	case "cLLI":
		return 8, true
	case "pHYs":
		return 9, true
	case "mDCV":
		return 24, true
	case "cHRM":
		return 32, true
	default:
		return 0, false
	}
}

func (f *pngFile) chunk(c *Cleaned) (step, error) {
	if err := c.element(); err != nil {
		return nil, err
	}
	head, err := c.take(8)
	if err != nil {
		return nil, err
	}
	n, name := int64(binary.BigEndian.Uint32(head)), string(head[4:])
	if n > 1<<31-1 {
		return nil, broken("a chunk of %d bytes", n)
	}
	if name != "IDAT" {
		f.ended = f.pictured
	}
	longest, kept := pngKept(name)
	again := name != "IDAT" && f.seen[name]
	switch {
	case name == "IEND":
		return f.end(c, head, n)
	case name == "iCCP" && n <= maxICC:
		return f.profile(c, int(n))
	case name == "IDAT" && f.ended:
		return nil, broken("its picture goes on behind its end")
	case kept && n <= longest && !again:
		f.pictured = f.pictured || name == "IDAT"
		f.seen[name] = true
	case name[0]&0x20 == 0: // critical: who does not know it cannot show the picture
		return nil, broken("chunk %q is not known, or too large, or there twice", name)
	default:
		return pass(n+4, drop, f.chunk), nil
	}
	c.out.Write(head)
	f.crc = crc32.ChecksumIEEE(head[4:])
	return f.data(n), nil
}

// data passes the rest of a chunk and holds it against its checksum.
func (f *pngFile) data(n int64) step {
	return func(c *Cleaned) (step, error) {
		if n > c.left {
			return nil, c.tooLong()
		}
		part, err := c.take(int(min(n, piece)))
		if err != nil {
			return nil, err
		}
		f.crc = crc32.Update(f.crc, crc32.IEEETable, part)
		c.out.Write(part)
		if n > piece {
			return f.data(n - piece), nil
		}
		sum, err := c.take(4)
		if err != nil {
			return nil, err
		}
		if binary.BigEndian.Uint32(sum) != f.crc {
			return nil, broken("a checksum is wrong")
		}
		c.out.Write(sum)
		return f.chunk, nil
	}
}

// end writes the end of the picture; whatever follows is not read.
func (f *pngFile) end(c *Cleaned, head []byte, n int64) (step, error) {
	if n != 0 || !f.pictured {
		return nil, broken("it has no picture")
	}
	if _, err := c.take(4); err != nil {
		return nil, err
	}
	writeChunk(c, string(head[4:]), nil)
	return nil, nil
}

func writeChunk(c *Cleaned, name string, data []byte) {
	c.out.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data))))
	c.out.WriteString(name)
	c.out.Write(data)
	c.out.Write(binary.BigEndian.AppendUint32(nil, crc32.Update(crc32.ChecksumIEEE([]byte(name)), crc32.IEEETable, data)))
}

// profile passes a colour profile that is well-formed, packed anew: neither its
// name nor what lies behind the packed bytes is needed.
func (f *pngFile) profile(c *Cleaned, n int) (step, error) {
	data, err := c.take(n + 4)
	if err != nil {
		return nil, err
	}
	_, packed, named := bytes.Cut(data[:n], []byte{0})
	if f.profiled || f.pictured || f.unpacked > maxICC || !named || len(packed) == 0 || packed[0] != 0 {
		return f.chunk, nil
	}
	r, err := zlib.NewReader(bytes.NewReader(packed[1:]))
	if err != nil {
		return f.chunk, nil // a profile that cannot be read is left out
	}
	whole, err := io.ReadAll(io.LimitReader(r, maxICC+1-f.unpacked)) // of all of them together: unpacking costs more than sending
	f.unpacked += int64(len(whole))
	if err == nil {
		whole = cleanProfile(whole)
	}
	if err != nil || whole == nil {
		return f.chunk, nil
	}
	f.profiled = true
	var again bytes.Buffer
	again.WriteString("icc\x00\x00")
	w := zlib.NewWriter(&again)
	if _, err := w.Write(whole); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	writeChunk(c, "iCCP", again.Bytes())
	return f.chunk, nil
}
