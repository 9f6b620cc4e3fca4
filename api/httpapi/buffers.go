package httpapi

import (
	"bytes"
	"sync"
)

// buffers are where answers are put together.
type buffers struct{ pool sync.Pool }

func (b *buffers) take() *bytes.Buffer {
	if buf, ok := b.pool.Get().(*bytes.Buffer); ok {
		buf.Reset()
		return buf
	}
	return bytes.NewBuffer(make([]byte, 0, 4<<10))
}

// keepBuffer is the largest buffer that is worth keeping.
const keepBuffer = 64 << 10

func (b *buffers) give(buf *bytes.Buffer) {
	if buf.Cap() <= keepBuffer {
		b.pool.Put(buf)
	}
}

// chunks are what media pass through.
type chunks struct{ pool sync.Pool }

const chunk = 64 << 10

func (c *chunks) take() []byte {
	if buf, ok := c.pool.Get().(*[chunk]byte); ok {
		return buf[:]
	}
	return new([chunk]byte)[:]
}

func (c *chunks) give(buf []byte) { c.pool.Put((*[chunk]byte)(buf)) }
