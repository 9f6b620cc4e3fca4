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

// sending shows how much of each medium has been sent: bars on a terminal, a line
// for each medium elsewhere, nothing beside JSON.
type sending struct {
	out   io.Writer
	quiet bool
	media []client.Source
	all   *mpb.Progress // nil without a terminal
	bars  []*mpb.Bar

	mu   sync.Mutex
	told int // media whose line was printed
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

// tell is what the client calls.
func (s *sending) tell(medium int, done, size int64) {
	if s.all != nil {
		s.bars[medium].SetCurrent(done)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.quiet && done == size && medium >= s.told {
		s.told = medium + 1
		fmt.Fprintf(s.out, "%s: %s bytes sent\n", s.media[medium].Name, humanize.Comma(size))
	}
}

// end takes the bars of what did not arrive away.
func (s *sending) end(arrived bool) {
	if s.all == nil {
		return
	}
	for _, bar := range s.bars {
		if !bar.Completed() {
			bar.Abort(!arrived)
		}
	}
	s.all.Wait()
}
