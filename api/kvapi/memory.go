package kvapi

import (
	"io"
	"sync"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
)

// memory is what the values of requests under way may take. The namespaces of one owner
// take a quarter at most, so that slow clients of them leave room for others.
type memory struct {
	mu    sync.Mutex
	total int64
	used  int64
	by    map[string]int64
}

func newMemory(total int64) *memory { return &memory{total: total, by: map[string]int64{}} }

// small is the size of a value that is free: the buffers of its connection take as much.
const small = 64 << 10

// take takes n bytes for an owner of namespaces. Errors: Unavailable.
func (m *memory) take(owner string, n int64) error {
	if n <= small {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > m.total || m.by[owner]+n > m.total/4 {
		return mayfly.Errorf(mayfly.Unavailable, "too many large values are under way").WithHint("try again in a moment, with fewer large values at once")
	}
	m.used += n
	m.by[owner] += n
	return nil
}

// give returns what take took.
func (m *memory) give(owner string, n int64) {
	if n <= small {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
	if m.by[owner] -= n; m.by[owner] == 0 {
		delete(m.by, owner)
	}
}

// read reads the body, of most bytes, for an owner of namespaces. It takes memory as the bytes
// come; give returns it and may be called also after an error. Errors: TooLarge,
// Unavailable, Invalid.
func (m *memory) read(c *httpapi.Call, owner string, most int64) (body []byte, give func(), err error) {
	held := int64(0)
	give = func() { m.give(owner, held) }
	tooLarge := mayfly.Errorf(mayfly.TooLarge, "the body has more than %d bytes", most).WithHint("send less")
	if c.Request.ContentLength > most {
		return nil, give, tooLarge
	}
	body = make([]byte, 0, min(small, most+1, max(c.Request.ContentLength, 511)+1))
	for {
		if len(body) == cap(body) {
			size := min(2*int64(cap(body)), most+1)
			if err := m.take(owner, size); err != nil { // both are in memory while one is copied
				return nil, give, err
			}
			body = append(make([]byte, 0, size), body...)
			m.give(owner, held)
			held = size
		}
		n, err := c.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > most:
			return nil, give, tooLarge
		case err == io.EOF: //nolint:errorlint // as io.Reader has it
			return body, give, nil
		case err != nil:
			return nil, give, c.Body.Cause(err)
		}
	}
}
