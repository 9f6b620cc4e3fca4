package s3store

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/mayflyhq/mayfly"
)

// A range cannot be compared with the hash of the whole object. The CRC-32C of each
// block is therefore stored in the object's metadata, and ranges are read in whole
// blocks, so that all returned bytes were checked (I14). 256 checksums fit into the
// metadata (S3 allows 2 KB), enough for the longest video (ST3). A longer object has
// none, and only the length of its ranges is checked.
const (
	sumsHeader = "X-Amz-Meta-Mayfly-Sums"
	blockBytes = 256 * kibibyte
	maxBlocks  = 256
	sumBytes   = 4
)

// blockSums computes the block checksums of what is written to it.
type blockSums struct {
	sums []byte
	sum  uint32
	n    int // bytes of the current block
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
	if len(b.sums) <= maxBlocks*sumBytes { // one more than fits marks that there are too many
		b.sums = binary.BigEndian.AppendUint32(b.sums, b.sum)
	}
	b.sum, b.n = 0, 0
}

// text returns the checksums for the metadata; empty if they are too many.
func (b *blockSums) text() string {
	if b.n > 0 {
		b.end()
	}
	if len(b.sums) > maxBlocks*sumBytes {
		return ""
	}
	return base64.RawStdEncoding.EncodeToString(b.sums)
}

// parseSums decodes the checksums of an object of size bytes; nil if it has none.
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

// blocks returns a range block by block, each after its checksum was checked.
type blocks struct {
	body  *download
	sums  []byte // checksums of the next blocks; nil if the object has none
	block []byte
	ready []byte
	skip  int64 // bytes of the first block before the range
	left  int64 // bytes of the range not yet returned
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
