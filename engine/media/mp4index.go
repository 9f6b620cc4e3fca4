package media

import (
	"encoding/binary"
	"math"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// mp4Index cleans the index of a video in its place, box by box, and collects which bytes
// of the file are samples of pictures and sound. Tracks of another sort hold what cameras
// record beside the picture, such as where they were: they become free boxes, and no
// sample of theirs is named any more.
type mp4Index struct {
	c       *Cleaned
	shift   int64 // by how many bytes the media data are moved
	tracks  map[uint32]*mp4Track
	samples []mp4Span
	codec   string // of a picture that is not taken
	video   bool
}

// mp4Track is what fragments need to know of a track.
type mp4Track struct {
	kept       bool
	sampleSize uint64 // of a sample, where a fragment does not tell
}

// mp4Parts is the grammar: the boxes that may be in a box. Those whose parts are looked
// at are in upper case. Whatever is not here is not needed to show the video: udta, meta,
// uuid, references between tracks, and what makers of cameras add.
func mp4Parts(in string) string {
	switch in {
	case "moov":
		return "mvhd TRAK MVEX"
	case "trak":
		return "tkhd EDTS MDIA"
	case "edts":
		return "elst"
	case "mdia":
		return "mdhd hdlr MINF"
	case "minf":
		return "vmhd smhd DINF STBL"
	case "dinf":
		return "dref"
	case "stbl":
		return "stsd stts ctts cslg stss stsz stz2 stsc stco co64 sgpd sbgp sdtp stps stsh"
	case "mvex":
		return "mehd trex"
	case "moof":
		return "mfhd TRAF"
	case "traf":
		return "tfhd tfdt trun sgpd sbgp"
	default:
		return ""
	}
}

// boxes calls each for every box in b.
func (x *mp4Index) boxes(b []byte, each func(name string, box, body []byte) error) error {
	for len(b) >= 8 {
		if err := x.c.element(); err != nil {
			return err
		}
		size, head := uint64(binary.BigEndian.Uint32(b)), uint64(8)
		switch {
		case size == 0: // where a list ends in QuickTime
			size = uint64(len(b))
			binary.BigEndian.PutUint32(b, uint32(size))
			clear(b[4:8])
		case size == 1 && len(b) >= 16:
			size, head = binary.BigEndian.Uint64(b[8:]), 16
		}
		if size < head || size > uint64(len(b)) {
			return broken("box %q of %d bytes in one of %d", b[4:8], size, len(b))
		}
		if err := each(string(b[4:8]), b[:size], b[head:size]); err != nil {
			return err
		}
		b = b[size:]
	}
	clear(b)
	return nil
}

// freeBox makes a box say nothing.
func freeBox(box, body []byte) {
	copy(box[4:], "free")
	clear(body)
}

// prune frees every box in b that the grammar does not know, and collects the others in
// parts. Where a box occurs twice, readers could differ about which of them counts: only
// the first one stays.
func (x *mp4Index) prune(in string, b []byte, parts map[string][]byte) error {
	may := " " + mp4Parts(in) + " "
	return x.boxes(b, func(name string, box, body []byte) error {
		leaf, open := strings.Contains(may, " "+name+" "), strings.Contains(may, " "+strings.ToUpper(name)+" ")
		grouped := (name == "sgpd" || name == "sbgp") && mp4Groups(name, body) == 0
		if _, twice := parts[name]; twice || !leaf && !open || name != strings.ToLower(name) || grouped {
			freeBox(box, body)
			return nil
		}
		parts[name] = body
		if open {
			return x.prune(name, body, parts)
		}
		return nil
	})
}

// clean cleans the index of the whole video.
func (x *mp4Index) clean(b []byte) error {
	headed := false
	err := x.boxes(b, func(name string, box, body []byte) error {
		switch {
		case name == "mvhd" && !headed:
			headed = true
			return mp4MovieHeader(body)
		case name == "trak":
			return x.track(box, body)
		case name == "mvex":
			return x.defaults(body)
		default:
			freeBox(box, body)
			return nil
		}
	})
	switch {
	case err != nil:
		return err
	case !x.video && x.codec != "":
		return mayfly.Errorf(mayfly.Unsupported, "a video in the codec %q", x.codec).WithHint("save it in H.264, HEVC, VP9 or AV1")
	case !x.video:
		return broken("it has no picture")
	}
	return nil
}

// defaults reads what fragments have in common.
func (x *mp4Index) defaults(b []byte) error {
	return x.boxes(b, func(name string, box, body []byte) error {
		switch {
		case name == "mehd":
			return exact(name, body, 8+4*versioned(body))
		case name != "trex":
			freeBox(box, body)
			return nil
		}
		if err := exact(name, body, 24); err != nil {
			return err
		}
		if t := x.of(binary.BigEndian.Uint32(body[4:])); t.sampleSize == 0 {
			t.sampleSize = uint64(binary.BigEndian.Uint32(body[16:]))
		}
		return nil
	})
}

// of returns the track with that number; the defaults may come before it.
func (x *mp4Index) of(id uint32) *mp4Track {
	if x.tracks[id] == nil {
		x.tracks[id] = &mp4Track{}
	}
	return x.tracks[id]
}

// track cleans a track of pictures or sound, and frees any other.
func (x *mp4Index) track(box, body []byte) error {
	parts := map[string][]byte{}
	if err := x.prune("trak", body, parts); err != nil {
		return err
	}
	picture := string(mp4Kind(parts["hdlr"])) == "vide"
	if !picture && string(mp4Kind(parts["hdlr"])) != "soun" || parts["tkhd"] == nil || parts["mdhd"] == nil || parts["stsd"] == nil {
		freeBox(box, body)
		return nil
	}
	entry := mp4Entry{x: x, picture: picture}
	if err := entry.descriptions(parts["stsd"]); err != nil {
		return err
	}
	if !entry.known {
		if picture {
			x.codec = entry.codec
		}
		freeBox(box, body)
		return nil
	}
	id, err := x.trackHeader(parts["tkhd"], entry)
	if err != nil {
		return err
	}
	if x.of(id).kept {
		return broken("two tracks with the number %d", id)
	}
	x.of(id).kept = true
	x.video = x.video || picture
	hdlr := parts["hdlr"]
	clear(hdlr[4:8])
	clear(hdlr[12:]) // the names that programs gave
	if err := mp4OwnData(parts["dref"]); err != nil {
		return err
	}
	return x.tables(parts)
}

// mp4Kind is the sort of a track by its handler; nil if it has none.
func mp4Kind(hdlr []byte) []byte {
	if len(hdlr) < 24 {
		return nil
	}
	return hdlr[8:12]
}

// exact clears what lies behind the n bytes that a box has by its own account.
func exact(name string, body []byte, n int) error {
	if n < 0 || n > len(body) {
		return broken("a box %q of %d bytes", name, len(body))
	}
	clear(body[n:])
	return nil
}

// versioned is 1 if the box has the version with long numbers.
func versioned(body []byte) int {
	if len(body) > 0 && body[0] != 0 {
		return 1
	}
	return 0
}

// mp4MovieHeader clears the dates, and what QuickTime says of previews.
func mp4MovieHeader(b []byte) error {
	v := versioned(b)
	if err := exact("mvhd", b, 100+12*v); err != nil {
		return err
	}
	clear(b[4 : 12+8*v])
	clear(b[26+12*v:][:10])
	clear(b[72+12*v:][:24])
	return nil
}

// trackHeader clears the dates of a track, takes the dimensions of a picture, which a
// matrix may turn, and returns the track's number.
func (x *mp4Index) trackHeader(b []byte, entry mp4Entry) (uint32, error) {
	v, be := versioned(b), binary.BigEndian
	if err := exact("tkhd", b, 84+12*v); err != nil {
		return 0, err
	}
	clear(b[4 : 12+8*v])
	id := be.Uint32(b[12+8*v:])
	clear(b[16+8*v:][:4])
	clear(b[24+12*v:][:8])
	if !entry.picture {
		return id, nil
	}
	matrix := b[40+12*v:]
	width, height := be.Uint32(matrix[36:])>>16, be.Uint32(matrix[40:])>>16
	if width == 0 || height == 0 {
		width, height = entry.width, entry.height
	}
	if be.Uint32(matrix) == 0 && be.Uint32(matrix[16:]) == 0 { // a quarter turn
		width, height = height, width
	}
	if uint64(width)*uint64(height) <= uint64(x.c.width)*uint64(x.c.height) && width != 0 && height != 0 {
		return id, nil
	}
	return id, x.c.measure(width, height)
}

// mp4OwnData wants every reference to data to be one to the file itself: a player must
// not be sent elsewhere. What such a reference says beside that is cleared.
func mp4OwnData(data []byte) error {
	if len(data) < 8 {
		return broken("a reference of %d bytes", len(data))
	}
	for data = data[8:]; len(data) > 0; {
		if len(data) < 12 || string(data[4:8]) != "url " && string(data[4:8]) != "alis" || data[11]&1 == 0 {
			return mayfly.Errorf(mayfly.Unsupported, "a video whose data lie somewhere else").WithHint("save it as one file")
		}
		size := uint64(binary.BigEndian.Uint32(data))
		if size < 12 || size > uint64(len(data)) {
			return broken("a reference of %d bytes", size)
		}
		copy(data[4:], "url \x00\x00\x00\x01")
		clear(data[12:size])
		data = data[size:]
	}
	return nil
}

// tables cleans the tables of a track, whose lengths follow from what they count.
func (x *mp4Index) tables(parts map[string][]byte) error {
	for name, body := range parts {
		n, known := mp4TableLength(name, body)
		if name == "sdtp" {
			n, known = min(len(body), 4+mp4Sizes(parts).count), true
		}
		if !known {
			continue
		}
		if n > len(body) {
			return broken("a box %q of %d bytes", name, len(body))
		}
		clear(body[n:])
	}
	b := parts["mdhd"]
	v := versioned(b)
	clear(b[4 : 12+8*v])
	if language := b[20+12*v:][:2]; language[0] < 4 || string(language) == "\x7f\xff" { // numbers of QuickTime, not three letters
		copy(language, "\x55\xc4")
	}
	clear(b[22+12*v:][:2])
	return x.chunks(parts)
}

// mp4TableLength is how many bytes a box of fixed structure has, by its own account.
func mp4TableLength(name string, body []byte) (n int, known bool) {
	v, count := versioned(body), 0
	if len(body) >= 8 {
		count = int(binary.BigEndian.Uint32(body[4:]))
	}
	switch name {
	case "vmhd":
		return 12, true
	case "smhd", "mfhd":
		return 8, true
	case "mdhd":
		return 24 + 12*v, true
	case "tfdt":
		return 8 + 4*v, true
	case "cslg":
		return 4 + 20*(1+v), true
	case "elst":
		return 8 + (12+8*v)*count, true
	case "stss", "stps", "stco":
		return 8 + 4*count, true
	case "stts", "ctts", "stsh", "co64":
		return 8 + 8*count, true
	case "stsc":
		return 8 + 12*count, true
	case "stsz", "stz2":
		sizes := mp4Sizes(map[string][]byte{name: body})
		return 12 + (sizes.count*sizes.bits+7)/8, true
	case "sgpd", "sbgp":
		return mp4Groups(name, body), true
	default:
		return 0, false
	}
}

// mp4Groups is how long a description or an assignment of groups of samples is, where
// they say at which samples decoding may begin; 0 for groups of another sort.
func mp4Groups(name string, body []byte) int {
	if len(body) < 16 {
		return 0
	}
	switch string(body[4:8]) {
	case "roll", "prol", "rap ", "sync":
	default:
		return 0
	}
	be, v := binary.BigEndian, int(body[0])
	switch {
	case name == "sbgp" && v == 0:
		return 12 + 8*int(be.Uint32(body[8:]))
	case name == "sgpd" && v == 1 && be.Uint32(body[8:]) <= 2:
		return 16 + int(be.Uint32(body[8:]))*int(be.Uint32(body[12:]))
	default:
		return 0
	}
}

// mp4SampleSizes are the sizes of the samples of a track: one for all, or a table.
type mp4SampleSizes struct {
	count int
	all   uint64 // if bits is 0
	bits  int    // of an entry of the table
	table []byte
}

func mp4Sizes(parts map[string][]byte) (s mp4SampleSizes) {
	if b := parts["stsz"]; len(b) >= 12 {
		s = mp4SampleSizes{all: uint64(binary.BigEndian.Uint32(b[4:])), count: int(binary.BigEndian.Uint32(b[8:])), table: b[12:]}
		if s.all == 0 {
			s.bits = 32
		}
	} else if b := parts["stz2"]; len(b) >= 12 {
		s = mp4SampleSizes{bits: int(b[7]), count: int(binary.BigEndian.Uint32(b[8:])), table: b[12:]}
	}
	return s
}

// of is the size of sample n.
func (s mp4SampleSizes) of(n int) uint64 {
	switch {
	case n >= s.count || (n+1)*s.bits > 8*len(s.table):
		return 0
	case s.bits == 0:
		return s.all
	case s.bits == 4:
		return uint64(s.table[n/2]>>(4*(1-n%2))) & 15
	case s.bits == 8:
		return uint64(s.table[n])
	case s.bits == 16:
		return uint64(binary.BigEndian.Uint16(s.table[2*n:]))
	case s.bits == 32:
		return uint64(binary.BigEndian.Uint32(s.table[4*n:]))
	default:
		return 0
	}
}

// chunks collects the bytes of the samples of a track, and moves them where the file is
// moved as a whole.
func (x *mp4Index) chunks(parts map[string][]byte) error {
	offsets, wide := parts["stco"], 4
	if parts["co64"] != nil {
		if offsets != nil {
			return broken("a track with two tables of chunks")
		}
		offsets, wide = parts["co64"], 8
	}
	if parts["stsz"] != nil && parts["stz2"] != nil {
		return broken("a track with two tables of sizes")
	}
	if offsets == nil || parts["stsc"] == nil {
		return nil // all of its samples are in fragments
	}
	be := binary.BigEndian
	sizes, sample := mp4Sizes(parts), 0
	runs, each := parts["stsc"], 0
	runs = runs[8 : 8+12*be.Uint32(runs[4:])]
	for n := range int(be.Uint32(offsets[4:])) {
		if err := x.c.element(); err != nil {
			return err
		}
		for len(runs) > 0 && int(be.Uint32(runs)) <= n+1 {
			each, runs = int(be.Uint32(runs[4:])), runs[12:]
		}
		var size uint64
		if sizes.bits == 0 {
			size = uint64(each) * sizes.all
		}
		for end := min(sample+each, sizes.count); sizes.bits != 0 && sample < end; sample++ {
			size += sizes.of(sample)
		}
		at := offsets[8+wide*n:]
		if err := x.chunk(at[:wide], size); err != nil {
			return err
		}
	}
	return nil
}

func (x *mp4Index) chunk(at []byte, size uint64) error {
	be := binary.BigEndian
	if len(at) == 4 {
		from := int64(be.Uint32(at))
		if from+x.shift > math.MaxUint32 {
			return broken("a chunk beyond the file")
		}
		be.PutUint32(at, uint32(from+x.shift))
		x.name(from, size)
		return nil
	}
	from := be.Uint64(at)
	if from > 1<<62 {
		return broken("a chunk beyond the file")
	}
	be.PutUint64(at, from+uint64(x.shift))
	x.name(int64(from), size)
	return nil
}

// name notes that size bytes at from are samples.
func (x *mp4Index) name(from int64, size uint64) {
	from = max(0, from)
	if size > 0 && from < 1<<62 {
		x.samples = append(x.samples, mp4Span{from, from + int64(min(size, 1<<61))})
	}
}

// fragment cleans the index of a fragment that begins at place in the file.
func (x *mp4Index) fragment(b []byte, place int64) error {
	headed, dropped := false, false
	next := place // where the data of a track begin, unless it says so
	return x.boxes(b, func(name string, box, body []byte) error {
		switch {
		case name == "mfhd" && !headed:
			headed = true
			return exact(name, body, 8)
		case name != "traf":
			freeBox(box, body)
			return nil
		}
		f := mp4Fragment{x: x, moof: place, base: next}
		if err := x.boxes(body, f.part); err != nil {
			return err
		}
		if f.track == nil || !f.track.kept {
			freeBox(box, body)
			dropped = true
			return nil
		}
		if f.relative && dropped {
			return mayfly.Errorf(mayfly.Unsupported, "a video with tracks that cannot be taken out").WithHint("save it with picture and sound only")
		}
		next = f.at
		x.samples = append(x.samples, f.samples...)
		return nil
	})
}

// mp4Fragment is the part of a fragment that belongs to one track.
type mp4Fragment struct {
	x          *mp4Index
	track      *mp4Track
	moof, base int64
	relative   bool // its data begin where those of the track before end
	at         int64
	sampleSize uint64
	samples    []mp4Span
	timed      bool
}

// part cleans one box of the part.
func (f *mp4Fragment) part(name string, box, body []byte) error {
	switch {
	case name == "tfhd" && f.track == nil:
		return f.header(body)
	case name == "tfdt" && !f.timed:
		f.timed = true
		n, _ := mp4TableLength(name, body)
		return exact(name, body, n)
	case name == "trun" && f.track != nil:
		return f.run(body)
	default:
		freeBox(box, body)
		return nil
	}
}

// header reads which track the part is of and where its data begin.
func (f *mp4Fragment) header(b []byte) error {
	if len(b) < 8 {
		return broken("a fragment header of %d bytes", len(b))
	}
	be := binary.BigEndian
	flags, n := be.Uint32(b), 8
	f.track = f.x.of(be.Uint32(b[4:]))
	f.sampleSize = f.track.sampleSize
	for _, field := range []struct {
		flag uint32
		wide int
	}{{0x1, 8}, {0x2, 4}, {0x8, 4}, {0x10, 4}, {0x20, 4}} {
		if flags&field.flag == 0 {
			continue
		}
		if len(b) < n+field.wide {
			return broken("a fragment header of %d bytes", len(b))
		}
		switch field.flag {
		case 0x1:
			from := be.Uint64(b[n:])
			if from > 1<<61 {
				return broken("a fragment beyond the file")
			}
			be.PutUint64(b[n:], from+uint64(f.x.shift))
			f.base = int64(from)
		case 0x10:
			f.sampleSize = uint64(be.Uint32(b[n:]))
		}
		n += field.wide
	}
	switch {
	case flags&0x1 != 0:
	case flags&0x20000 != 0:
		f.base = f.moof
	default:
		f.relative = true
	}
	f.at = f.base
	return exact("tfhd", b, n)
}

// run collects the samples of a run.
func (f *mp4Fragment) run(b []byte) error {
	be := binary.BigEndian
	if len(b) < 8 {
		return broken("a run of %d bytes", len(b))
	}
	flags, count, n := be.Uint32(b), uint64(be.Uint32(b[4:])), 8
	if flags&0x1 != 0 && len(b) >= 12 {
		f.at = f.base + int64(int32(be.Uint32(b[8:])))
	}
	for _, flag := range []uint32{0x1, 0x4} {
		if flags&flag != 0 {
			n += 4
		}
	}
	wide, sizeAt := 0, 0
	for _, flag := range []uint32{0x100, 0x200, 0x400, 0x800} {
		if flag == 0x200 {
			sizeAt = wide
		}
		if flags&flag != 0 {
			wide += 4
		}
	}
	if n > len(b) || count*uint64(wide) > uint64(len(b)-n) {
		return broken("a run of %d samples in %d bytes", count, len(b))
	}
	size := min(count*f.sampleSize, 1<<61)
	if flags&0x200 != 0 {
		size = 0
		for s := range int(count) {
			size += uint64(be.Uint32(b[n+s*wide+sizeAt:]))
		}
	}
	if err := f.x.c.element(); err != nil {
		return err
	}
	if from := max(0, f.at); size > 0 {
		f.samples = append(f.samples, mp4Span{from, from + int64(size)})
		f.at = from + int64(size)
	}
	return exact("trun", b, n+int(count)*wide)
}
