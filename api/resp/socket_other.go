//go:build !unix

package resp

import (
	"io"
	"net"
)

type socket struct{}

func socketOf(net.Conn) *socket { return nil }

func (*socket) write([]byte) (int, error) { return 0, nil }

type waiting struct{ now bool }

func newWaiting(io.Reader, *source) *waiting { return nil }

func (*waiting) wait() error { return nil }

func (*waiting) read([]byte) (int, error) { return 0, nil }
