package media_test

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/media"
)

// blankJPEG is a progressive JPEG of components that are all sampled fully, which takes
// the most memory to decode.
func blankJPEG(width, height, components int) []byte {
	var b bytes.Buffer
	segment := func(marker byte, data ...byte) {
		b.Write([]byte{0xff, marker, byte((len(data) + 2) >> 8), byte(len(data) + 2)})
		b.Write(data)
	}
	b.Write([]byte{0xff, 0xd8})
	if components == 4 {
		segment(0xee, []byte("Adobe\x00\x64\x00\x00\x00\x00\x02")...)
	}
	segment(0xdb, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)
	frame, scan := []byte{8, byte(height >> 8), byte(height), byte(width >> 8), byte(width), byte(components)}, []byte{byte(components)}
	for n := range components {
		frame, scan = append(frame, byte(n+1), 0x11, 0), append(scan, byte(n+1), 0)
	}
	segment(0xc2, frame...)
	segment(0xc4, append([]byte{0, 1}, make([]byte, 16)...)...)
	segment(0xda, append(scan, 0, 0, 0)...)
	b.Write(make([]byte, (width*height/64*components+7)/8+components))
	b.Write([]byte{0xff, 0xd9})
	return b.Bytes()
}

// blankPNG is a PNG of 16 bits and four channels, woven or not.
func blankPNG(t testing.TB, width, height int, interlaced byte) []byte {
	t.Helper()
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(width)), uint32(height))
	head = append(head, 16, 6, 0, 0, interlaced)
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	passes := [][4]int{{1, 1, 0, 0}}
	if interlaced == 1 {
		passes = [][4]int{{8, 8, 0, 0}, {8, 8, 4, 0}, {4, 8, 0, 4}, {4, 4, 2, 0}, {2, 4, 0, 2}, {2, 2, 1, 0}, {1, 2, 0, 1}}
	}
	length := 0
	for _, p := range passes {
		length += ((height - p[3] + p[1] - 1) / p[1]) * (1 + 8*((width-p[2]+p[0]-1)/p[0]))
	}
	_, err := io.CopyN(w, zeroes{}, int64(length))
	must(t, errors.Join(err, w.Close()))
	return []byte("\x89PNG\r\n\x1a\n" + string(pngChunk("IHDR", string(head))) + string(pngChunk("IDAT", packed.String())) + string(pngChunk("IEND", "")))
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// The largest pictures of each sort: by default 16 million pixels get a rendition.
func largest(t testing.TB, name string) (file []byte, typ string) {
	t.Helper()
	switch name {
	case "JPEG in three colours":
		return blankJPEG(4000, 4000, 3), media.JPEG
	case "JPEG in four colours":
		return blankJPEG(4000, 4000, 4), media.JPEG
	case "JPEG in four colours at the bound":
		return blankJPEG(3200, 3200, 4), media.JPEG
	case "PNG that is woven at the bound":
		return blankPNG(t, 3920, 3920, 1), media.PNG
	case "PNG":
		return blankPNG(t, 4000, 4000, 0), media.PNG
	case "PNG that is woven":
		return blankPNG(t, 4000, 4000, 1), media.PNG
	case "WebP":
		return webpOf(riffChunk("VP8L", losslessWebP(3600, 3600))), media.WebP
	default:
		t.Fatal(name)
		return nil, ""
	}
}

// C4: one rendition takes 256 MiB at most, whatever the picture: what takes more is
// refused before it is decoded. Each is made by a process of its own, whose memory the
// system counts.
func TestARenditionTakesABoundedAmountOfMemory(t *testing.T) {
	const most = 256 << 20
	limits := media.Limits{Pixels: 16_000_000}
	if name := os.Getenv("MAYFLY_SHRINK"); name != "" {
		file, typ := largest(t, name)
		for _, longest := range []int{1080, 320} {
			if _, _, _, err := media.Shrink(io.Discard, bytes.NewReader(file), typ, longest, limits); err != nil {
				fmt.Println("refused:", err)
				if !errors.Is(err, mayfly.TooLarge) {
					t.Error(err)
				}
			}
		}
		return
	}
	if testing.Short() {
		t.Skip("decodes the largest pictures: 10 s")
	}
	for name, refused := range map[string]bool{"JPEG in three colours": false, "JPEG in four colours": true, "JPEG in four colours at the bound": false, "PNG": false, "PNG that is woven": true, "PNG that is woven at the bound": false, "WebP": false} {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.count=1")
		cmd.Env = append(os.Environ(), "MAYFLY_SHRINK="+name, "GOGC=100", "GOMEMLIMIT=off")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v: %s", name, err, out)
			continue
		}
		took := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss << 10
		if took > most {
			t.Errorf("%s: %d MiB", name, took>>20)
		}
		if strings.Contains(string(out), "refused:") != refused {
			t.Errorf("%s: %s", name, out)
		}
		t.Logf("%s: %d MiB, refused: %t", name, took>>20, refused)
	}
}
