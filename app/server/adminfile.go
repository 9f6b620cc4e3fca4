package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// adminFile is a file in the data folder with the URL of the running server's
// admin API, so that an admin verb that finds the folder locked knows whom to call.
const adminFile = "ADMIN"

// writeAdminFile writes the admin file; without a URL it removes it. The caller
// holds the lock of the data folder.
func writeAdminFile(data, url string) error {
	if url == "" {
		return RemoveAdminFile(data)
	}
	failed := func(err error) error {
		return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("write %s: %w", filepath.Join(data, adminFile), err), "the data folder must be writable")
	}
	if err := os.MkdirAll(data, 0o700); err != nil { // on a cluster nothing else is in it
		return failed(err)
	}
	file, err := os.CreateTemp(data, adminFile+".*") // mode 0600; the rename is atomic
	if err != nil {
		return failed(err)
	}
	_, err = file.WriteString(url + "\n")
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(data, adminFile))
	}
	if err != nil {
		return failed(errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}

// RemoveAdminFile removes the admin file. The caller holds the lock of the data
// folder.
func RemoveAdminFile(data string) error {
	if err := os.Remove(filepath.Join(data, adminFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// AdminURL returns the URL of the admin API of the server that uses a data
// folder; "" if it has none.
func AdminURL(data string) (string, error) {
	text, err := os.ReadFile(filepath.Join(data, adminFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", mayfly.Wrap(mayfly.Unavailable, err, "name the server's admin listener with --admin")
	}
	return strings.TrimSpace(string(text)), nil
}
