package bench

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// httpConn is one kept-alive connection of an asker. It speaks just enough
// HTTP/1.1: what an asker costs is taken from the server, which is measured on the
// same cores, and net/http's client costs 20 µs more for each request, as much as
// net/http's server does.
type httpConn struct {
	net  net.Conn
	in   *bufio.Reader
	body []byte // of the last answer
	hit  bool   // Varnish had it in its cache
}

func dialHTTP(url string) (*httpConn, error) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, err
	}
	return &httpConn{net: conn, in: bufio.NewReaderSize(conn, 16<<10)}, nil
}

func (c *httpConn) close() error { return c.net.Close() }

// do sends a request and reads the answer into c.body.
func (c *httpConn) do(request []byte, want int) error {
	if _, err := c.net.Write(request); err != nil {
		return fmt.Errorf("send a request: %w", err)
	}
	status, err := c.read()
	if err != nil {
		return fmt.Errorf("read an answer: %w", err)
	}
	if status != want {
		return fmt.Errorf("status %d instead of %d: %.300s", status, want, c.body)
	}
	return nil
}

func (c *httpConn) read() (status int, err error) {
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < len("HTTP/1.1 200") || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, fmt.Errorf("%q is no status line", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, err
	}
	length := 0
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, err
		}
		if len(line) <= 2 {
			break
		}
		if value, ok := cutName(line, "Content-Length: "); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		} else if value, ok := cutName(line, "X-Varnish: "); ok { // the request's number, and that of the one which filled the cache
			c.hit = len(bytes.Fields(value)) == 2
		}
	}
	if status != http.StatusNoContent && length == 0 {
		return 0, fmt.Errorf("an answer %d without a length", status)
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	_, err = io.ReadFull(c.in, c.body)
	return status, err
}

// cutName returns what follows the name in the line of a header.
func cutName(line []byte, name string) ([]byte, bool) {
	if len(line) < len(name) || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return nil, false
	}
	return line[len(name):], true
}

// field is a field of text in the JSON of the last answer; it has no quotes in it.
func (c *httpConn) field(name string) (string, error) {
	_, rest, ok := bytes.Cut(c.body, []byte(`"`+name+`":"`))
	value, _, closed := bytes.Cut(rest, []byte(`"`))
	if !ok || !closed {
		return "", fmt.Errorf("no %s in %.300s", name, c.body)
	}
	return string(value), nil
}
