package media

// ebmlID is the id of an element, with its length marker as it is written.
type ebmlID uint32

// The elements that mean something here.
const (
	ebmlHeader ebmlID = 0x1a45dfa3
	docType    ebmlID = 0x4282
	void       ebmlID = 0xec

	segment    ebmlID = 0x18538067
	info       ebmlID = 0x1549a966
	tracks     ebmlID = 0x1654ae6b
	trackEntry ebmlID = 0xae
	trackType  ebmlID = 0x83
	videoPart  ebmlID = 0xe0
	audioPart  ebmlID = 0xe1
	pixelWidth ebmlID = 0xb0
	pixelHigh  ebmlID = 0xba
	cluster    ebmlID = 0x1f43b675
	blockGroup ebmlID = 0xa0
)

// webmFate is what becomes of an element.
type webmFate uint8

const (
	webmVoid    webmFate = iota // leaves an element of the same size that says nothing
	webmPass                    // passes as it is
	webmBlank                   // passes with zeros: it has to be there, and need not say anything
	webmOpen                    // its parts are looked at
	webmRead                    // is read, and passes
	webmStrange                 // is of no sort that is known here
)

// webmFates is the grammar: what may be in which element. Places in the file are
// written down in it, so that what is taken out leaves as many bytes.
func webmFates(in, id ebmlID) webmFate {
	switch in {
	case 0:
		if id == ebmlHeader || id == segment {
			return webmOpen
		}
		return webmStrange
	case ebmlHeader:
		switch id {
		case docType:
			return webmRead
		case 0x4286, 0x42f7, 0x42f2, 0x42f3, 0x4287, 0x4285: // versions and lengths
			return webmPass
		}
	case segment:
		switch id {
		case info, tracks, cluster:
			return webmOpen
		case 0x114d9b74, 0x1c53bb6b: // seek head, cues
			return webmPass
		case void, 0xbf, 0x1043a770, 0x1254c367, 0x1941a469: // checksum, chapters, tags, attachments
			return webmVoid
		}
		return webmStrange
	case info:
		switch id {
		case 0x2ad7b1, 0x4489: // timestamp scale, duration
			return webmPass
		case 0x4d80, 0x5741: // the programs that wrote it
			return webmBlank
		}
	case tracks:
		if id == trackEntry {
			return webmOpen
		}
	case trackEntry:
		switch id {
		case videoPart, audioPart:
			return webmOpen
		case trackType:
			return webmRead
		case 0xd7, 0x73c5, 0xb9, 0x88, 0x55aa, 0x9c, 0x6de7, 0x6df8, 0x23e383, 0x234e7a, 0x23314f, 0x55ee, 0x22b59c, 0x22b59d, 0x86, 0x63a2, 0x56aa, 0x56bb:
			return webmPass
		}
	case videoPart:
		switch id {
		case pixelWidth, pixelHigh:
			return webmRead
		case 0x9a, 0x9d, 0x53b8, 0x53c0, 0x54aa, 0x54bb, 0x54cc, 0x54dd, 0x54b0, 0x54ba, 0x54b2, 0x54b3, 0x55b0, 0x7670:
			return webmPass
		}
	case audioPart:
		switch id {
		case 0xb5, 0x78b5, 0x9f, 0x6264:
			return webmPass
		}
	case cluster:
		switch id {
		case blockGroup:
			return webmOpen
		case 0xe7, 0xa3, 0xa7, 0xab: // timestamp, simple block, position, size of the one before
			return webmPass
		}
	case blockGroup:
		switch id {
		case 0xa1, 0x9b, 0xfb, 0x75a2, 0x75a1: // block, duration, reference, padding, additions
			return webmPass
		}
	}
	return webmVoid
}
