package cli

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

	"github.com/mayflyhq/mayfly/client"
)

// sending shows the progress of an upload: bars on a terminal, otherwise one line
// for each medium, nothing with --json.
type sending struct {
	out   io.Writer
	quiet bool
	media []client.Source
	all   *mpb.Progress // nil without a terminal
	bars  []*mpb.Bar

	mu      sync.Mutex
	printed int // media whose line was printed
}

func newSending(out io.Writer, media []client.Source, quiet bool) *sending {
	s := &sending{out: out, quiet: quiet, media: media}
	f, isFile := out.(*os.File)
	if quiet || !isFile || !cwriter.IsTerminal(int(f.Fd())) {
		return s
	}
	s.all = mpb.New(mpb.WithOutput(out), mpb.WithWidth(40), mpb.WithRefreshRate(100*time.Millisecond))
	for _, m := range media {
		s.bars = append(s.bars, s.all.AddBar(max(m.Size, 1),
			mpb.PrependDecorators(decor.Name(fmt.Sprintf("%.28s ", m.Name), decor.WC{W: 30, C: decor.DindentRight})),
			mpb.AppendDecorators(decor.CountersKibiByte("% .1f / % .1f", decor.WC{W: 22}), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 6}), " sent"))))
	}
	return s
}

// update is called by the client with the bytes sent.
func (s *sending) update(medium int, done, size int64) {
	if s.all != nil {
		s.bars[medium].SetCurrent(done)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.quiet && done == size && medium >= s.printed {
		s.printed = medium + 1
		fmt.Fprintf(s.out, "%s: %s bytes sent\n", s.media[medium].Name, humanize.Comma(size))
	}
}

// end removes the bars of media that were not sent.
func (s *sending) end(ok bool) {
	if s.all == nil {
		return
	}
	for _, bar := range s.bars {
		if !bar.Completed() {
			bar.Abort(!ok)
		}
	}
	s.all.Wait()
}
