package media_test

import (
	"encoding/binary"
	"strings"
)

func u32(values ...uint32) string {
	var b []byte
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return string(b)
}

// chunk is where some samples of a track lie.
type chunk struct {
	at    int
	sizes []uint32
}

// tables says where the samples of a track lie.
func tables(chunks []chunk) string {
	var sizes, offsets, runs []uint32
	for n, c := range chunks {
		sizes, offsets = append(sizes, c.sizes...), append(offsets, uint32(c.at))
		runs = append(runs, uint32(n+1), uint32(len(c.sizes)), 1)
	}
	return box("stts", u32(0, 1, uint32(len(sizes)), 1000)+secret) + box("stsc", u32(0, uint32(len(chunks)))+u32(runs...)+secret) +
		box("stsz", u32(0, 0, uint32(len(sizes)))+u32(sizes...)+secret) + box("stco", u32(0, uint32(len(chunks)))+u32(offsets...)+secret)
}

// avc is the description of a picture in H.264, as cameras write it.
func avc(codec string) string {
	return box(codec, "\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"+secret[:4]+"\x00\x00\x02\x00\x00\x00\x02\x00"+"\x02\x80\x01\x68\x00\x48\x00\x00\x00\x48\x00\x00\x00\x00\x00\x00\x00\x01"+
		"\x11"+secret+strings.Repeat("\x00", 31-len(secret))+"\x00\x18\xff\xff"+
		box("avcC", "\x01\x42\xc0\x1e\xff\xe1\x00\x04\x67\x42\xc0\x1e\x01\x00\x04\x68\xce\x38\x80"+secret)+
		box("colr", "prof"+profile())+box("pasp", u32(1, 1))+box("udta", box("name", secret))+box("uuid", "0123456789abcdef"+secret)+box("pasp", secret))
}

// aac is the configuration of a decoder of AAC, with a link behind it.
func aac() string {
	return box("esds", "\x00\x00\x00\x00\x03\x80\x80\x80\x2a\x00\x00\x40\x11"+secret+"\x04\x0f\x40\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"+"\x05\x00"+"\x06\x01\x02"+secret)
}

// sound is the description of AAC in MP4; quickTimeSound the one that phones write.
func sound() string {
	return box("mp4a", "\x00\x00\x00\x00\x00\x00\x00\x01"+"\x00\x00\x00\x00"+secret[:4]+"\x00\x02\x00\x10\x00\x00\x00\x00\xac\x44\x00\x00"+aac()+box("udta", secret))
}

func quickTimeSound() string {
	return box("mp4a", "\x00\x00\x00\x00\x00\x00\x00\x01"+"\x00\x01\x00\x00"+secret[:4]+"\x00\x02\x00\x10\xff\xfe\x00\x00\xac\x44\x00\x00"+u32(1024, 0, 0, 2)+
		box("wave", box("frma", "mp4a"), box("mp4a", u32(0)), aac(), box("\x00\x00\x00\x00"))+box("chan", secret))
}

func handler(maker, kind string) string {
	return box("hdlr", u32(0)+maker+kind+secret[:12]+secret+"\x00")
}

// track is a track with everything in it that must not come out.
func track(kind, header, description, maker string, chunks ...chunk) string {
	own := "url "
	if maker != "\x00\x00\x00\x00" {
		own = "alis"
	}
	return box("trak", header, box("tref", box("cdsc", u32(9))), box("udta", box("name", secret)), box("meta", secret), box("edts", box("elst", u32(0, 1, 16, 0, 0x10000)+secret)),
		box("mdia", box("mdhd", "\x00\x00\x00\x00"+secret[:8]+"\x00\x00\x03\xe8\x00\x00\x00\x10\x00\x00\x00\x00"),
			handler(maker, kind),
			box("minf", box("vmhd", "\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"+secret), handler(maker, "alis"),
				box("dinf", box("dref", "\x00\x00\x00\x00\x00\x00\x00\x01"+box(own, "\x00\x00\x00\x01"+secret))),
				box("stbl", box("stsd", u32(0, 1)+description), tables(chunks), box("sgpd", "\x01\x00\x00\x00roll"+u32(2, 1)+"\xff\xff"+secret), box("sbgp", u32(0)+"prVt"+u32(1, 2, 3)+secret), box("zzzz", secret)))))
}

// trak is a track of MP4.
func trak(kind, header string, chunks ...chunk) string {
	description := sound()
	if kind == "vide" {
		description = avc("avc1")
	}
	return track(kind, header, description, "\x00\x00\x00\x00", chunks...)
}

func ftyp(brand string) string { return box("ftyp", brand+"\x00\x00\x02\x00isomiso2mp41") }

func mvhd() string {
	return box("mvhd", "\x00\x00\x00\x00"+secret[:8]+u32(1000, 16, 0x10000)+"\x01\x00"+secret[:10]+u32(0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)+secret+secret[:7]+u32(9))
}

// frames and noises are the samples of the videos here.
const frames, noises = "the samples", "and the sound"

// dirtyMP4 has its index first.
func dirtyMP4() []byte {
	build := func(at int) (file string, data int) {
		second := at + 5 + len(secret)
		file = ftyp("isom") + box("free", secret) + largeBox("uuid", "0123456789abcdef"+secret) +
			box("moov", mvhd(), trak("vide", tkhd(1, 640, 360, true), chunk{at, []uint32{2, 3}}, chunk{second, []uint32{6}}), trak("soun", tkhd(2, 0, 0, false), chunk{second + 6, []uint32{uint32(len(noises))}}),
				box("udta", box("\xa9xyz", "\x00\x11\x15\xc7"+secret), box("loci", secret)), box("meta", secret), box("uuid", "0123456789abcdef"+secret))
		return file + largeBox("mdat", frames[:5]+secret+frames[5:]+noises+secret) + box("meta", secret) + "PK\x03\x04\x14\x00\x00\x00" + secret, len(file) + 16
	}
	_, at := build(0)
	file, _ := build(at)
	return []byte(file)
}

// dirtyMOV is a video as phones write it: the index is last, and beside picture and sound
// there are tracks that say where it was filmed.
func dirtyMOV(head string) []byte {
	const place = "x" + secret
	at := len(head) + 16
	head += box("wide") + box("mdat", frames+place+noises+place)
	where := func(n int) chunk {
		return chunk{at + n, []uint32{uint32(len(place))}}
	}
	maker := "mhlr"
	metadata := box("meta", handler("\x00\x00\x00\x00", "mdta"), box("keys", u32(0, 1)+box("mdta", "com.apple.quicktime.location.ISO6709")), box("ilst", box("\x00\x00\x00\x01", box("data", u32(1, 0)+secret))))
	return []byte(head + box("moov", mvhd(),
		track("vide", tkhd(1, 640, 360, true), avc("avc1"), maker, chunk{at, []uint32{uint32(len(frames))}}),
		track("soun", tkhd(2, 0, 0, false), quickTimeSound(), maker, chunk{at + len(frames) + len(place), []uint32{uint32(len(noises))}}),
		track("meta", tkhd(3, 0, 0, false), box("mebx", u32(0, 1)+box("keys", box("\x00\x00\x00\x01", box("keyd", "mdta"+secret)))), maker, where(len(frames))),
		track("tmcd", tkhd(4, 0, 0, false), box("tmcd", u32(0, 1, 0, 0)+secret), maker, where(len(frames)+len(place)+len(noises))),
		track("soun", tkhd(5, 0, 0, false), box("apac", u32(0, 1, 0, 0, 0, 0, 0)+secret), maker),
		box("trak", tkhd(6, 0, 0, false), box("mdia", box("minf", box("stbl", box("stsd", u32(0, 1)+avc("avc1")), tables([]chunk{where(len(frames))}))))),
		metadata, box("udta", box("\xa9mod", secret), box("\xa9xyz", secret), u32(0))))
}

// fragmentedMP4 is a video as it is streamed.
func fragmentedMP4() []byte {
	index := box("moov", mvhd(), trak("vide", tkhd(1, 64, 36, false)), track("meta", tkhd(2, 0, 0, false), box("mett", u32(0, 1)+secret), "\x00\x00\x00\x00"),
		box("mvex", box("mehd", u32(0, 16)+secret), box("trex", u32(0, 1, 1, 1000, 0, 0)+secret), box("trex", u32(0, 2, 1, 1000, uint32(len(secret)), 0)), box("zzzz", secret)), box("udta", secret))
	fragment := func(sizes ...uint32) string {
		build := func(data uint32) string {
			return box("moof", box("mfhd", u32(0, 1)+secret), box("traf", box("tfhd", u32(0x20000, 1)+secret), box("tfdt", u32(0, 0)+secret), box("trun", u32(0x201, uint32(len(sizes)), data)+u32(sizes...)+secret), box("uuid", secret)),
				box("traf", box("tfhd", u32(0x20000, 2)), box("trun", u32(1, 1, data+uint32(len(frames))))))
		}
		return build(uint32(len(build(0)))+8) + box("mdat", frames+secret)
	}
	return []byte(ftyp("iso5") + index + box("sidx", u32(0, 1, 1000, 0, 0, 1, 100, 1000, 0)+secret) + fragment(5, 6) + box("emsg", secret) + fragment(uint32(len(frames))) + box("mfra", box("tfra", secret)))
}
