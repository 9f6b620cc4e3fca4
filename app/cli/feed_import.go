package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/admin"
	"github.com/mayflyhq/mayfly/app/progress"
)

func newFeedImport() *cobra.Command {
	a := adminFlags{long: true}
	var op operation
	var edges, posts string
	c := &cobra.Command{
		Use: "import", Short: "Have the follow edges and posts of another product move in", Args: cobra.NoArgs,
		Long: "Edges are CSV, a line each: who follows, and who is followed. Posts are JSON, a line each:\n" +
			`  {"source":"p1","author":"~ana","text":"hello","born_at":"2024-05-01T12:00:00Z"}` + "\n" +
			`  {"source":"p2","author":"~ben","text":"welcome","born_at":"2024-05-01T12:01:00Z","reply_to":"p1"}` + "\n" +
			"source is the post's own name there; reply_to, quote and repost_of name a line before by it. lifetime counts from born_at.\n" +
			"Users are named as in the API: a UUID, or ~ and the subject of their tokens.\n\n" +
			"Whatever moves in twice is there once: after an interruption run it again, and it goes on where it stopped, which it keeps\n" +
			"in FILE.imported. A line that is broken or refused is reported with its number and skipped; the exit code is 1 then.\n\n" + adminHelp,
		Example: "  mayfly feed import --edges edges.csv --posts posts.jsonl --reason 'moving in'",
		RunE: func(c *cobra.Command, _ []string) error {
			if edges == "" && posts == "" {
				return usage(mayfly.Errorf(mayfly.Invalid, "nothing to import").WithHint("name a file with --edges, --posts or both"))
			}
			return a.do(c, &op, func(ctx context.Context, api admin.API) error {
				skipped := 0
				for _, file := range []struct {
					name   string
					parser func() parser
				}{{edges, newEdges}, {posts, newPosts}} {
					if file.name == "" {
						continue
					}
					m := &moving{api: api, reason: op.reason, out: c.OutOrStdout(), name: file.name, parse: file.parser()}
					if err := m.run(ctx, c.ErrOrStderr()); err != nil {
						return fmt.Errorf("%s, line %d: %w", file.name, m.line, err)
					}
					skipped += m.skipped
				}
				if skipped > 0 {
					return errWrong
				}
				return nil
			})
		},
	}
	a.flags(c)
	op.flags(c)
	c.Flags().StringVar(&edges, "edges", "", "CSV file of follow edges: reader,author")
	c.Flags().StringVar(&posts, "posts", "", "file of posts, one JSON object per line")
	return c
}

// moving is a file that moves in.
type moving struct {
	api    admin.API
	reason string
	out    io.Writer
	name   string
	parse  parser

	line, skipped, moved, again int
	batch                       wire.FeedImport
	lines                       []int // of what is in batch
}

// parser reads the lines of one sort of file.
type parser interface {
	// prepare sees every line before the first is added.
	prepare(line []byte)
	// add adds a line to the batch, or reports that the batch must be sent before. A line
	// that has nothing is not added.
	add(b *wire.FeedImport, line []byte) (added, send bool, err error)
	// needed reports whether later lines name a line that moved in before.
	needed(line []byte) bool
	// moved tells what became of the n-th of the batch.
	moved(b wire.FeedImport, n int, m wire.Moved)
	// most is how many lines a batch has at most.
	most() int
}

// maxLine is the longest line of a file, in bytes; maxSkipped how many skipped lines are
// printed.
const (
	maxLine    = 1 << 20
	maxSkipped = 100
)

func (m *moving) run(ctx context.Context, progressTo io.Writer) error {
	file, err := os.Open(m.name)
	if err != nil {
		return mayfly.Wrap(mayfly.NotFound, err, "name a file that this user may read")
	}
	defer func() { _ = file.Close() }() // only read
	done, err := m.done()
	if err != nil {
		return err
	}
	total := 0
	if err := eachLine(file, func(line []byte) error { total++; m.parse.prepare(line); return nil }); err != nil {
		return err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	bars := progress.New(progressTo, false)
	bars.Name("feed import")
	stage := bars.Begin("lines of "+m.name, total)
	defer stage.End()
	err = eachLine(file, func(line []byte) error {
		stage.Add(1)
		if m.line++; len(bytes.TrimSpace(line)) == 0 || m.line <= done && !m.parse.needed(line) {
			return nil
		}
		added, send, err := m.parse.add(&m.batch, line)
		if send {
			if err := m.send(ctx, m.line-1); err != nil {
				return err
			}
			added, _, err = m.parse.add(&m.batch, line)
		}
		if err != nil {
			m.skip(m.line, err.Error())
		}
		if !added {
			return nil
		}
		if m.lines = append(m.lines, m.line); len(m.lines) < m.parse.most() {
			return nil
		}
		return m.send(ctx, m.line)
	})
	if err == nil {
		err = m.send(ctx, m.line)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(m.out, "%s: %d moved in, %d were here before, %d skipped\n", m.name, m.moved, m.again, m.skipped)
	return errors.Join(err, os.Remove(m.state()))
}

func eachLine(r io.Reader, do func([]byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := do(lines.Bytes()); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return mayfly.Wrap(mayfly.Invalid, lines.Err(), "a line has at most 1 MiB")
	}
	return lines.Err()
}

func (m *moving) skip(line int, why string) {
	if m.skipped++; m.skipped <= maxSkipped {
		fmt.Fprintf(m.out, "%s, line %d is skipped: %s\n", m.name, line, why)
	}
}

// send has the batch move in, and notes how many lines of the file have.
func (m *moving) send(ctx context.Context, lines int) error {
	if len(m.lines) > 0 {
		m.batch.Reason = m.reason
		out, err := m.api.ImportFeed(ctx, m.batch)
		if err != nil {
			return err
		}
		for n, moved := range append(out.Edges, out.Posts...) {
			switch {
			case moved.Refused != "":
				m.skip(m.lines[n], moved.Refused)
			case moved.Again:
				m.again++
			default:
				m.moved++
			}
			m.parse.moved(m.batch, n, moved)
		}
		m.batch, m.lines = wire.FeedImport{}, m.lines[:0]
	}
	temporary := m.state() + ".new"
	if err := os.WriteFile(temporary, []byte(strconv.Itoa(lines)), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, m.state())
}

// state is the file that says how many lines have moved in.
func (m *moving) state() string { return m.name + ".imported" }

func (m *moving) done() (int, error) {
	text, err := os.ReadFile(m.state())
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		return 0, mayfly.Wrap(mayfly.Invalid, err, m.state()+" is to have the number of lines that moved in: remove it to begin anew")
	}
	fmt.Fprintf(m.out, "%s: goes on behind line %d\n", m.name, n)
	return n, nil
}

// edgeLines reads follow edges.
type edgeLines struct{}

func newEdges() parser { return edgeLines{} }

func (edgeLines) prepare([]byte)                         {}
func (edgeLines) needed([]byte) bool                     { return false }
func (edgeLines) moved(wire.FeedImport, int, wire.Moved) {}
func (edgeLines) most() int                              { return 1000 }
func (edgeLines) add(b *wire.FeedImport, line []byte) (added, send bool, err error) {
	fields, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err != nil {
		return false, false, err
	}
	if len(fields) >= 2 && fields[0] == "reader" && fields[1] == "author" { // the names of the columns
		return false, false, nil
	}
	if len(fields) < 2 || strings.TrimSpace(fields[0]) == "" || strings.TrimSpace(fields[1]) == "" {
		return false, false, mayfly.Errorf(mayfly.Invalid, "an edge is reader,author")
	}
	b.Edges = append(b.Edges, wire.FollowEdge{Reader: strings.TrimSpace(fields[0]), Author: strings.TrimSpace(fields[1])})
	return true, false, nil
}

// postLines reads posts, and gives those that lines name their ids here.
type postLines struct {
	named map[string]*mayfly.ID // by source: those that a line names, and their ids once they are here
	batch map[string]bool       // sources of the batch that are named
}

func newPosts() parser { return &postLines{named: map[string]*mayfly.ID{}, batch: map[string]bool{}} }

// postLine is a line of a file of posts.
type postLine struct {
	wire.OldPost
	ReplyTo  string `json:"reply_to"`
	Quote    string `json:"quote"`
	RepostOf string `json:"repost_of"`
}

func readPostLine(line []byte) (postLine, error) {
	var p postLine
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return p, err
	}
	if p.Source == "" {
		return p, mayfly.Errorf(mayfly.Invalid, "source is missing")
	}
	return p, nil
}

func (p *postLines) prepare(line []byte) {
	in, err := readPostLine(line)
	if err != nil {
		return // it is reported when it is added
	}
	for _, source := range []string{in.ReplyTo, in.Quote, in.RepostOf} {
		if source != "" {
			p.named[source] = nil
		}
	}
}

func (p *postLines) needed(line []byte) bool {
	in, err := readPostLine(line)
	_, named := p.named[in.Source]
	return err == nil && named
}

func (p *postLines) most() int { return 200 }

func (p *postLines) add(b *wire.FeedImport, line []byte) (added, send bool, err error) {
	in, err := readPostLine(line)
	if err != nil {
		return false, false, err
	}
	for source, into := range map[string]**mayfly.ID{in.ReplyTo: &in.OldPost.ReplyTo, in.Quote: &in.OldPost.Quote, in.RepostOf: &in.OldPost.RepostOf} {
		if source == "" {
			continue
		}
		if p.batch[source] {
			return false, true, nil
		}
		if *into = p.named[source]; *into == nil {
			return false, false, mayfly.Errorf(mayfly.NotFound, "no line before it moved in as %q", source)
		}
	}
	if _, named := p.named[in.Source]; named {
		p.batch[in.Source] = true
	}
	b.Posts = append(b.Posts, in.OldPost)
	return true, false, nil
}

func (p *postLines) moved(b wire.FeedImport, n int, m wire.Moved) {
	source := b.Posts[n].Source
	if _, named := p.named[source]; named && m.ID != nil {
		p.named[source] = m.ID
	}
	delete(p.batch, source)
}
