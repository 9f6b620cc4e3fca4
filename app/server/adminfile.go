package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// adminFile is where a server says, beside the lock of its data folder, what its
// admin listener is called: whoever finds the folder in use knows whom to ask.
const adminFile = "ADMIN"

// leaveAdmin says in a data folder where its server's admin listener is; "" says
// that there is none. Only who holds the lock may.
func leaveAdmin(data, url string) error {
	if url == "" {
		return forgetAdmin(data)
	}
	if err := os.MkdirAll(data, 0o700); err != nil { // on a cluster nothing else is in it
		return notLeft(data, err)
	}
	file, err := os.CreateTemp(data, adminFile+".*") // 0600; the name becomes whole at once
	if err != nil {
		return notLeft(data, err)
	}
	_, err = file.WriteString(url + "\n")
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(data, adminFile))
	}
	if err != nil {
		return notLeft(data, errors.Join(err, os.Remove(file.Name())))
	}
	return nil
}

func notLeft(data string, err error) error {
	return mayfly.Wrap(mayfly.Unavailable, fmt.Errorf("say in %s where the admin listener is: %w", data, err), "the data folder must be writable")
}

// forgetAdmin takes away what a server has left.
func forgetAdmin(data string) error {
	if err := os.Remove(filepath.Join(data, adminFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// adminOf is the admin listener of the server that uses a data folder; "" if it
// has none.
func adminOf(data string) (string, error) {
	text, err := os.ReadFile(filepath.Join(data, adminFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", mayfly.Wrap(mayfly.Unavailable, err, "name the server's admin listener with --admin")
	}
	return strings.TrimSpace(string(text)), nil
}
