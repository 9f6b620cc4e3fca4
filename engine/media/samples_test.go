package media_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"testing"
)

// secret is in everything that must not come out.
const secret = "52.5200N-13.4050E"

func pixels(width, height int) *image.NRGBA {
	picture := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			picture.Set(x, y, color.NRGBA{uint8(x * 7), uint8(y * 5), uint8(x ^ y), 255})
		}
	}
	return picture
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func encodeJPEG(w io.Writer, picture image.Image) error { return jpeg.Encode(w, picture, nil) }

func plainJPEG(t testing.TB, width, height int) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, jpeg.Encode(&b, pixels(width, height), nil))
	return b.Bytes()
}

func jpegSegment(marker byte, data string) []byte {
	b := []byte{0xff, marker}
	b = binary.BigEndian.AppendUint16(b, uint16(len(data)+2))
	return append(b, data...)
}

// jpegWith puts segments behind the start of a JPEG.
func jpegWith(plain []byte, segments ...[]byte) []byte {
	b := append([]byte{}, plain[:2]...)
	for _, s := range segments {
		b = append(b, s...)
	}
	return append(b, plain[2:]...)
}

// exif is a TIFF block of an orientation, the name of a camera, and a position.
func exif(order binary.AppendByteOrder, turned uint16) string {
	b := []byte("II")
	if order.String() == "BigEndian" {
		b = []byte("MM")
	}
	entry := func(tag, typ uint16, count uint32, value []byte) {
		b = order.AppendUint16(b, tag)
		b = order.AppendUint16(b, typ)
		b = order.AppendUint32(b, count)
		b = append(append(b, value...), make([]byte, 4-len(value))...)
	}
	b = order.AppendUint32(order.AppendUint16(b, 42), 8)
	b = order.AppendUint16(b, 3)
	const model, gps = 8 + 2 + 3*12 + 4, 8 + 2 + 3*12 + 4 + 20
	entry(0x0110, 2, uint32(len(secret)+1), order.AppendUint32(nil, model))
	entry(0x0112, 3, 1, order.AppendUint16(nil, turned))
	entry(0x8825, 4, 1, order.AppendUint32(nil, gps))
	b = order.AppendUint32(b, 0)
	b = append(append(b, secret...), make([]byte, 20-len(secret))...)
	b = order.AppendUint16(b, 1)
	entry(0x0001, 2, 2, []byte("N\x00"))
	b = order.AppendUint32(b, 0)
	return "Exif\x00\x00" + string(b)
}

// profile is a colour profile of a display, with the traces that programs leave in
// one: who made it when and for which device, and private tags.
func profile() string { return profileOf(0x02400000) }

func profileOf(version uint32) string {
	be := binary.BigEndian
	xyz := func(x, y, z uint32) string {
		return "XYZ \x00\x00\x00\x00" + string(be.AppendUint32(be.AppendUint32(be.AppendUint32(nil, x), y), z))
	}
	curve := "curv\x00\x00\x00\x00\x00\x00\x00\x01\x02\x33"
	tags := [][2]string{
		{"desc", "desc\x00\x00\x00\x00\x00\x00\x00\x12" + secret + string(make([]byte, 1+4+4+2+1+67))},
		{"cprt", "text\x00\x00\x00\x00" + secret + "\x00"},
		{"wtpt", xyz(0xf6d6, 0x10000, 0xd32d)},
		{"rXYZ", xyz(0x6fa2, 0x38f5, 0x0390)},
		{"gXYZ", xyz(0x6299, 0xb785, 0x18da)},
		{"bXYZ", xyz(0x24a0, 0x0f84, 0xb6cf) + secret},
		{"rTRC", curve},
		{"gTRC", curve},
		{"bTRC", curve},
		{"meta", "dict\x00\x00\x00\x00" + secret},
		{"prXY", "XYZ \x00\x00\x00\x00" + secret[:12]},
		{"mmod", "mmod\x00\x00\x00\x00" + secret},
		{"prVt", "prVt\x00\x00\x00\x00" + secret},
		{"dmnd", "text\x00\x00\x00\x00" + secret},
		{"kTRC", "text\x00\x00\x00\x00" + secret},
	}
	head := make([]byte, 128)
	be.PutUint32(head[8:], version)
	copy(head[4:], "appl")
	copy(head[12:], "mntrRGB XYZ ")
	copy(head[24:], secret[:12]) // date
	copy(head[36:], "acspAPPL")
	copy(head[48:], secret[:8]) // manufacturer, model
	be.PutUint32(head[68:], 0xf6d6)
	be.PutUint32(head[72:], 0x10000)
	be.PutUint32(head[76:], 0xd32d)
	copy(head[80:], secret) // creator, id
	table, data := be.AppendUint32(nil, uint32(len(tags))), ""
	at := map[string]int{}
	for _, tag := range tags {
		if _, there := at[tag[1]]; !there {
			at[tag[1]] = 128 + 4 + 12*len(tags) + len(data)
			data += tag[1] + string(make([]byte, (4-len(tag[1])%4)%4))
		}
		table = be.AppendUint32(be.AppendUint32(append(table, tag[0]...), uint32(at[tag[1]])), uint32(len(tag[1])))
	}
	whole := append(append(head, table...), data...)
	be.PutUint32(whole, uint32(len(whole)))
	return string(whole)
}

// dirtyJPEG has whatever a camera and a bad friend can put into one.
func dirtyJPEG(t testing.TB, turned uint16) []byte {
	t.Helper()
	b := jpegWith(plainJPEG(t, 40, 30),
		jpegSegment(0xe0, "JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x01\x01"+secret),
		jpegSegment(0xe1, exif(binary.LittleEndian, turned)),
		jpegSegment(0xe1, exif(binary.BigEndian, turned)),
		jpegSegment(0xe1, "http://ns.adobe.com/xap/1.0/\x00<x:xmpmeta>"+secret),
		jpegSegment(0xe2, "MPF\x00"+secret),
		jpegSegment(0xe2, "ICC_PROFILE\x00\x01\x01"+profile()),
		jpegSegment(0xee, "Adobe\x00\x64\x00\x00\x00\x00\x01"+secret),
		jpegSegment(0xed, "Photoshop 3.0\x008BIM"+secret),
		jpegSegment(0xfe, "<script>"+secret+"</script>"))
	return append(b, "PK\x03\x04"+secret...)
}

func plainPNG(t testing.TB, picture image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	must(t, png.Encode(&b, picture))
	return b.Bytes()
}

func pngChunk(name, data string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(append(b, name...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE([]byte(name+data)))
}

// pngWith puts chunks behind the header of a PNG.
func pngWith(plain []byte, chunks ...[]byte) []byte {
	const head = 8 + 25
	b := append([]byte{}, plain[:head]...)
	for _, c := range chunks {
		b = append(b, c...)
	}
	return append(b, plain[head:]...)
}

func dirtyPNG(t testing.TB) []byte {
	t.Helper()
	b := pngWith(plainPNG(t, pixels(30, 20)),
		pngChunk("tEXt", "Comment\x00"+secret), pngChunk("zTXt", "Comment\x00\x00"+secret), pngChunk("iTXt", "XML:com.adobe.xmp\x00"+secret),
		pngChunk("eXIf", exif(binary.BigEndian, 6)[6:]), pngChunk("tIME", "\x07\xea\x0b\x10\x02\x21\x04"),
		pngChunk("iCCP", secret+"\x00\x00"+zlibbed(t, profile()+secret)), pngChunk("iCCP", secret+"\x00\x00"+zlibbed(t, profile())+secret),
		pngChunk("acTL", "\x00\x00\x00\x01\x00\x00\x00\x00"), pngChunk("gAMA", "\x00\x00\xb1\x8f"), pngChunk("gAMA", secret[:4]), pngChunk("prVt", secret))
	return append(b, "<script>"+secret...)
}

func plainGIF(t testing.TB) []byte {
	t.Helper()
	palette := color.Palette{color.Black, color.White, color.NRGBA{255, 0, 0, 255}, color.Transparent}
	all := &gif.GIF{LoopCount: 3}
	for n := range 3 {
		frame := image.NewPaletted(image.Rect(0, 0, 20, 10), palette)
		for i := range frame.Pix {
			frame.Pix[i] = uint8((i + n) % 4)
		}
		all.Image, all.Delay = append(all.Image, frame), append(all.Delay, n)
	}
	var b bytes.Buffer
	must(t, gif.EncodeAll(&b, all))
	return b.Bytes()
}

func dirtyGIF(t testing.TB) []byte {
	t.Helper()
	plain := plainGIF(t)
	at := bytes.IndexByte(plain[13:], 0x21) + 13
	b := append([]byte{}, plain[:at]...)
	b = append(b, "\x21\xfe\x11"+secret+"\x00"...)
	b = append(b, "\x21\xff\x0bXMP DataXMP\x11"+secret+"\x00"...)
	b = append(b, "\x21\x01\x0c012345678901\x11"+secret+"\x00"...)
	b = append(b, plain[at:]...)
	return append(b, "Rar!"+secret...)
}

// losslessWebP is picture data of one colour: so few bytes for any number of
// pixels.
func losslessWebP(width, height int) string {
	var all uint64
	at := 0
	var b []byte
	bit := func(value uint64, n int) {
		for i := range n {
			all |= (value >> i & 1) << (at % 8)
			if at++; at%8 == 0 {
				b, all = append(b, byte(all)), 0
			}
		}
	}
	bit(0x2f, 8)
	bit(uint64(width-1), 14)
	bit(uint64(height-1), 14)
	bit(0, 1+3)
	bit(0, 3) // no transform, no cache, no groups
	for _, symbol := range []uint64{10, 200, 30, 255, 0} {
		bit(1, 1)
		bit(0, 1)
		bit(1, 1)
		bit(symbol, 8)
	}
	bit(0, 7)
	return string(b)
}

func riffChunk(name, data string) string {
	b := binary.LittleEndian.AppendUint32([]byte(name), uint32(len(data)))
	b = append(b, data...)
	if len(data)%2 == 1 {
		b = append(b, 0)
	}
	return string(b)
}

func webpOf(chunks ...string) []byte {
	all := "WEBP"
	for _, c := range chunks {
		all += c
	}
	return []byte(riffChunk("RIFF", all))
}

func vp8x(flags byte, width, height int) string {
	b := []byte{flags, 0, 0, 0}
	b = append(b, byte(width-1), byte((width-1)>>8), byte((width-1)>>16), byte(height-1), byte((height-1)>>8), byte((height-1)>>16))
	return riffChunk("VP8X", string(b))
}

func dirtyWebP() []byte {
	b := webpOf(vp8x(0x2c, 24, 16), riffChunk("ICCP", profile()), riffChunk("VP8L", losslessWebP(24, 16)),
		riffChunk("EXIF", exif(binary.LittleEndian, 1)), riffChunk("XMP ", secret), riffChunk("ABCD", secret))
	return append(b, secret...)
}

func animatedWebP() []byte {
	frame := "\x00\x00\x00\x00\x00\x00\x17\x00\x00\x0f\x00\x00\x64\x00\x00\x00" + riffChunk("VP8L", losslessWebP(24, 16)) + riffChunk("XMP ", secret)
	return append(webpOf(vp8x(0x02, 24, 16), riffChunk("ANIM", "\x00\x00\x00\x00\x00\x00"), riffChunk("ANMF", frame), riffChunk("ANMF", frame), riffChunk("EXIF", secret)), secret...)
}

func box(name string, parts ...string) string {
	all := ""
	for _, p := range parts {
		all += p
	}
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(all)+8))) + name + all
}

func largeBox(name, data string) string {
	return "\x00\x00\x00\x01" + name + string(binary.BigEndian.AppendUint64(nil, uint64(len(data)+16))) + data
}

func tkhd(id, width, height uint32, turned bool) string {
	b := []byte("\x00\x00\x00\x07" + secret[:8] + u32(id) + secret[:4] + u32(16) + secret[:8] + u32(0, 0))
	matrix := [9]uint32{0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000}
	if turned {
		matrix = [9]uint32{0, 0x10000, 0, 0xffff0000, 0, 0, 0, 0, 0x40000000}
	}
	for _, v := range append(matrix[:], width<<16, height<<16) {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return box("tkhd", string(b))
}

func element(id uint32, data string) string {
	var b []byte
	for shift := 24; shift >= 0; shift -= 8 {
		if part := byte(id >> shift); part != 0 || len(b) > 0 {
			b = append(b, part)
		}
	}
	if len(data) < 100 {
		b = append(b, 0x80|byte(len(data)))
	} else {
		b = binary.BigEndian.AppendUint64(b, 1<<56|uint64(len(data)))
	}
	return string(b) + data
}

const webmHead = "\x1a\x45\xdf\xa3\x8b\x42\x86\x81\x01\x42\x82\x84webm"

func webmTracks(kind string, width, height byte) string {
	return element(0x1654ae6b, element(0xae, element(0xd7, "\x01")+element(0x83, kind)+element(0x536e, secret)+element(0x86, "V_VP9")+
		element(0xb9, "\x01"+secret)+element(0x63a2, vorbis())+
		element(0xe0, element(0xb0, "\x00"+string([]byte{width}))+element(0xba, string([]byte{height}))+element(0x5abc, secret)+
			element(0x55b0, element(0x55b1, "\x01")+element(0x4dba, secret))+element(0x7670, element(0x7671, "\x01")+element(0x7672, secret)))))
}

// vorbis is the configuration of a decoder of Vorbis, in which comments stand.
func vorbis() string {
	text := func(s string) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s }
	head := "\x01vorbis" + string(make([]byte, 23))
	comments := "\x03vorbis" + text(secret) + "\x02\x00\x00\x00" + text("LOCATION="+secret) + text(secret) + "\x01"
	return string([]byte{2, byte(len(head)), byte(len(comments))}) + head + comments + "\x05vorbis" + "setup"
}

func webmParts() string {
	return element(0x1549a966, element(0x2ad7b1, "\x0f\x42\x40")+element(0x7ba9, secret)+element(0x4461, secret[:8])+element(0x4d80, secret)+element(0x5741, secret)) +
		element(0x114d9b74, element(0x4dbb, element(0x53ab, "\x15\x49\xa9\x66")+element(0x53ac, "\x01")+element(0x5abc, secret))) +
		element(0x1c53bb6b, element(0xbb, element(0xb3, "\x00")+element(0xb7, element(0xf7, "\x01")+element(0xf1, "\x01")+element(0x5abc, secret)))+element(0x5abc, secret)) +
		element(0x1254c367, element(0x7373, secret+string(make([]byte, 200)))) + webmTracks("\x01", 64, 48)
}

func cluster() string {
	return element(0x1f43b675, element(0xe7, "\x00")+element(0xa3, "\x81\x00\x00\x80samples")+element(0xa0, element(0xa1, "\x81\x00\x00\x00more")+element(0xaf, secret))+element(0xbf, "1234"))
}

func dirtyWebM() []byte {
	return []byte(webmHead + element(0x18538067, webmParts()+cluster()+element(0x1941a469, secret)+cluster()+element(0xec, secret)+element(0x4dbb, secret)) + secret)
}

// recordedWebM has a size that was unknown while it was written.
func recordedWebM() []byte {
	open := "\x1f\x43\xb6\x75\x01\xff\xff\xff\xff\xff\xff\xff" + element(0xe7, "\x00") + element(0xa3, "\x81\x00\x00\x80samples")
	return []byte(webmHead + "\x18\x53\x80\x67\x01\xff\xff\xff\xff\xff\xff\xff" + webmParts() + open + open + element(0x1254c367, secret) + open + "PK\x03\x04" + secret)
}

// sample is a medium with everything in it that must not come out, and where it
// ends.
type sample struct {
	name          string
	typ           string
	bytes         []byte
	behind        int // bytes that are not of it
	width, height uint32
}

func samples(t testing.TB) []sample {
	t.Helper()
	return []sample{
		{"jpeg", "image/jpeg", dirtyJPEG(t, 1), 4 + len(secret), 40, 30},
		{"jpeg on its side", "image/jpeg", dirtyJPEG(t, 6), 4 + len(secret), 30, 40},
		{"png", "image/png", dirtyPNG(t), 8 + len(secret), 30, 20},
		{"gif", "image/gif", dirtyGIF(t), 4 + len(secret), 20, 10},
		{"webp", "image/webp", dirtyWebP(), len(secret), 24, 16},
		{"webp that moves", "image/webp", animatedWebP(), len(secret), 24, 16},
		{"mp4", "video/mp4", dirtyMP4(), 8 + len(secret), 360, 640},
		{"mp4 in fragments", "video/mp4", fragmentedMP4(), 0, 64, 36},
		{"mov", "video/mp4", dirtyMOV(ftyp("qt  ")), 0, 360, 640},
		{"mov of old", "video/mp4", dirtyMOV(""), 0, 360, 640},
		{"webm", "video/webm", dirtyWebM(), len(secret), 64, 48},
		{"webm as it was recorded", "video/webm", recordedWebM(), 4 + len(secret), 64, 48},
	}
}
