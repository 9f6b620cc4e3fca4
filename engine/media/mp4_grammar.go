package media

import "strings"

// mp4Brand says whether a file of that major brand is taken as MP4. HEIC, AVIF,
// QuickTime and still others are built alike and are something else.
func mp4Brand(brand string) bool {
	switch brand {
	case "isom", "mp41", "mp42", "mp71", "avc1", "M4V ", "M4VP", "M4VH", "dash", "msnv", "MSNV", "cmfc", "cmf2", "3gp4", "3gp5", "3gp6":
		return true
	default:
		return len(brand) == 4 && brand[:3] == "iso" && brand[3] >= '1' && brand[3] <= '9'
	}
}

// mp4Fate is what becomes of a box.
type mp4Fate uint8

const (
	mp4Free    mp4Fate = iota // leaves a free box
	mp4Pass                   // passes as it is
	mp4Open                   // its parts are looked at
	mp4Read                   // is read whole, and cleaned
	mp4Strange                // is of no sort that is known here
)

// mp4Fates is the grammar: what may be in which box. Whatever is not here is not
// needed to show the video: udta, meta, uuid, and what makers of cameras add.
func mp4Fates(in, name string) mp4Fate {
	is := func(names string) bool { return strings.Contains(" "+names+" ", " "+name+" ") }
	switch in {
	case "":
		switch {
		case is("ftyp styp"):
			return mp4Read
		case is("mdat sidx ssix"):
			return mp4Pass
		case is("moov moof mfra"):
			return mp4Open
		case is("free skip wide uuid meta udta pdin emsg prft mere meco pnot junk"):
			return mp4Free
		}
		return mp4Strange
	case "moov":
		return choose(is("trak mvex"), mp4Open, choose(is("mvhd"), mp4Read, mp4Free))
	case "trak":
		return choose(is("edts mdia"), mp4Open, choose(is("tkhd"), mp4Read, choose(is("tref"), mp4Pass, mp4Free)))
	case "edts":
		return choose(is("elst"), mp4Pass, mp4Free)
	case "mdia":
		return choose(is("minf"), mp4Open, choose(is("mdhd hdlr"), mp4Read, mp4Free))
	case "minf":
		return choose(is("stbl dinf"), mp4Open, choose(is("vmhd smhd nmhd"), mp4Pass, mp4Free))
	case "dinf":
		return choose(is("dref"), mp4Read, mp4Free)
	case "stbl":
		return choose(is("stsd stts ctts cslg stss stsz stz2 stsc stco co64 sgpd sbgp sdtp stps stsh subs"), mp4Pass, mp4Free)
	case "mvex":
		return choose(is("mehd trex leva"), mp4Pass, mp4Free)
	case "moof":
		return choose(is("traf"), mp4Open, choose(is("mfhd"), mp4Pass, mp4Free))
	case "traf":
		return choose(is("tfhd tfdt trun sbgp sgpd sdtp subs"), mp4Pass, mp4Free)
	case "mfra":
		return choose(is("tfra mfro"), mp4Pass, mp4Free)
	}
	return mp4Free
}

func choose(is bool, then, otherwise mp4Fate) mp4Fate {
	if is {
		return then
	}
	return otherwise
}
