package media

import (
	"encoding/binary"

	"github.com/mayflyhq/mayfly"
)

// read cleans a box in its place: the hour at which somebody filmed, and the
// names that programs gave.
func (f *mp4File) read(c *Cleaned, name string, data []byte) error {
	switch name {
	case "mvhd", "mdhd":
		_, err := mp4Dateless(data)
		return err
	case "tkhd":
		return f.track(c, data)
	case "hdlr":
		return f.handler(data)
	case "dref":
		return mp4OwnData(data)
	}
	return nil
}

// mp4Dateless takes the two dates out that head a box, and answers what follows
// them.
func mp4Dateless(data []byte) ([]byte, error) {
	n := 4 + 8
	if len(data) > 0 && data[0] == 1 {
		n = 4 + 16
	}
	if len(data) < n {
		return nil, broken("a header of %d bytes", len(data))
	}
	clear(data[4:n])
	return data[n:], nil
}

// track takes the dimensions of a picture, which a matrix may turn.
func (f *mp4File) track(c *Cleaned, data []byte) error {
	rest, err := mp4Dateless(data)
	if err != nil {
		return err
	}
	duration := 4
	if data[0] == 1 {
		duration = 8
	}
	at := 8 + duration + 8 + 8 // id, duration, layer and volume
	if len(rest) < at+36+8 {
		return broken("a track header of %d bytes", len(data))
	}
	matrix, be := rest[at:], binary.BigEndian
	width, height := be.Uint32(matrix[36:])>>16, be.Uint32(matrix[40:])>>16
	if width == 0 || height == 0 {
		return nil // sound
	}
	if be.Uint32(matrix) == 0 && be.Uint32(matrix[16:]) == 0 { // a quarter turn
		width, height = height, width
	}
	if int64(width)*int64(height) <= int64(c.width)*int64(c.height) {
		return nil
	}
	return c.measure(width, height)
}

// handler lets pictures and sound in, without the names of their tracks. Tracks
// of another sort hold what cameras record beside the picture, such as where
// they were; their samples lie among the others and cannot be taken out.
func (f *mp4File) handler(data []byte) error {
	if len(data) < 24 {
		return broken("a handler of %d bytes", len(data))
	}
	kind := string(data[8:12])
	if kind != "vide" && kind != "soun" {
		return mayfly.Errorf(mayfly.Unsupported, "a video with a track of kind %q", kind).
			WithHint("save it with picture and sound only: other tracks may say where it was filmed")
	}
	f.video = f.video || kind == "vide"
	clear(data[12:])
	return nil
}

// mp4OwnData wants every reference to data to be one to the file itself: a player
// must not be sent elsewhere. What such a reference says beside that is blanked.
func mp4OwnData(data []byte) error {
	const own = "url \x00\x00\x00\x01"
	if len(data) < 8 {
		return broken("a reference of %d bytes", len(data))
	}
	for data = data[8:]; len(data) > 0; {
		if len(data) < 12 || string(data[4:12]) != own {
			return mayfly.Errorf(mayfly.Unsupported, "a video whose data lie somewhere else").WithHint("save it as one file")
		}
		size := uint64(binary.BigEndian.Uint32(data))
		if size < 12 || size > uint64(len(data)) {
			return broken("a reference of %d bytes", size)
		}
		clear(data[12:size])
		data = data[size:]
	}
	return nil
}
