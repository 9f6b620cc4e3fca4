package media

import "encoding/binary"

// The blocks of a GIF.
const (
	gifImage     = 0x2c
	gifExtension = 0x21
	gifTrailer   = 0x3b

	gifControl     = 0xf9
	gifApplication = 0xff
)

// gifFile is what has been seen of one.
type gifFile struct{ pictured bool }

func gifStart(c *Cleaned) (step, error) {
	b, err := c.take(13)
	if err != nil {
		return nil, err
	}
	c.out.Write(b)
	if err := c.measure(uint32(binary.LittleEndian.Uint16(b[6:])), uint32(binary.LittleEndian.Uint16(b[8:]))); err != nil {
		return nil, err
	}
	if err := c.reserve(int64(c.width)*int64(c.height), 0); err != nil {
		return nil, err
	}
	return pass(gifColours(b[10]), keep, (&gifFile{}).block), nil
}

// gifColours is how many bytes the colour table has that flags announce.
func gifColours(flags byte) int64 {
	if flags&0x80 == 0 {
		return 0
	}
	return 3 << (flags&7 + 1)
}

func (f *gifFile) block(c *Cleaned) (step, error) {
	if err := c.element(); err != nil {
		return nil, err
	}
	b, err := c.takeByte()
	if err != nil {
		return nil, err
	}
	switch b {
	case gifImage:
		return f.image(c)
	case gifExtension:
		return f.extension(c)
	case gifTrailer: // whatever follows is not read
		if !f.pictured {
			return nil, broken("it has no picture")
		}
		c.out.WriteByte(gifTrailer)
		return nil, nil
	default:
		return nil, broken("a block of sort %02x", b)
	}
}

func (f *gifFile) image(c *Cleaned) (step, error) {
	b, err := c.take(9)
	if err != nil {
		return nil, err
	}
	le := binary.LittleEndian
	left, top, width, height := uint32(le.Uint16(b)), uint32(le.Uint16(b[2:])), uint32(le.Uint16(b[4:])), uint32(le.Uint16(b[6:]))
	if width == 0 || height == 0 || left+width > c.width || top+height > c.height {
		return nil, broken("a frame outside of its picture")
	}
	f.pictured = true
	c.out.WriteByte(gifImage)
	c.out.Write(b)
	return pass(gifColours(b[8])+1, keep, f.blocks(keep)), nil // and how wide its codes are
}

// blocks treats data in blocks of up to 255 bytes, and the empty one at the end.
func (f *gifFile) blocks(how treat) step {
	return func(c *Cleaned) (step, error) {
		for c.out.Len() < piece {
			if err := c.element(); err != nil {
				return nil, err
			}
			n, err := c.takeByte()
			if err != nil {
				return nil, err
			}
			b, err := c.take(int(n))
			if err != nil {
				return nil, err
			}
			if how == keep {
				c.out.WriteByte(n)
				c.out.Write(b)
			}
			if n == 0 {
				return f.block, nil
			}
		}
		return f.blocks(how), nil
	}
}

// extension passes what times the frames and says how often they are repeated.
// Comments, texts, and whatever programs leave for each other do not pass.
func (f *gifFile) extension(c *Cleaned) (step, error) {
	head, err := c.take(2)
	if err != nil {
		return nil, err
	}
	label, n := head[0], int(head[1])
	data, err := c.take(n)
	if err != nil {
		return nil, err
	}
	switch {
	case n == 0:
		return f.block, nil
	case label == gifControl:
		if n != 4 {
			return nil, broken("a control block of %d bytes", n)
		}
		c.out.Write([]byte{gifExtension, gifControl, 4})
		c.out.Write(data)
		c.out.WriteByte(0)
	case label == gifApplication && string(data) == "NETSCAPE2.0":
		return f.loop(c)
	}
	return f.blocks(drop), nil
}

// loop passes the number of repetitions, which is three bytes.
func (f *gifFile) loop(c *Cleaned) (step, error) {
	n, err := c.takeByte()
	if err != nil || n == 0 {
		return f.block, err
	}
	data, err := c.take(int(n))
	if err != nil {
		return nil, err
	}
	if n == 3 && data[0] == 1 {
		c.out.Write([]byte{gifExtension, gifApplication, 11})
		c.out.WriteString("NETSCAPE2.0")
		c.out.Write([]byte{3, 1, data[1], data[2], 0})
	}
	return f.blocks(drop), nil
}
