package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// sums is a list as sha256sum writes it: name to SHA-256 in hex.
type sums map[string]string

func parseSums(text []byte) (sums, error) {
	list := sums{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || len(sum) != 2*sha256.Size || name != filepath.Base(name) {
			return nil, fmt.Errorf("not a line of a list of sums: %q", lines.Text())
		}
		list[name] = sum
	}
	return list, nil
}

// key is a short name for the whole resolved set.
func key(parts ...[]byte) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d\n", len(p))
		h.Write(p)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// verify compares a folder with the list: every file of it, and none besides.
func (list sums) verify(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var found []string
	for _, e := range entries {
		want, listed := list[e.Name()]
		if !listed {
			return fmt.Errorf("%s is not on the list of what belongs there", filepath.Join(folder, e.Name()))
		}
		got, err := sumOf(filepath.Join(folder, e.Name()))
		if err != nil {
			return err
		}
		if got != want {
			return fmt.Errorf("%s has SHA-256 %s, the recipe says %s", filepath.Join(folder, e.Name()), got, want)
		}
		found = append(found, e.Name())
	}
	for name := range list {
		if !slices.Contains(found, name) {
			return fmt.Errorf("%s is missing", filepath.Join(folder, name))
		}
	}
	return nil
}

func sumOf(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
