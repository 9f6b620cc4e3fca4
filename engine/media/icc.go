package media

import (
	"bytes"
	"encoding/binary"
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

// add takes one part, and answers all of them when the profile is whole and
// well-formed. One that is not is left out: the picture is shown without.
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
	parts := p.parts
	p.parts, p.bad = nil, true // there is one profile
	if !isProfile(whole) {
		return nil
	}
	return parts
}

// isProfile says whether b is a colour profile: of the size that it says, with
// the signature, and with a table of tags that lie in it.
func isProfile(b []byte) bool {
	const header, entry = 128, 12
	if len(b) < header+4 || len(b) > maxICC || binary.BigEndian.Uint32(b) != uint32(len(b)) || string(b[36:40]) != "acsp" {
		return false
	}
	tags := uint64(binary.BigEndian.Uint32(b[header:]))
	if tags > 100 || header+4+tags*entry > uint64(len(b)) {
		return false
	}
	for t := range tags {
		at := b[header+4+t*entry:]
		if uint64(binary.BigEndian.Uint32(at[4:]))+uint64(binary.BigEndian.Uint32(at[8:])) > uint64(len(b)) {
			return false
		}
	}
	return true
}
