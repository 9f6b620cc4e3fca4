package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"
)

// stages shows how far long work is: bars on a terminal, a line for each
// stage elsewhere, nothing beside JSON but notes.
type stages struct {
	out   io.Writer
	quiet bool
	bars  bool
	name  string // of the work
}

func newStages(out io.Writer, quiet bool) *stages {
	f, isFile := out.(*os.File)
	return &stages{out: out, quiet: quiet, bars: isFile && cwriter.IsTerminal(int(f.Fd()))}
}

func (s *stages) trial(name string) { s.name = name }

// note says what a figure alone would hide.
func (s *stages) note(format string, args ...any) {
	fmt.Fprintf(s.out, "mayfly: "+format+"\n", args...)
}

// stage is one stage that is under way.
type stage struct {
	progress *mpb.Progress
	bar      *mpb.Bar
	close    func()
}

// begin begins a stage of so many steps.
func (s *stages) begin(what string, total int) *stage {
	title := s.name + ": " + what
	switch {
	case s.quiet:
		return &stage{}
	case !s.bars:
		start := time.Now()
		return &stage{close: func() {
			fmt.Fprintf(s.out, "%s: %s in %.1f s\n", title, grouped(int64(total)), time.Since(start).Seconds())
		}}
	}
	// A slow refresh: the bar must not be felt by what is measured.
	p := mpb.New(mpb.WithOutput(s.out), mpb.WithWidth(40), mpb.WithRefreshRate(500*time.Millisecond))
	bar := p.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(title, decor.WC{W: 44, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 8}), " done")))
	return &stage{progress: p, bar: bar}
}

// add says that n more steps are done.
func (s *stage) add(n int) {
	if s.bar != nil {
		s.bar.IncrBy(n)
	}
}

// end ends the stage, whether it came to its end or not.
func (s *stage) end() {
	if s.bar != nil {
		s.bar.Abort(false)
		s.progress.Wait()
	}
	if s.close != nil {
		s.close()
	}
}

// timed shows a stage that lasts for d while do runs.
func (s *stages) timed(ctx context.Context, what string, d time.Duration, do func(ctx context.Context) error) error {
	const tick = 250 * time.Millisecond
	stage := s.begin(what+" for "+d.String(), int(d/tick))
	defer stage.end()
	ticking, stop := context.WithCancel(ctx)
	defer stop()
	if s.bars && !s.quiet {
		go func() {
			for t := time.NewTicker(tick); ; {
				select {
				case <-ticking.Done():
					t.Stop()
					return
				case <-t.C:
					stage.add(1)
				}
			}
		}()
	}
	return do(ctx)
}
