package media

import "image"

// turn makes a picture that is stored with EXIF's orientation stand upright.
func turn(picture *image.RGBA, orientation uint8) *image.RGBA {
	if orientation <= upright {
		return picture
	}
	width, height := picture.Bounds().Dx(), picture.Bounds().Dy()
	size := image.Rect(0, 0, width, height)
	if orientation > lastUpright {
		size = image.Rect(0, 0, height, width)
	}
	turned := image.NewRGBA(size)
	for y := range size.Dy() {
		for x := range size.Dx() {
			fromX, fromY := stored(x, y, width, height, orientation)
			copy(turned.Pix[turned.PixOffset(x, y):][:4], picture.Pix[picture.PixOffset(fromX, fromY):][:4])
		}
	}
	return turned
}

// stored is where the pixel that is shown at x, y is stored in a picture of
// width × height.
func stored(x, y, width, height int, orientation uint8) (int, int) {
	right, bottom := width-1, height-1
	switch orientation {
	case 2:
		return right - x, y
	case 3:
		return right - x, bottom - y
	case 4:
		return x, bottom - y
	case 5:
		return y, x
	case 6:
		return y, bottom - x
	case 7:
		return right - y, bottom - x
	default:
		return right - y, x
	}
}
