package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"
)

// File is a file of an upload.
type File struct {
	Name string
	Size int64
}

// Upload shows how much of some files was sent: bars on a terminal, otherwise one
// line for each file, nothing when quiet.
type Upload struct {
	out   io.Writer
	quiet bool
	files []File
	all   *mpb.Progress // nil without a terminal
	bars  []*mpb.Bar

	mu      sync.Mutex
	printed int // files whose line was printed
}

// NewUpload returns an Upload that writes to out.
func NewUpload(out io.Writer, quiet bool, files []File) *Upload {
	u := &Upload{out: out, quiet: quiet, files: files}
	f, isFile := out.(*os.File)
	if quiet || !isFile || !cwriter.IsTerminal(int(f.Fd())) {
		return u
	}
	u.all = mpb.New(mpb.WithOutput(out), mpb.WithWidth(40), mpb.WithRefreshRate(100*time.Millisecond))
	for _, m := range files {
		u.bars = append(u.bars, u.all.AddBar(max(m.Size, 1),
			mpb.PrependDecorators(decor.Name(fmt.Sprintf("%.28s ", m.Name), decor.WC{W: 30, C: decor.DindentRight})),
			mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f", decor.WC{W: 22}), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 6}), " sent"))))
	}
	return u
}

// Update takes how many bytes of a file were sent.
func (u *Upload) Update(file int, done, size int64) {
	if u.all != nil {
		u.bars[file].SetCurrent(done)
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.quiet && done == size && file >= u.printed {
		u.printed = file + 1
		fmt.Fprintf(u.out, "%s: %s bytes sent\n", u.files[file].Name, humanize.Comma(size))
	}
}

// End removes the bars of files that were not sent.
func (u *Upload) End(ok bool) {
	if u.all == nil {
		return
	}
	for _, bar := range u.bars {
		if !bar.Completed() {
			bar.Abort(!ok)
		}
	}
	u.all.Wait()
}
