package media

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
