// Package varnish starts a varnishd with the configuration of this folder, for
// benchmarks and tests. Operators start their own: docs/operations.md.
package varnish

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed default.vcl mayfly.vcl
var configuration embed.FS

// Options configures Start.
type Options struct {
	Origin  string // URL of the server behind it
	Address string // to listen on; default: a free one of the loopback
	Secret  string // of purges
	Memory  string // for what is cached, such as 32m
}

// Varnish is a running varnishd.
type Varnish struct {
	URL string

	folder  string
	process *exec.Cmd
	ended   chan error
	log     bytes.Buffer
}

// Start starts a varnishd and waits until it answers. Stop it.
func Start(o Options) (_ *Varnish, err error) {
	if o.Address == "" {
		if o.Address, err = FreeAddress(); err != nil {
			return nil, err
		}
	}
	v := &Varnish{URL: "http://" + o.Address, ended: make(chan error, 1)}
	if v.folder, err = os.MkdirTemp("", "varnish"); err != nil {
		return nil, err
	}
	if err := v.start(o); err != nil {
		return nil, errors.Join(err, os.RemoveAll(v.folder))
	}
	if err := v.await(); err != nil {
		return nil, fmt.Errorf("%w: %.500s", errors.Join(err, v.Stop()), v.log.String())
	}
	return v, nil
}

func (v *Varnish) start(o Options) error {
	if err := v.configure(o.Origin); err != nil {
		return err
	}
	v.process = exec.Command("varnishd", "-F", "-n", filepath.Join(v.folder, "work"), "-a", "http="+o.Address+",HTTP", "-T", "none", "-f", filepath.Join(v.folder, "default.vcl"),
		"-s", "malloc,"+o.Memory, "-p", "vcl_path="+v.folder, "-p", "thread_pools=1", "-p", "thread_pool_min=10", "-p", "thread_pool_max=200")
	v.process.Env = append(os.Environ(), "MAYFLY_PURGE_SECRET="+o.Secret)
	v.process.Stdout, v.process.Stderr = &v.log, &v.log
	if err := v.process.Start(); err != nil {
		return err
	}
	go func() { v.ended <- v.process.Wait() }()
	return nil
}

// configure writes the configuration for an origin. varnishd reads it as another user.
func (v *Varnish) configure(origin string) error {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(origin, "http://"))
	if err != nil {
		return err
	}
	if err := os.Chmod(v.folder, 0o755); err != nil { //nolint:gosec // as above
		return err
	}
	for _, name := range []string{"mayfly.vcl", "default.vcl"} {
		text, err := configuration.ReadFile(name)
		if err != nil {
			return err
		}
		text = bytes.Replace(text, []byte(`"127.0.0.1"`), fmt.Appendf(nil, "%q", host), 1)
		text = bytes.Replace(text, []byte(`"7420"`), fmt.Appendf(nil, "%q", port), 1)
		if err := os.WriteFile(filepath.Join(v.folder, name), text, 0o644); err != nil { //nolint:gosec // as above
			return err
		}
	}
	return nil
}

// await waits until it answers.
func (v *Varnish) await() error {
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for until := time.Now().Add(30 * time.Second); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		if r, err := client.Get(v.URL + "/varnish-is-up"); err == nil {
			return r.Body.Close()
		}
		select {
		case err := <-v.ended:
			v.ended <- err
			return fmt.Errorf("varnishd ended: %w", err)
		default:
		}
	}
	return errors.New("varnishd does not answer")
}

// Stop stops it and removes its files.
func (v *Varnish) Stop() error {
	_ = v.process.Process.Signal(os.Interrupt) // it may have ended
	select {
	case <-v.ended:
	case <-time.After(10 * time.Second):
		_ = v.process.Process.Kill()
		<-v.ended
	}
	return os.RemoveAll(v.folder)
}

// Log returns what a stopped varnishd has printed.
func (v *Varnish) Log() string { return v.log.String() }

// FreeAddress returns an address of the loopback on which nothing listens.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
