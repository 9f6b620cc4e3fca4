package e2e

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
)

// A place that must not come out, in each way that it can be in.
const (
	badPlace = "PLACE-52.5200N-013.4050E"                                                                         // as text
	badDegs  = "\x34\x00\x00\x00\x01\x00\x00\x00\x1f\x00\x00\x00\x01\x00\x00\x00\x6d\x04\x00\x00\x64\x00\x00\x00" // 52° 31′ 11.33″ as EXIF has it
)

func badPixels(width, height int) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = uint8(i*7) | uint8(i%4/3*255) // opaque
	}
	return img
}

func badJPEG(width, height int) string {
	var b bytes.Buffer
	if err := jpeg.Encode(&b, badPixels(width, height), nil); err != nil {
		panic(err) // into memory
	}
	return b.String()
}

// badJPEGStart is a JPEG up to where its picture begins.
func badJPEGStart(width, height int) string {
	whole := badJPEG(width, height)
	at := strings.Index(whole, "\xff\xda")
	return whole[:at+2+int(whole[at+2])<<8+int(whole[at+3])]
}

func badSegment(marker byte, data string) string {
	return "\xff" + string([]byte{marker}) + badU16(len(data)+2) + data
}

func badU16(n int) string { return string(binary.BigEndian.AppendUint16(nil, uint16(n))) }
func badU32(n int) string { return string(binary.BigEndian.AppendUint32(nil, uint32(n))) }
func badL32(n int) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(n))) }
func badL24(n int) string { return badL32(n)[:3] }

// badEXIF is a block of EXIF: a camera's name, and a position.
func badEXIF() string {
	l16 := func(n int) string { return badL32(n)[:2] }
	const first = 8
	const model = first + 2 + 2*12 + 4
	const gps = model + 32
	const degrees = gps + 2 + 2*12 + 4
	return "II*\x00" + badL32(first) +
		l16(2) + l16(0x0110) + l16(2) + badL32(len(badPlace)+1) + badL32(model) + l16(0x8825) + l16(4) + badL32(1) + badL32(gps) + badL32(0) +
		badPlace + strings.Repeat("\x00", 32-len(badPlace)) +
		l16(2) + l16(1) + l16(2) + badL32(2) + "N\x00\x00\x00" + l16(2) + l16(5) + badL32(3) + badL32(degrees) + badL32(0) + badDegs
}

func badXMP() string {
	return `<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description exif:GPSLatitude="` + badPlace + `"/></x:xmpmeta>`
}

func placedJPEG() string {
	plain := badJPEG(40, 30)
	return plain[:2] + badSegment(0xe1, "Exif\x00\x00"+badEXIF()) + badSegment(0xe1, "http://ns.adobe.com/xap/1.0/\x00"+badXMP()) +
		badSegment(0xe1, "http://ns.adobe.com/xmp/extension/\x00"+badXMP()) + badSegment(0xed, "Photoshop 3.0\x008BIM\x04\x04\x00\x00"+badPlace) +
		badSegment(0xe4, badPlace+badDegs) + badSegment(0xfe, badPlace) + plain[2:] + "PK\x03\x04" + badPlace + badDegs
}

func badChunk(name, data string) string {
	return badU32(len(data)) + name + data + badU32(int(crc32.ChecksumIEEE([]byte(name+data))))
}

const badPNGHead = "\x89PNG\r\n\x1a\n"

// badPNG says that it has so many pixels, and has few.
func badPNG(width, height int) string {
	return badPNGHead + badChunk("IHDR", badU32(width)+badU32(height)+"\x08\x06\x00\x00\x00") + badChunk("IDAT", "x\x9c\x03\x00\x00\x00\x00\x01") + badChunk("IEND", "")
}

func placedPNG() string {
	var b bytes.Buffer
	if err := png.Encode(&b, badPixels(30, 20)); err != nil {
		panic(err) // into memory
	}
	const head = 8 + 25
	plain := b.String()
	return plain[:head] + badChunk("eXIf", badEXIF()) + badChunk("iTXt", "XML:com.adobe.xmp\x00\x00\x00\x00\x00"+badXMP()) + badChunk("tEXt", "Comment\x00"+badPlace) +
		badChunk("zTXt", "Place\x00\x00"+badPlace) + badChunk("plAc", badPlace+badDegs) + plain[head:] + badPlace + badDegs
}

func placedGIF() string {
	var b bytes.Buffer
	frame := image.NewPaletted(image.Rect(0, 0, 20, 10), color.Palette{color.Black, color.White})
	if err := gif.EncodeAll(&b, &gif.GIF{Image: []*image.Paletted{frame, frame}, Delay: []int{1, 1}}); err != nil {
		panic(err) // into memory
	}
	plain := b.String()
	at := 13 + strings.IndexByte(plain[13:], 0x21)
	block := func(text string) string { return string([]byte{byte(len(text))}) + text + "\x00" }
	return plain[:at] + "\x21\xfe" + block(badPlace) + "\x21\xff\x0bXMP DataXMP" + block(badXMP()) + "\x21\xff\x0bPLACE000000" + block(badPlace+badDegs) + plain[at:] + "<script>" + badPlace + badDegs
}

func badRIFF(name, data string) string {
	return name + badL32(len(data)) + data + strings.Repeat("\x00", len(data)%2)
}

func badWebP(chunks ...string) string { return badRIFF("RIFF", "WEBP"+strings.Join(chunks, "")) }

func badVP8X(flags byte, width, height int) string {
	return badRIFF("VP8X", string([]byte{flags, 0, 0, 0})+badL24(width-1)+badL24(height-1))
}

// badVP8L is a lossless picture of one colour.
func badVP8L(width, height int) string {
	bits := []byte{}
	put := func(value uint32, n int) {
		for i := range n {
			bits = append(bits, byte(value>>i&1))
		}
	}
	put(uint32(width-1), 14)
	put(uint32(height-1), 14)
	put(0, 1+3+1+1+1) // no alpha, version 0, no transform, no cache, one group
	for _, symbol := range []uint32{10, 200, 30, 255, 0} {
		put(1, 1) // a simple code
		put(0, 1) // of one symbol
		put(1, 1) // of eight bits
		put(symbol, 8)
	}
	out := []byte{0x2f}
	for i, bit := range bits {
		if i%8 == 0 {
			out = append(out, 0)
		}
		out[len(out)-1] |= bit << (i % 8)
	}
	return badRIFF("VP8L", string(append(out, 0)))
}

func placedWebP() string {
	return badWebP(badVP8X(0x0c, 24, 16), badVP8L(24, 16), badRIFF("EXIF", badEXIF()), badRIFF("XMP ", badXMP()), badRIFF("PLAC", badPlace+badDegs)) + badPlace
}

func badBox(name string, parts ...string) string {
	all := strings.Join(parts, "")
	return badU32(len(all)+8) + name + all
}

// placedMP4 is a video as a phone writes it: where it was taken stands in it three
// times.
func placedMP4() string {
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	matrix := badU32(0x10000) + zeros(12) + badU32(0x10000) + zeros(12) + badU32(0x40000000)
	head := badBox("tkhd", "\x00\x00\x00\x07"+zeros(8)+badU32(1)+zeros(4)+badU32(16)+zeros(8)+zeros(8)+matrix+badU32(640<<16)+badU32(360<<16))
	track := badBox("trak", head, badBox("udta", badBox("name", badPlace)), badBox("meta", badPlace), badBox("mdia",
		badBox("mdhd", zeros(4)+zeros(8)+badU32(1000)+badU32(16)+"\x55\xc4\x00\x00"),
		badBox("hdlr", zeros(8)+"vide"+zeros(12)+badPlace+"\x00"),
		badBox("minf", badBox("vmhd", "\x00\x00\x00\x01"+zeros(8)), badBox("dinf", badBox("dref", zeros(4)+badU32(1)+badBox("url ", badU32(1)))),
			badBox("stbl", badBox("stsd", zeros(4)+badU32(1)+badBox("avc1", zeros(7)+"\x01"+zeros(16)+badU16(640)+badU16(360)+zeros(50), badBox("udta", badPlace))),
				badBox("stts", zeros(8)), badBox("stsc", zeros(8)), badBox("stsz", zeros(12)), badBox("stco", zeros(8))))))
	movie := badBox("mvhd", zeros(4)+zeros(8)+badU32(1000)+badU32(16)+badU32(0x10000)+"\x01\x00"+zeros(10)+matrix+zeros(24)+badU32(2))
	return badBox("ftyp", "isom\x00\x00\x02\x00isomiso2mp41") + badBox("uuid", "\xbe\x7a\xcf\xcb\x97\xa9\x42\xe8\x9c\x71\x99\x94\x91\xe3\xaf\xac"+badXMP()) +
		badBox("moov", movie, track, badBox("udta", badBox("\xa9xyz", badU16(len(badPlace))+"\x15\xc7"+badPlace), badBox("loci", badPlace+badDegs)), badBox("meta", badPlace)) +
		badBox("free", badPlace) + badBox("mdat", "the samples of it") + badPlace
}

// badSize is a length as EBML has it, in the 7 bytes behind its first.
func badSize(n int) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n)))[1:] }

// placedWebM is a video with tags.
func placedWebM() string {
	e := func(id, data string) string { return id + "\x01" + badSize(len(data)) + data }
	head := e("\x1a\x45\xdf\xa3", e("\x42\x86", "\x01")+e("\x42\x82", "webm"))
	info := e("\x15\x49\xa9\x66", e("\x2a\xd7\xb1", "\x0f\x42\x40")+e("\x7b\xa9", badPlace)+e("\x4d\x80", badPlace)+e("\x57\x41", badPlace))
	tags := e("\x12\x54\xc3\x67", e("\x73\x73", e("\x67\xc8", e("\x45\xa3", "LOCATION")+e("\x44\x87", badPlace+badDegs))))
	tracks := e("\x16\x54\xae\x6b", e("\xae", e("\xd7", "\x01")+e("\x83", "\x01")+e("\x53\x6e", badPlace)+e("\x86", "V_VP9")+e("\xe0", e("\xb0", "\x40")+e("\xba", "\x30"))))
	cluster := e("\x1f\x43\xb6\x75", e("\xe7", "\x00")+e("\xa3", "\x81\x00\x00\x80samples"))
	return head + e("\x18\x53\x80\x67", info+tags+tracks+cluster+e("\x19\x41\xa4\x69", badPlace)+e("\xec", badPlace)) + badPlace
}
