package media

import (
	"bytes"
	"encoding/binary"
	"slices"
)

const (
	iccName = "ICC_PROFILE\x00"
	maxICC  = 2 << 20 // the largest profiles of printers are about that large
)

// iccParts collects a colour profile that comes in parts.
type iccParts struct {
	parts [][]byte
	count byte
	bad   bool
	size  int
}

// add takes one part. When the profile is whole and well-formed, it returns the parts
// of the cleaned profile. A profile that is not is left out: the picture is shown without.
func (p *iccParts) add(data []byte) [][]byte {
	if !bytes.HasPrefix(data, []byte(iccName)) || len(data) < len(iccName)+2 {
		return nil
	}
	number, count := data[len(iccName)], data[len(iccName)+1]
	if p.count == 0 {
		p.count = count
	}
	p.size += len(data) - len(iccName) - 2
	if p.bad = p.bad || count == 0 || count != p.count || int(number) != len(p.parts)+1 || p.size > maxICC; p.bad {
		p.parts = nil
		return nil
	}
	p.parts = append(p.parts, data)
	if number != count {
		return nil
	}
	var whole []byte
	for _, part := range p.parts {
		whole = append(whole, part[len(iccName)+2:]...)
	}
	p.parts, p.bad = nil, true // there is one profile
	return splitProfile(cleanProfile(whole))
}

// splitProfile returns the parts that a JPEG carries a profile in.
func splitProfile(profile []byte) (parts [][]byte) {
	const longest = 65535 - 2 - len(iccName) - 2
	count := (len(profile) + longest - 1) / longest
	for n := range count {
		part := append([]byte(iccName), byte(n+1), byte(count))
		parts = append(parts, append(part, profile[n*longest:min(len(profile), (n+1)*longest)]...))
	}
	return parts
}

// iccTag is a tag of a profile with its data.
type iccTag struct {
	name string
	data []byte
}

// cleanProfile returns a new profile with the colours of b and without identity: no
// program, date, device, creator, description or copyright, no tag that rendering does
// not need. It returns nil if b is not a profile, or the new one would be much larger:
// tags may lie over each other.
func cleanProfile(b []byte) []byte {
	tags := colourTags(b)
	if len(tags) == 0 {
		return nil
	}
	v4 := b[8] >= 4
	tags = append([]iccTag{{"desc", iccText(v4, true)}, {"cprt", iccText(v4, false)}}, tags...)
	table := binary.BigEndian.AppendUint32(nil, uint32(len(tags)))
	var data []byte
	at := map[string]uint32{} // tags with the same data share them
	for _, tag := range tags {
		if _, written := at[string(tag.data)]; !written {
			if len(data)+len(tag.data) > len(b) {
				return nil
			}
			at[string(tag.data)] = uint32(iccHeader + 4 + len(tags)*iccEntry + len(data))
			data = append(append(data, tag.data...), make([]byte, -len(tag.data)&3)...)
		}
		table = append(table, tag.name...)
		table = binary.BigEndian.AppendUint32(table, at[string(tag.data)])
		table = binary.BigEndian.AppendUint32(table, uint32(len(tag.data)))
	}
	profile := append(append(iccHead(b), table...), data...)
	if len(profile) > min(maxICC, len(b)+iccGrowth) {
		return nil
	}
	binary.BigEndian.PutUint32(profile, uint32(len(profile)))
	return profile
}

// The layout of a profile: a header, the number of tags, their table, their data.
const (
	iccHeader = 128
	iccEntry  = 12
	iccGrowth = 128 // small profiles have a shorter description than the standard asks for
)

// iccHead returns the header of b with what rendering needs: version, class, colour
// spaces, rendering intent and illuminant.
func iccHead(b []byte) []byte {
	head := make([]byte, iccHeader)
	copy(head[8:10], b[8:10])
	copy(head[12:24], b[12:24])
	copy(head[36:40], "acsp")
	head[67] = b[67] & 3
	copy(head[68:80], b[68:80])
	return head
}

// colourTags returns the tags of b that rendering needs; none if b is not a profile of
// the size that it says, with the signature, and with tags that lie in it.
func colourTags(b []byte) (tags []iccTag) {
	be := binary.BigEndian
	if len(b) < iccHeader+4 || len(b) > maxICC || be.Uint32(b) != uint32(len(b)) || string(b[36:40]) != "acsp" {
		return nil
	}
	count := uint64(be.Uint32(b[iccHeader:]))
	if count > 100 || iccHeader+4+count*iccEntry > uint64(len(b)) {
		return nil
	}
	for n := range count {
		entry := b[iccHeader+4+n*iccEntry:]
		at, size := uint64(be.Uint32(entry[4:])), uint64(be.Uint32(entry[8:]))
		if at+size > uint64(len(b)) {
			return nil
		}
		name := string(entry[:4])
		if !iccRenders(name) || slices.ContainsFunc(tags, func(t iccTag) bool { return t.name == name }) {
			continue
		}
		if data := iccExact(b[at : at+size]); data != nil {
			tags = append(tags, iccTag{name, data})
		}
	}
	return tags
}

// iccRenders reports whether rendering needs the tag.
func iccRenders(name string) bool {
	switch name {
	case "rXYZ", "gXYZ", "bXYZ", "rTRC", "gTRC", "bTRC", "kTRC", "wtpt", "bkpt", "chad", "lumi", "cicp",
		"A2B0", "A2B1", "A2B2", "B2A0", "B2A1", "B2A2", "D2B0", "D2B1", "D2B2", "D2B3", "B2D0", "B2D1", "B2D2", "B2D3":
		return true
	default:
		return false
	}
}

// iccExact returns the data of a tag without what lies behind them, and clears what is
// reserved; nil if they are of no type that describes colours.
func iccExact(data []byte) []byte {
	if len(data) < 12 {
		return nil
	}
	count := uint64(binary.BigEndian.Uint32(data[8:]))
	var n uint64
	switch string(data[:4]) {
	case "XYZ ":
		n = 8 + 12
	case "sf32":
		n = 8 + 9*4
	case "cicp":
		n = 8 + 4
	case "curv":
		n = 12 + 2*count
	case "para":
		parameters := []uint64{1, 3, 4, 5, 7}
		kind := count >> 16
		if kind >= uint64(len(parameters)) {
			return nil
		}
		n = 12 + 4*parameters[kind]
	case "mft1", "mft2":
		n = iccTables(data)
	case "mAB ", "mBA ", "mpet":
		n = uint64(len(data))
	}
	if n == 0 || n > uint64(len(data)) {
		return nil
	}
	clear(data[4:8]) // reserved
	return data[:n]
}

// iccTables returns how long the data of type mft1 or mft2 are: a matrix, then tables
// for the input, the colours and the output; 0 if the data are too short to tell.
func iccTables(data []byte) uint64 {
	if len(data) < 52 {
		return 0
	}
	in, out, grid := uint64(data[8]), uint64(data[9]), uint64(data[10])
	colours := out
	for range min(in, 16) {
		if colours *= grid; colours > maxICC {
			return 0
		}
	}
	if data[3] == '1' {
		return 48 + 256*in + colours + 256*out
	}
	entries := func(at int) uint64 { return uint64(binary.BigEndian.Uint16(data[at:])) }
	return 52 + 2*(entries(48)*in+colours+entries(50)*out)
}

// iccText is a description or copyright that names nothing; a profile must have both.
func iccText(v4, description bool) []byte {
	switch {
	case v4:
		return []byte("mluc\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x0cenUS\x00\x00\x00\x02\x00\x00\x00\x1c\x00-")
	case description:
		return append([]byte("desc\x00\x00\x00\x00\x00\x00\x00\x02-\x00"), make([]byte, 4+4+2+1+67)...)
	default:
		return []byte("text\x00\x00\x00\x00-\x00")
	}
}
