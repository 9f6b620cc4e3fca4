package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// peer is a process of another server that the product is compared with. A peer
// that does not start is a row that the report does not have, never a zero.
type peer struct {
	process *exec.Cmd
	exited  chan error
}

// startPeer starts a program.
func startPeer(process *exec.Cmd) (*peer, error) {
	if err := process.Start(); err != nil {
		return nil, err
	}
	p := &peer{process: process, exited: make(chan error, 1)}
	go func() { p.exited <- process.Wait() }()
	return p, nil
}

// stop kills the process. Its exit code means nothing after that.
func (p *peer) stop() error {
	err := p.process.Process.Kill()
	if errors.Is(err, os.ErrProcessDone) {
		err = nil
	}
	<-p.exited
	return err
}

// withoutPeer notes that rows are left out, and why. It returns the error of a run
// that was interrupted.
func (b *bench) withoutPeer(ctx context.Context, rows string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	b.progress.Note("%s left out, because the peer could not be started: %v", rows, err)
	return nil
}

// httpPeer is a program of bench/peers, which make peers builds.
type httpPeer struct {
	*peer
	input io.Closer // the program ends when it is closed

	URL   string     `json:"url"`
	Users []peerUser `json:"users"`
}

// peerUser is a user of a peer, with an access token.
type peerUser struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

// peersIn returns the folder of the programs; by default it is beside this one.
func peersIn(programs string) (string, error) {
	if programs != "" {
		return programs, nil
	}
	self, err := os.Executable()
	return filepath.Join(filepath.Dir(self), "peers"), err
}

// startHTTPPeer starts the program of that name with its data in folder, and waits
// until it prints that it serves.
func startHTTPPeer(ctx context.Context, programs, name, folder string, users int) (*httpPeer, error) {
	programs, err := peersIn(programs)
	if err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, filepath.Join(programs, name), "-data", folder, "-users", strconv.Itoa(users))
	said := new(firstBytes)
	process.Stderr = said
	input, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p := &httpPeer{input: input}
	if p.peer, err = startPeer(process); err != nil {
		return nil, fmt.Errorf("%w (make peers builds it)", err)
	}
	serves := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, p)
		}
		serves <- err
		_, _ = io.Copy(io.Discard, out) // until the program ends
	}()
	timeout := time.NewTimer(30 * time.Second)
	defer timeout.Stop()
	select {
	case err = <-serves:
	case <-timeout.C:
		err = errors.New("it does not serve after 30 s")
	}
	if err != nil {
		err = errors.Join(err, p.stop()) // after that the program writes no more
		return nil, fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(said.text))
	}
	return p, nil
}

// stop ends the program.
func (p *httpPeer) stop() error { return errors.Join(p.input.Close(), p.peer.stop()) }

// firstBytes keeps the beginning of what a program writes, which says why it failed.
type firstBytes struct{ text []byte }

func (f *firstBytes) Write(p []byte) (int, error) {
	f.text = append(f.text, p[:min(len(p), 500-len(f.text))]...)
	return len(p), nil
}
