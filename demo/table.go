package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/vbauerster/mpb/v8/cwriter"
)

// demoTable shows every life: on a terminal a table that is drawn again and
// again below what was said; elsewhere nothing but what is said.
type demoTable struct {
	rows func() []string

	mu     sync.Mutex
	out    io.Writer
	screen *cwriter.Writer // nil without a terminal, or when it has ended
	stop   chan struct{}
}

func newDemoTable(out io.Writer, rows func() []string) *demoTable {
	t := &demoTable{rows: rows, out: out, stop: make(chan struct{})}
	if screen := cwriter.New(out); screen.IsTerminal() {
		t.screen = screen
		go t.draw()
	}
	return t
}

func (t *demoTable) terminal() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.screen != nil
}

func (t *demoTable) draw() {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
			t.mu.Lock()
			t.flush()
			t.mu.Unlock()
		}
	}
}

// flush draws the table over itself; as much of its end as there is room for.
func (t *demoTable) flush() {
	if t.screen == nil {
		return
	}
	width, height, err := t.screen.GetTermSize()
	if err != nil || width < 20 {
		width, height = 80, 24
	}
	rows := t.rows()
	if room := max(4, height-3); len(rows) > room {
		rows = append(rows[:1:1], rows[len(rows)-room+1:]...)
	}
	for _, row := range rows {
		if text := []rune(row); len(text) >= width {
			row = string(text[:width-1])
		}
		fmt.Fprintln(t.screen, row)
	}
	if err := t.screen.Flush(len(rows)); err != nil {
		t.screen = nil // the screen is not shown any more
	}
}

// say says something that stays.
func (t *demoTable) say(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.screen == nil {
		fmt.Fprintln(t.out, text)
		return
	}
	fmt.Fprintln(t.screen, text)
	t.flush()
}

// end leaves the table as it is.
func (t *demoTable) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.screen == nil {
		return
	}
	t.flush()
	t.screen = nil // what would go back over the table is not written
	close(t.stop)
}

// tell says what happened to a story: on a terminal in its row.
func (d *demo) tell(l *life, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	l.mu.Lock()
	l.remark = text
	l.mu.Unlock()
	if !d.table.terminal() {
		d.say("%5.1f s  story %d: %s", time.Since(d.began).Seconds(), l.n, text)
	}
}

// shows records for the table the state that the author gets and who sees the story.
// Empty and nil values change nothing.
func (l *life) shows(state string, seen []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if state != "" {
		l.state = state
	}
	if seen != nil {
		l.seen = seen
	}
}

func (l *life) became(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = fmt.Sprintf(format, args...)
}

// rows are the lines of the live table.
func (d *demo) rows() []string {
	lives := d.lives()
	if len(lives) == 0 {
		return nil
	}
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "story\tid\tby\taudience\tstate\tleft\tseen by\t")
	for _, l := range lives {
		fmt.Fprintln(w, l.row(d))
	}
	if err := w.Flush(); err != nil {
		return nil // into memory
	}
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
}

func (l *life) row(d *demo) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := "-"
	if d.host.ready() {
		if rest := l.until.Sub(d.host.now()); rest > 0 {
			left = fmt.Sprintf("%.1f s", rest.Seconds())
		}
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s", l.n, l.story.Short, l.author, l.story.Audience, l.state, left, strings.Join(l.seen, " "), l.remark)
}

// summary is what is left to read of every life.
func (d *demo) summary() error {
	var out bytes.Buffer
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "story\tid\tby\taudience\tlifetime\tdeadline\tlast served\tfirst refused\tcold\topened from cold\tbecame")
	for _, l := range d.lives() {
		fmt.Fprintln(w, l.summed())
	}
	err := w.Flush()
	d.say("\n%s", strings.TrimRight(out.String(), "\n"))
	return err
}

func (l *life) summed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	cold, opened := "-", "-"
	if l.opened > 0 {
		cold, opened = fmt.Sprintf("+%.1f s", l.cold.Seconds()), milliseconds(l.opened)
	}
	return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s", l.n, l.story.Short, l.author, l.story.Audience, l.story.Lifetime,
		l.deadline.Time().Format("15:04:05.000"), offset(l.serves.lastServed.Load(), l.deadline), offset(l.serves.firstRefused.Load(), l.deadline),
		cold, opened, l.last)
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

func (l *life) setURL(url string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.url = url
}

func (l *life) mediumURL() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.url
}
