package media

import "encoding/binary"

const (
	exifName = "Exif\x00\x00"

	upright     = 1 // the orientation of a picture that is stored as it is shown
	lastUpright = 4 // from 5 on width and height change places

	orientationTag = 0x0112
	shortType      = 3
)

// exifOrientation is the orientation in a TIFF block, upright where it says none.
func exifOrientation(tiff []byte) uint8 {
	if len(tiff) < 8 {
		return upright
	}
	var order binary.ByteOrder = binary.BigEndian
	if string(tiff[:2]) == "II" {
		order = binary.LittleEndian
	} else if string(tiff[:2]) != "MM" {
		return upright
	}
	at := uint64(order.Uint32(tiff[4:]))
	if order.Uint16(tiff[2:]) != 42 || at+2 > uint64(len(tiff)) {
		return upright
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < 12 {
			return upright
		}
		if order.Uint16(entries) == orientationTag && order.Uint16(entries[2:]) == shortType && order.Uint32(entries[4:]) == 1 {
			if v := order.Uint16(entries[8:]); v >= upright && v <= 8 {
				return uint8(v)
			}
			return upright
		}
		entries = entries[12:]
	}
	return upright
}

// exifOf is an EXIF segment that says the orientation and nothing else.
func exifOf(turned uint8) []byte {
	b := []byte(exifName + "MM\x00\x2a\x00\x00\x00\x08\x00\x01")
	b = binary.BigEndian.AppendUint16(b, orientationTag)
	b = binary.BigEndian.AppendUint16(b, shortType)
	b = binary.BigEndian.AppendUint32(b, 1)
	b = append(b, 0, turned, 0, 0)
	return append(b, 0, 0, 0, 0) // no other directory
}
