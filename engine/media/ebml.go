package media

import (
	"encoding/binary"
	"math/bits"
)

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
