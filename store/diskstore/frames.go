package diskstore

import (
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/mayflyhq/mayfly"
)

// A file is a sequence of frames. A frame has up to framePayload bytes and a checksum
// over them, the number of the file and the number of the frame. So ranges are checked
// like whole objects (I14), and a misplaced frame is detected.
const (
	frameSize    = 64 << 10
	framePayload = frameSize - crc32.Size
)

// framedSize returns the length of the file of an object of size bytes.
func framedSize(size int64) int64 {
	frames := (size + framePayload - 1) / framePayload
	return size + frames*crc32.Size
}

func frameSum(file fileNumber, frame int64, payload []byte) uint32 {
	var place [16]byte
	binary.BigEndian.PutUint64(place[:], uint64(file))
	binary.BigEndian.PutUint64(place[8:], uint64(frame))
	return crc32.Update(checksum(place[:]), crc32.MakeTable(crc32.Castagnoli), payload)
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// frameWriter cuts what it is given into frames.
type frameWriter struct {
	out   io.Writer
	file  fileNumber
	frame int64
	buf   []byte // the frame being filled, without its checksum
}

func newFrameWriter(out io.Writer, file fileNumber) *frameWriter {
	return &frameWriter{out: out, file: file, buf: make([]byte, 0, frameSize)}
}

// Write implements io.Writer.
func (w *frameWriter) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		n := min(len(p), framePayload-len(w.buf))
		w.buf = append(w.buf, p[:n]...)
		p = p[n:]
		written += n
		if len(w.buf) == framePayload {
			if err := w.flush(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// flush writes the frame that has been filled so far. Only the last frame may
// be short.
func (w *frameWriter) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	frame := binary.BigEndian.AppendUint32(w.buf, frameSum(w.file, w.frame, w.buf))
	w.frame++
	w.buf = w.buf[:0]
	_, err := w.out.Write(frame)
	return err
}

// frameReader reads a span of an object from its file.
type frameReader struct {
	in     vfs.File
	rec    record
	offset int64  // of the next byte to hand out
	end    int64  // of the span
	buf    []byte // room for a frame, made by the first Read
	ready  []byte // what of the frame is still to be handed out
}

// Read implements io.Reader.
func (r *frameReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(r.ready) == 0 {
		if r.offset >= r.end {
			return 0, io.EOF
		}
		if err := r.load(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.ready)
	r.ready = r.ready[n:]
	r.offset += int64(n)
	return n, nil
}

// load reads and checks the frame that the next byte is in.
func (r *frameReader) load() error {
	if r.buf == nil {
		r.buf = make([]byte, frameSize)
	}
	number := r.offset / framePayload
	start := number * framePayload
	payload := min(framePayload, r.rec.size-start)
	frame := r.buf[:payload+crc32.Size]
	if n, err := r.in.ReadAt(frame, number*frameSize); n < len(frame) {
		if err == io.EOF {
			return mayfly.Errorf(mayfly.Corrupt, "file %x ends in frame %d", r.rec.file, number)
		}
		return failed("read a file", err)
	}
	if binary.BigEndian.Uint32(frame[payload:]) != frameSum(r.rec.file, number, frame[:payload]) {
		return mayfly.Errorf(mayfly.Corrupt, "file %x, frame %d: the checksum does not match", r.rec.file, number)
	}
	r.ready = frame[r.offset-start : min(payload, r.end-start)]
	return nil
}

// Close implements io.Closer.
func (r *frameReader) Close() error { return r.in.Close() }
