package media_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// boxesOf returns what is in the boxes of a path, such as moov/trak/tkhd.
func boxesOf(t *testing.T, b []byte, path string) (found [][]byte) {
	t.Helper()
	name, rest, deeper := strings.Cut(path, "/")
	for len(b) >= 8 {
		size, head := uint64(binary.BigEndian.Uint32(b)), 8
		if size == 1 {
			size, head = binary.BigEndian.Uint64(b[8:]), 16
		}
		if size < 8 || size > uint64(len(b)) {
			t.Fatalf("box %q of %d bytes in %d", b[4:8], size, len(b))
		}
		switch skip := map[string]int{"stsd": 8, "avc1": 78, "mp4a": 28}[name]; {
		case string(b[4:8]) != name:
		case deeper:
			found = append(found, boxesOf(t, b[head+skip:size], rest)...)
		default:
			found = append(found, b[head:size])
		}
		b = b[size:]
	}
	return found
}

// samplesOf returns the samples of every track that is left, by the tables of the file.
func samplesOf(t *testing.T, b []byte) (all []string) {
	t.Helper()
	be := binary.BigEndian
	for _, table := range boxesOf(t, b, "moov/trak/mdia/minf/stbl") {
		offsets, sizes, runs := boxesOf(t, table, "stco")[0], boxesOf(t, table, "stsz")[0], boxesOf(t, table, "stsc")[0]
		samples, n := "", 0
		for c := range int(be.Uint32(offsets[4:])) {
			at := be.Uint32(offsets[8+4*c:])
			for range be.Uint32(runs[8+12*c+4:]) {
				size := be.Uint32(sizes[12+4*n:])
				samples, at, n = samples+string(b[at:at+size]), at+size, n+1
			}
		}
		all = append(all, samples)
	}
	return all
}

// C4: names of programs, boxes of makers, tracks that say where it was filmed, and bytes
// that belong to no picture or sound are not passed on; the picture and the sound are.
func TestAVideoIsPassedOnAsItsSamplesAndNothingElse(t *testing.T) {
	for name, file := range map[string][]byte{"MP4": dirtyMP4(), "QuickTime": dirtyMOV(ftyp("qt  ")), "old QuickTime": dirtyMOV("")} {
		out, c, err := clean(file, media.Limits{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.Type() != media.MP4 || bytes.Contains(out, []byte(secret[:4])) {
			t.Errorf("%s: %s, %q", name, c.Type(), out)
		}
		if got := samplesOf(t, out); len(got) != 2 || got[0] != frames || got[1] != noises {
			t.Errorf("%s: samples %q", name, got)
		}
		if head := boxesOf(t, out, "ftyp"); len(head) != 1 || string(head[0][:4]) != "isom" || bytes.Contains(head[0], []byte("qt  ")) || !bytes.HasPrefix(out[4:], []byte("ftyp")) {
			t.Errorf("%s: type %q", name, head)
		}
		for _, header := range boxesOf(t, out, "moov/trak/tkhd")[:1] {
			if want := []byte(tkhd(1, 640, 360, true))[8+40:]; !bytes.Equal(header[40:], want) {
				t.Errorf("%s: the picture was turned: %x", name, header[40:])
			}
		}
		for path, want := range map[string]int{
			"moov/trak/mdia/minf/stbl/stsd/mp4a/esds": 1, "moov/trak/mdia/minf/stbl/stsd/mp4a/wave": 0, "moov/trak/mdia/minf/stbl/stsd/avc1/avcC": 1, "moov/trak/mdia/minf/stbl/stsd/avc1/pasp": 1,
			"moov/trak/mdia/minf/stbl/stsd/avc1/colr": 0, "moov/trak/tref": 0, "moov/trak": 2, "moov/udta": 0, "moov/meta": 0, "moov/trak/mdia/minf/stbl/sgpd": 2, "moov/trak/mdia/minf/stbl/sbgp": 0,
		} {
			if got := boxesOf(t, out, path); len(got) != want {
				t.Errorf("%s: %d of %s: %q", name, len(got), path, got)
			}
		}
		if reference := boxesOf(t, out, "moov/trak/mdia/minf/dinf/dref")[0]; string(reference[12:20]) != "url \x00\x00\x00\x01" {
			t.Errorf("%s: reference %q", name, reference)
		}
	}
}

func TestAFragmentedVideoKeepsItsSamplesInTheirPlace(t *testing.T) {
	file := fragmentedMP4()
	out, c, err := clean(file, media.Limits{})
	must(t, err)
	if width, height := c.Dimensions(); width != 64 || height != 36 || len(out) != len(file) || bytes.Contains(out, []byte(secret[:4])) {
		t.Errorf("%d × %d, %d bytes of %d: %q", width, height, len(out), len(file), out)
	}
	for _, part := range []string{frames, "sidx", "moof"} {
		if bytes.Count(out, []byte(part)) != bytes.Count(file, []byte(part)) || bytes.LastIndex(out, []byte(part)) != bytes.LastIndex(file, []byte(part)) {
			t.Errorf("%q has moved", part)
		}
	}
	if got := boxesOf(t, out, "moof/traf"); len(got) != 2 {
		t.Errorf("%d parts of fragments", len(got))
	}
}

func TestAVideoThatCannotBeShownCleanIsRefused(t *testing.T) {
	video := func(parts ...string) []byte {
		return []byte(ftyp("mp42") + box("moov", mvhd(), strings.Join(parts, "")) + box("mdat", "x"))
	}
	head := tkhd(1, 64, 64, false)
	for name, tc := range map[string]struct {
		bytes []byte
		kind  mayfly.Kind
		says  string
	}{
		"pictures that have metadata": {video(track("vide", head, avc("jpeg"), "mhlr")), mayfly.Unsupported, "H.264"},
		"no description":              {video(track("vide", head, "", "mhlr")), mayfly.Invalid, "no picture"},
		"no handler":                  {video(box("trak", head, box("mdia", box("minf", box("stbl", box("stsd", u32(0, 1)+avc("avc1"))))))), mayfly.Invalid, "no picture"},
		"sound only":                  {video(trak("soun", head)), mayfly.Invalid, "no picture"},
		"one number twice":            {video(trak("vide", head), trak("soun", head)), mayfly.Invalid, "two tracks"},
		"two indexes":                 {append(video(trak("vide", head)), box("moov", mvhd())...), mayfly.Invalid, "two indexes"},
		"a table longer than its box": {video(strings.Replace(trak("vide", head), "stts\x00\x00\x00\x00\x00\x00\x00\x01", "stts\x00\x00\x00\x00\x00\xff\x00\x01", 1)), mayfly.Invalid, "stts"},
		"a large picture inside":      {video(strings.Replace(trak("vide", head), "\x02\x80\x01\x68\x00\x48", "\xff\xff\xff\xff\x00\x48", 1)), mayfly.TooLarge, "smaller"},
		"a long index":                {[]byte(ftyp("mp42") + "\x01\x00\x00\x00moov"), mayfly.TooLarge, "shorter"},
		"fragments among each other":  {append(video(trak("vide", head)), strings.Repeat(box("moof", box("traf", box("tfhd", u32(0x20000, 1)), box("trun", u32(0x201, 1, 1000, 1)))), 2)...), mayfly.Unsupported, "among each other"},
		"a track among the others":    {append(video(trak("vide", head)), box("moof", box("traf", box("tfhd", u32(0, 2))), box("traf", box("tfhd", u32(0, 1))))...), mayfly.Unsupported, "taken out"},
	} {
		_, _, err := clean(tc.bytes, media.Limits{})
		if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Readers that go by the second of two boxes would see what was not looked at.
func TestOfABoxThatOccursTwiceTheFirstStays(t *testing.T) {
	twice := strings.Replace(trak("vide", tkhd(1, 64, 64, false), chunk{0, []uint32{1}}), "zzzz"+secret, box("stsd", u32(0, 1)+avc("avc1"))[4:8]+secret, 1)
	out, _, err := clean([]byte(ftyp("mp42")+box("moov", mvhd(), twice)+box("mdat", "x")), media.Limits{})
	must(t, err)
	if got := boxesOf(t, out, "moov/trak/mdia/minf/stbl/stsd"); len(got) != 1 || bytes.Contains(out, []byte(secret[:4])) {
		t.Errorf("%d descriptions", len(got))
	}
}

func TestDecoderConfigurationsKeepWhatDecodingNeeds(t *testing.T) {
	set := func(kind byte, data string) string {
		return string([]byte{kind, 0, 1, 0, byte(len(data))}) + data
	}
	head := "\x01" + strings.Repeat("\x11", 21)
	hevc := head + "\x04" + set(0xa0, "video") + set(0xa1, "sequence") + set(39, secret) + set(0xa2, "picture") + secret
	flac := u32(0) + "\x00\x00\x00\x22" + strings.Repeat("f", 34) + "\x84\x00\x00\x11" + secret
	entry := func(codec, config, data string) string {
		whole := avc(codec)
		return box(codec, whole[8:86], box(config, data))
	}
	for name, tc := range map[string]struct{ file, path, want string }{
		"HEVC":     {track("vide", tkhd(1, 8, 8, false), entry("hvc1", "hvcC", hevc), "mhlr"), "hvcC", head + "\x03" + set(0xa0, "video") + set(0xa1, "sequence") + set(0xa2, "picture")},
		"FLAC":     {trak("vide", tkhd(1, 8, 8, false)) + track("soun", tkhd(2, 0, 0, false), box("fLaC", sound()[8:36], box("dfLa", flac)), "mhlr"), "dfLa", u32(0) + "\x80\x00\x00\x22" + strings.Repeat("f", 34)},
		"new AAC":  {trak("vide", tkhd(1, 8, 8, false)) + track("soun", tkhd(2, 0, 0, false), box("mp4a", "\x00\x00\x00\x00\x00\x00\x00\x01"+"\x00\x02\x00\x00"+secret[:4]+"\x00\x03\x00\x10\xff\xfe\x00\x00\x00\x01\x00\x00"+u32(72, 0x40e77000, 0, 2, 0x7f000000, 16, 0, 0, 1)+aac()), "mhlr"), "esds", "\x00\x00\x00\x00\x03\x17\x00\x00\x00\x04\x0f\x40\x15\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		"no frame": {trak("vide", tkhd(1, 8, 8, false)) + track("soun", tkhd(2, 0, 0, false), quickTimeSound(), "mhlr"), "esds", "\x00\x00\x00\x00\x03\x17\x00\x00\x00\x04"},
	} {
		out, _, err := clean([]byte(ftyp("qt  ")+box("moov", mvhd(), tc.file)+box("mdat", "x")), media.Limits{})
		if err != nil || bytes.Contains(out, []byte(secret[:4])) {
			t.Errorf("%s: %v: %q", name, err, out)
			continue
		}
		if at := bytes.Index(out, []byte(tc.path)); at < 0 || !bytes.HasPrefix(out[at+4:], []byte(tc.want)) {
			t.Errorf("%s: %q", name, out[max(0, at):])
		}
	}
}
