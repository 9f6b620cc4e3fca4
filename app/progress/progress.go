// Package progress shows how far long work is: bars on a terminal, a line for
// each stage elsewhere, and only notes when quiet.
package progress

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"
)

// Progress shows the stages of some work.
type Progress struct {
	out   io.Writer
	quiet bool
	bars  bool
	name  string // of the work
}

// New returns a Progress that writes to out. A quiet one shows only notes.
func New(out io.Writer, quiet bool) *Progress {
	f, isFile := out.(*os.File)
	return &Progress{out: out, quiet: quiet, bars: isFile && cwriter.IsTerminal(int(f.Fd()))}
}

// Name names the work whose stages follow.
func (p *Progress) Name(name string) { p.name = name }

// Note prints a line, also when quiet.
func (p *Progress) Note(format string, args ...any) {
	fmt.Fprintf(p.out, "mayfly: "+format+"\n", args...)
}

// Stage is a stage that has begun.
type Stage struct {
	progress *mpb.Progress
	bar      *mpb.Bar
	close    func()
}

// Begin begins a stage of total steps.
func (p *Progress) Begin(what string, total int) *Stage {
	title := p.name + ": " + what
	switch {
	case p.quiet:
		return &Stage{}
	case !p.bars:
		start := time.Now()
		return &Stage{close: func() {
			fmt.Fprintf(p.out, "%s: %s in %.1f s\n", title, humanize.Comma(int64(total)), time.Since(start).Seconds())
		}}
	}
	// The refresh is slow so that it does not disturb what is measured.
	all := mpb.New(mpb.WithOutput(p.out), mpb.WithWidth(40), mpb.WithRefreshRate(500*time.Millisecond))
	bar := all.AddBar(int64(total),
		mpb.PrependDecorators(decor.Name(title, decor.WC{W: 44, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.Percentage(decor.WC{W: 5}), decor.OnComplete(decor.AverageETA(decor.ET_STYLE_GO, decor.WC{W: 8}), " done")))
	return &Stage{progress: all, bar: bar}
}

// Add counts n more steps as done.
func (s *Stage) Add(n int) {
	if s.bar != nil {
		s.bar.IncrBy(n)
	}
}

// End ends the stage, complete or not.
func (s *Stage) End() {
	if s.bar != nil {
		s.bar.Abort(false)
		s.progress.Wait()
	}
	if s.close != nil {
		s.close()
	}
}

// Timed shows a stage that takes d while do runs.
func (p *Progress) Timed(ctx context.Context, what string, d time.Duration, do func(ctx context.Context) error) error {
	const tick = 250 * time.Millisecond
	stage := p.Begin(what+" for "+d.String(), int(d/tick))
	defer stage.End()
	ticking, stop := context.WithCancel(ctx)
	defer stop()
	if p.bars && !p.quiet {
		go func() {
			for t := time.NewTicker(tick); ; {
				select {
				case <-ticking.Done():
					t.Stop()
					return
				case <-t.C:
					stage.Add(1)
				}
			}
		}()
	}
	return do(ctx)
}
