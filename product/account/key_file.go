package account

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mayflyhq/mayfly"
)

// keyFormat begins a key file; the seed is behind it.
const keyFormat = 1

// LoadKey reads the key of a file, or makes one at first start, readable by its
// owner only. Processes that start at once agree on one key. A file that others
// may read is refused (Invalid): whoever reads it can be anybody.
func LoadKey(path string) (*Key, error) {
	k, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(path); err != nil {
			return nil, fmt.Errorf("make the key file %s: %w", path, err)
		}
		k, err = readKey(path)
	}
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return k, nil
}

func readKey(path string) (*Key, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, mayfly.Errorf(mayfly.Invalid, "it is no file").WithHint("name a file, or one that is to be made")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "others may read or write it (%s)", info.Mode().Perm()).
			WithHint(fmt.Sprintf("chmod 600 %q; if others have read it, remove it, and a new one is made: every token ends then", path))
	}
	b, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err != nil {
		return nil, err
	}
	if len(b) != 1+ed25519.SeedSize || b[0] != keyFormat {
		return nil, mayfly.Errorf(mayfly.Corrupt, "it holds no key (%d bytes)", len(b)).
			WithHint("put it back from a backup; or remove it, and a new one is made: every token ends then")
	}
	return newKey(b[1:])
}

// makeKey writes a new key beside its place, and links it there when it is whole
// and durable. A link never replaces: who comes second finds the first's.
func makeKey(path string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b := append(make([]byte, 0, 1+ed25519.SeedSize), keyFormat)
	b = b[:cap(b)]
	if _, err := rand.Read(b[1:]); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".key-*") // O_EXCL, 0600
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, os.Remove(f.Name()), syncFolder(dir))
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
