package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/app/server"
)

// ownChild is this program once more, serving folder.
func ownChild(folder string) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return exec.Command(self, "demo", "--child", folder), nil
}

// serveUntilKilled is the server that is killed. It says where it listens, and
// ends by itself only when the process that started it has ended.
func ServeUntilKilled(ctx context.Context, folder string, in io.Reader, out io.Writer) error {
	cfg := demoConfig(folder)
	defer server.Tune(cfg)()
	s, err := server.Start(ctx, cfg, server.LocalOptions{})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(out, "%s\n%s\n", s.API(), s.Admin()); err != nil {
		return errors.Join(err, s.Stop(ctx))
	}
	_, err = io.Copy(io.Discard, in)
	return errors.Join(err, s.Stop(ctx))
}

// killedServer is a server in another process.
type killedServer struct {
	process    *exec.Cmd
	api, admin string
}

func (d *demo) startChild() (*killedServer, error) {
	child, err := d.child(d.folder)
	if err != nil {
		return nil, err
	}
	if _, err := child.StdinPipe(); err != nil { // it ends with this process, whatever becomes of it
		return nil, err
	}
	out, err := child.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var errs strings.Builder
	child.Stderr = &errs
	if err := child.Start(); err != nil {
		return nil, err
	}
	k := &killedServer{process: child}
	lines := bufio.NewScanner(out)
	for _, url := range []*string{&k.api, &k.admin} {
		if !lines.Scan() {
			err := errors.Join(lines.Err(), child.Process.Kill(), child.Wait())
			return nil, fmt.Errorf("a server in another process does not start: %w\n%s", err, errs.String())
		}
		*url = lines.Text()
	}
	return k, nil
}

// kill ends the process as a crash does.
func (k *killedServer) kill() error {
	if k.process.ProcessState != nil {
		return nil
	}
	if err := k.process.Process.Kill(); err != nil {
		return err
	}
	if err := k.process.Wait(); err == nil {
		return errors.New("the process that was to be killed had ended by itself")
	}
	return nil
}

// crash lets people publish at a server in another process and kills it in the
// middle of that. What it had acknowledged is the beginning of this
// demonstration; what it had not is published again by the same keys.
func (d *demo) crash(ctx context.Context) (broken []*publication, err error) {
	server, err := d.startChild()
	if err != nil {
		return nil, err
	}
	if broken, err = d.publishAt(ctx, server); err != nil {
		return nil, errors.Join(err, server.kill())
	}
	d.say("ana and ben publish at a server that is killed with -9 in the middle of it: it had acknowledged %d stories, and %d were on their way.", len(d.lives()), len(broken))
	return broken, nil
}

// publishAt publishes until enough stories are acknowledged, then kills the
// server while the next ones are under way.
func (d *demo) publishAt(ctx context.Context, server *killedServer) ([]*publication, error) {
	p, err := newPeople(server.api, server.admin, d.host.token)
	if err != nil {
		return nil, err
	}
	if err := p.relate(ctx); err != nil {
		return nil, err
	}
	r := &rush{demo: d, people: p, enough: 4, reached: make(chan struct{})}
	if d.once {
		r.enough = max(1, d.stories/2)
	}
	const hands = 3
	var publishing sync.WaitGroup
	for range hands {
		publishing.Go(func() {
			for r.publish(ctx) {
			}
		})
	}
	<-r.reached
	err = server.kill() // they are publishing the next ones right now
	publishing.Wait()
	d.unborn = len(r.broken)
	return r.broken, errors.Join(err, r.failed)
}

// rush is people who publish as fast as they are answered.
type rush struct {
	demo   *demo
	people *people
	enough int

	mu           sync.Mutex
	begun        int
	acknowledged int
	reached      chan struct{} // closed when enough are acknowledged, or one failed before that
	broken       []*publication
	failed       error
}

// publish publishes the next story, and says whether there is a server for more.
func (r *rush) publish(ctx context.Context) bool {
	r.mu.Lock()
	n := r.begun
	r.begun++
	r.mu.Unlock()
	p, err := newPublication(n)
	var story wire.Story
	if err == nil {
		story, err = r.people.named(p.author).ask.Publish(ctx, p.what)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.acknowledged
	switch {
	case err == nil:
		r.demo.born(p, story)
		r.acknowledged++
	case noAnswer(err) && r.acknowledged >= r.enough:
		r.broken = append(r.broken, p)
	default:
		r.failed = errors.Join(r.failed, err)
		r.acknowledged = max(r.acknowledged, r.enough) // no more are waited for
	}
	if before < r.enough && r.acknowledged >= r.enough {
		close(r.reached)
	}
	return err == nil
}
