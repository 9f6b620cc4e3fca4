package media

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"image"
	"io"

	"golang.org/x/image/webp"
)

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
