package media

import (
	"encoding/binary"
	"math"
	"strings"
)

// mp4Entry cleans the sample descriptions of a track: how its samples are coded. They
// become those of MP4 where QuickTime has others.
type mp4Entry struct {
	x             *mp4Index
	picture       bool
	width, height uint32
	known         bool   // all codecs are, and there is one
	codec         string // that is not known
}

// The codecs that are taken. JPEG and PNG as codecs of a video are not: each picture may
// have metadata of its own.
const (
	mp4Pictures = "avc1 avc3 hvc1 hev1 dvh1 dvhe dva1 dvav vp08 vp09 av01 mp4v s263 h263"
	mp4Sounds   = "mp4a ac-3 ec-3 Opus fLaC alac samr sawb .mp3"
)

// descriptions cleans the box stsd.
func (e *mp4Entry) descriptions(b []byte) error {
	if len(b) < 8 {
		return broken("sample descriptions of %d bytes", len(b))
	}
	return e.x.boxes(b[8:], func(name string, box, body []byte) error {
		codecs := mp4Sounds
		if e.picture {
			codecs = mp4Pictures
		}
		if !strings.Contains(" "+codecs+" ", " "+name+" ") {
			e.codec, e.known = name, false
			return nil
		}
		e.known = e.codec == ""
		if len(body) >= 8 {
			clear(body[:6])
		}
		if e.picture {
			return e.pictureEntry(body)
		}
		return e.soundEntry(body, b[0] != 0)
	})
}

// pictureEntry clears the maker and the name of the program that coded the picture.
func (e *mp4Entry) pictureEntry(b []byte) error {
	if len(b) < 78 {
		return broken("a description of %d bytes", len(b))
	}
	be := binary.BigEndian
	clear(b[8:24]) // version, maker, quality
	width, height := uint32(be.Uint16(b[24:])), uint32(be.Uint16(b[26:]))
	if width != 0 && height != 0 {
		if err := e.x.c.fits(width, height); err != nil {
			return err
		}
		e.width, e.height = width, height
	}
	clear(b[36:40])
	clear(b[42:74]) // name
	copy(b[76:], "\xff\xff")
	return e.parts(b[78:])
}

// soundEntry makes a description of QuickTime, which has more fields, one of MP4: the
// fields become a free box.
func (e *mp4Entry) soundEntry(b []byte, ofMP4 bool) error {
	if len(b) < 28 {
		return broken("a description of %d bytes", len(b))
	}
	be := binary.BigEndian
	version := be.Uint16(b[8:])
	more := map[uint16]int{1: 16, 2: 36}[version]
	if ofMP4 { // version 1 of MP4 has the same fields as version 0
		more = 0
	} else {
		clear(b[8:10])
	}
	clear(b[10:16]) // revision, maker
	clear(b[20:24])
	if len(b) < 28+more {
		return broken("a description of %d bytes", len(b))
	}
	if more == 0 {
		return e.parts(b[28:])
	}
	fields := b[28 : 28+more]
	if version == 2 {
		if rate := math.Float64frombits(be.Uint64(fields[4:])); rate >= 1 && rate < 1<<16 {
			be.PutUint32(b[24:], uint32(rate)<<16)
		}
		be.PutUint16(b[16:], uint16(min(be.Uint32(fields[12:]), 255)))
		be.PutUint16(b[18:], 16)
	}
	clear(fields)
	be.PutUint32(fields, uint32(more))
	copy(fields[4:], "free")
	return e.parts(b[28+more:])
}

// parts cleans the boxes of a description: those that decoding needs stay, each once.
func (e *mp4Entry) parts(b []byte) error {
	seen := map[string]bool{}
	return e.x.boxes(b, func(name string, box, body []byte) error {
		if name == "wave" && !e.picture && len(box)-len(body) == 8 {
			return e.wave(box, body, seen)
		}
		n := mp4Config(name, body)
		if n <= 0 || n > len(body) || seen[name] {
			freeBox(box, body)
			return nil
		}
		seen[name] = true
		clear(body[n:])
		return nil
	})
}

// wave takes the configuration of a sound decoder out of the box around it that
// QuickTime has: what is before and behind it become free boxes.
func (e *mp4Entry) wave(box, body []byte, seen map[string]bool) error {
	found, end := -1, -1
	err := e.x.boxes(body, func(name string, inner, innerBody []byte) error {
		n := mp4Config(name, innerBody)
		if found >= 0 || seen["esds"] || name != "esds" || n <= 0 || n > len(innerBody) {
			return nil
		}
		clear(innerBody[n:])
		end = cap(box) - cap(inner) + len(inner)
		found = end - len(inner)
		seen["esds"] = true
		return nil
	})
	if err != nil || found < 0 {
		freeBox(box, body)
		return err
	}
	if left := len(box) - end; left < 8 { // too little for a box
		binary.BigEndian.PutUint32(box[found:], uint32(len(box)-found))
		end = len(box)
	}
	for _, part := range [][]byte{box[:found], box[end:]} {
		if len(part) > 0 {
			binary.BigEndian.PutUint32(part, uint32(len(part)))
			freeBox(part, part[8:])
		}
	}
	return nil
}

// mp4Config is how many bytes of a box of a sample description are needed; 0 if it is not
// needed. It cleans the box where it has a structure of its own.
func mp4Config(name string, body []byte) int {
	const longest = 1 << 10 // of what is not looked into
	switch name {
	case "avcC":
		return avcConfig(body)
	case "hvcC":
		return hevcConfig(body)
	case "esds":
		return mpegConfig(body)
	case "dfLa":
		return flacConfig(body)
	case "colr":
		return colourConfig(body)
	case "pasp":
		return 8
	case "clap":
		return 32
	case "btrt", "damr":
		if name == "damr" && len(body) >= 4 {
			clear(body[:4]) // the maker of the coder
		}
		return min(len(body), 12)
	case "fiel":
		return 2
	case "mdcv", "dvcC", "dvvC":
		return 24
	case "clli":
		return 4
	case "vpcC", "av1C", "d263", "dac3", "dec3", "dOps", "alac", "SmDm", "CoLL":
		if len(body) <= longest {
			return len(body)
		}
	}
	return 0
}

func colourConfig(b []byte) int {
	if len(b) < 4 {
		return 0
	}
	switch string(b[:4]) {
	case "nclx":
		return 11
	case "nclc":
		return 10
	default: // a colour profile
		return 0
	}
}

// parameterSets returns how long count sets are, each behind its length; -1 if b is too
// short.
func parameterSets(b []byte, count int) (n int) {
	for range count {
		if len(b) < n+2 {
			return -1
		}
		if n += 2 + int(binary.BigEndian.Uint16(b[n:])); n > len(b) {
			return -1
		}
	}
	return n
}

// avcConfig is how long the configuration of H.264 is.
func avcConfig(b []byte) int {
	if len(b) < 7 {
		return 0
	}
	n := 6
	sets := parameterSets(b[n:], int(b[5]&31))
	if sets < 0 || len(b) < n+sets+1 {
		return 0
	}
	n += sets
	if sets = parameterSets(b[n+1:], int(b[n])); sets < 0 {
		return 0
	}
	n += 1 + sets
	switch b[1] {
	case 100, 110, 122, 144: // profiles that say more
		if len(b) >= n+4 {
			if sets = parameterSets(b[n+4:], int(b[n+3])); sets >= 0 {
				n += 4 + sets
			}
		}
	}
	return n
}

// hevcConfig keeps the parameter sets of HEVC. Programs add messages about themselves.
func hevcConfig(b []byte) int {
	if len(b) < 23 {
		return 0
	}
	arrays, n, at := int(b[22]), 23, 23
	b[22] = 0
	for range arrays {
		if len(b) < at+3 {
			return 0
		}
		sets := parameterSets(b[at+3:], int(binary.BigEndian.Uint16(b[at+1:])))
		if sets < 0 {
			return 0
		}
		if kind := b[at] & 63; kind >= 32 && kind <= 34 { // video, sequence, picture
			n += copy(b[n:], b[at:at+3+sets])
			b[22]++
		}
		at += 3 + sets
	}
	return n
}

// flacConfig keeps the first block of the metadata of FLAC, which describes the stream:
// others hold comments and pictures.
func flacConfig(b []byte) int {
	const block = 4 + 34
	if len(b) < 4+block || b[4]&0x7f != 0 || b[7] != 34 {
		return 0
	}
	b[4] = 0x80 // the last one
	return 4 + block
}

// mpegConfig writes the configuration of a decoder of MPEG anew: which one it is and what
// it needs, without links and descriptions.
func mpegConfig(b []byte) int {
	const esTag, decoderTag, specificTag, syncTag = 3, 4, 5, 6
	if len(b) < 4 || len(b) > 8<<10 {
		return 0
	}
	stream := descriptor(b[4:], esTag)
	if len(stream) < 3 {
		return 0
	}
	flags, skip := stream[2], 3
	if flags&0x80 != 0 {
		skip += 2
	}
	if flags&0x40 != 0 && len(stream) > skip {
		skip += 1 + int(stream[skip])
	}
	if flags&0x20 != 0 {
		skip += 2
	}
	if len(stream) < skip {
		return 0
	}
	decoder := descriptor(stream[skip:], decoderTag)
	if len(decoder) < 13 {
		return 0
	}
	inner := append([]byte{}, decoder[:13]...)
	if specific := descriptor(decoder[13:], specificTag); specific != nil {
		inner = appendDescriptor(inner, specificTag, specific)
	}
	again := appendDescriptor([]byte{0, 0, 0}, decoderTag, inner)
	again = appendDescriptor(again, syncTag, []byte{2})
	again = appendDescriptor([]byte{0, 0, 0, 0}, esTag, again)
	if len(again) > len(b) {
		return 0
	}
	return copy(b, again)
}

// descriptor returns what is in the descriptor that b begins with; nil if it is of
// another sort or cut off.
func descriptor(b []byte, tag byte) []byte {
	if len(b) < 2 || b[0] != tag {
		return nil
	}
	n, at := 0, 1
	for more := true; more; at++ {
		if at > 4 || at >= len(b) {
			return nil
		}
		n, more = n<<7|int(b[at]&0x7f), b[at]&0x80 != 0
	}
	if n > len(b)-at {
		return nil
	}
	return b[at : at+n]
}

// appendDescriptor appends a descriptor; data are of a box, so that two bytes hold their
// length.
func appendDescriptor(b []byte, tag byte, data []byte) []byte {
	b = append(b, tag)
	if len(data) > 0x7f {
		b = append(b, 0x80|byte(len(data)>>7))
	}
	return append(append(b, byte(len(data)&0x7f)), data...)
}
