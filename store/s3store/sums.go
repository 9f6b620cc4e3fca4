package s3store

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/mayflyhq/mayfly"
)

// A range cannot be compared with the hash of the whole. So the CRC-32C of each
// block is noted beside an object, and ranges are read by whole blocks: what is
// handed out has been checked (I14). 256 of them are what fits beside an object
// (S3 allows 2 KB), and enough for the longest video (ST3); a longer object has
// none, and of a range of it only the length is checked.
const (
	sumsHeader = "X-Amz-Meta-Mayfly-Sums"
	blockBytes = 256 * kibibyte
	maxBlocks  = 256
	sumBytes   = 4
)

// blockSums computes the sums of what is written to it.
type blockSums struct {
	sums []byte
	sum  uint32
	n    int // bytes of the block that has begun
}

func (b *blockSums) Write(p []byte) (int, error) {
	table := crc32.MakeTable(crc32.Castagnoli)
	for rest := p; len(rest) > 0; {
		piece := rest[:min(len(rest), blockBytes-b.n)]
		b.sum = crc32.Update(b.sum, table, piece)
		b.n += len(piece)
		rest = rest[len(piece):]
		if b.n == blockBytes {
			b.end()
		}
	}
	return len(p), nil
}

func (b *blockSums) end() {
	if len(b.sums) <= maxBlocks*sumBytes { // one too many says that there are too many
		b.sums = binary.BigEndian.AppendUint32(b.sums, b.sum)
	}
	b.sum, b.n = 0, 0
}

// text is what is noted beside the object; empty if it is too long.
func (b *blockSums) text() string {
	if b.n > 0 {
		b.end()
	}
	if len(b.sums) > maxBlocks*sumBytes {
		return ""
	}
	return base64.RawStdEncoding.EncodeToString(b.sums)
}

func sumsOf(content []byte) string {
	var b blockSums
	_, _ = b.Write(content)
	return b.text()
}

// parseSums reads the sums of an object of size bytes; none if it has none.
func parseSums(key mayfly.BlobKey, text string, size int64) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	sums, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil || int64(len(sums)) != (size+blockBytes-1)/blockBytes*sumBytes {
		return nil, mayfly.Errorf(mayfly.Corrupt, "what is noted as the sums of %s are not those of %d bytes", key, size)
	}
	return sums, nil
}

// blocks hands out a range, block by block as they turn out right.
type blocks struct {
	body  *download
	sums  []byte // of the blocks to come; nil if the object has none
	block []byte
	ready []byte
	skip  int64 // of the first block, before the range
	left  int64 // bytes of the range that have not been handed out
}

func (b *blocks) Read(p []byte) (int, error) {
	for len(b.ready) == 0 {
		if b.left == 0 {
			return 0, io.EOF
		}
		if err := b.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.ready)
	b.ready = b.ready[n:]
	return n, nil
}

func (b *blocks) next() error {
	if b.block == nil {
		b.block = make([]byte, min(blockBytes, b.body.left))
	}
	block := b.block[:min(blockBytes, b.body.left)]
	if _, err := io.ReadFull(b.body, block); err != nil {
		return err
	}
	if len(b.sums) > 0 {
		if crc32.Checksum(block, crc32.MakeTable(crc32.Castagnoli)) != binary.BigEndian.Uint32(b.sums) {
			return mayfly.Errorf(mayfly.Corrupt, "%s is not what was written", b.body.key)
		}
		b.sums = b.sums[sumBytes:]
	}
	block = block[b.skip:]
	b.skip = 0
	b.ready = block[:min(int64(len(block)), b.left)]
	b.left -= int64(len(b.ready))
	return nil
}

func (b *blocks) Close() error { return b.body.Close() }
