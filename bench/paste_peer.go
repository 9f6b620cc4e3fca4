package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mayflyhq/mayfly/deploy/varnish"
	"github.com/mayflyhq/mayfly/store/loop"
)

// rustypasteConfig is rustypaste's own example, but for names that do not run out
// with 100,000 files, for pastes that expire, as ours do, and for a clean-up that does
// not run while it is measured.
const rustypasteConfig = `[config]
refresh_rate = "1h"
[server]
address = %q
upload_path = %q
max_content_length = "10MB"
timeout = "30s"
[paste]
random_url = { type = "alphanumeric", length = 12 }
default_extension = "txt"
default_expiry = "7d"
mime_override = []
mime_blacklist = []
duplicate_files = true
delete_expired_files = { enabled = false, interval = "1h" }
`

// startRustypaste starts rustypaste with so many files, which are stored as it stores
// them: the name, and behind it when it expires.
func startRustypaste(ctx context.Context, programs, folder string, stored int) (_ *pasteSide, err error) {
	programs, err = peersIn(programs)
	if err != nil {
		return nil, err
	}
	program := filepath.Join(programs, "bin", "rustypaste")
	if _, err := os.Stat(program); err != nil {
		return nil, fmt.Errorf("%w (make peers builds it)", err)
	}
	address, err := varnish.FreeAddress()
	if err != nil {
		return nil, err
	}
	files := filepath.Join(folder, "files")
	if err := os.MkdirAll(files, 0o700); err != nil {
		return nil, err
	}
	side := &pasteSide{url: "http://" + address, created: http.StatusOK, paths: make([]string, stored)}
	expires := time.Now().Add(7 * 24 * time.Hour).UnixMilli()
	for n := range stored {
		name := fmt.Sprintf("bench%07d.txt", n)
		if err := os.WriteFile(filepath.Join(files, fmt.Sprint(name, ".", expires)), pasteContent(uint64(n)), 0o600); err != nil {
			return nil, err
		}
		side.paths[n] = "/" + name
	}
	settings := filepath.Join(folder, "config.toml")
	if err := os.WriteFile(settings, fmt.Appendf(nil, rustypasteConfig, address, files), 0o600); err != nil {
		return nil, err
	}
	process := exec.CommandContext(ctx, program)
	process.Env = append(os.Environ(), "CONFIG="+settings, "RUST_LOG=warn") // it logs every request otherwise
	said := new(firstBytes)
	process.Stdout, process.Stderr = said, said
	p, err := startPeer(process)
	if err != nil {
		return nil, err
	}
	side.stop = p.stop
	if err := side.await(ctx, p); err != nil {
		err = errors.Join(err, p.stop()) // after that the program writes no more
		return nil, fmt.Errorf("rustypaste: %w: %s", err, bytes.TrimSpace(said.text))
	}
	return side, nil
}

// await waits until a peer serves what is stored.
func (s *pasteSide) await(ctx context.Context, p *peer) error {
	for until := time.Now().Add(60 * time.Second); ; {
		_, _, err := answerTo(s.url, getRequest(s.paths[0], ""), http.StatusOK)
		if err == nil {
			return nil
		}
		select {
		case ended := <-p.exited:
			p.exited <- ended
			return fmt.Errorf("it has ended: %w", ended)
		default:
		}
		if time.Now().After(until) {
			return fmt.Errorf("it does not serve after 60 s: %w", err)
		}
		if err := loop.Rest(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}
