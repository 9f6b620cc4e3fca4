package resp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
)

// Limits bound what a Reader accepts. Each is checked before anything is allocated
// for it.
type Limits struct {
	Args   int // arguments of a command
	Bulk   int // bytes of an argument
	Total  int // bytes of all arguments of a command
	Inline int // bytes of an inline command

	Unauthenticated bool // errors say that the client has not authenticated yet
}

// Anonymous returns the limits of a client that has not authenticated.
func Anonymous() Limits {
	return Limits{Args: 10, Bulk: 1 << 10, Total: 4 << 10, Inline: 1 << 10, Unauthenticated: true}
}

// maxArgs is how many arguments a command of an authenticated client has at most.
const maxArgs = 1 << 16

// Authenticated returns the limits of a client whose namespace has values of so many
// bytes at most, for commands of so many bytes in total.
func Authenticated(value, total int) Limits {
	return Limits{Args: maxArgs, Bulk: value, Total: total, Inline: 64 << 10}
}

// ProtocolError is a request that cannot be read. The connection must be closed after
// the error was sent: what follows in the stream has no meaning.
type ProtocolError string

// Error returns the words of Redis.
func (e ProtocolError) Error() string { return "Protocol error: " + string(e) }

// Budget is the memory that the requests and answers of all connections share.
type Budget struct {
	left atomic.Int64
	of   *Budget // it is a share of; nil: the whole
}

// NewBudget returns a budget of so many bytes.
func NewBudget(size int64) *Budget {
	b := &Budget{}
	b.left.Store(size)
	return b
}

// NewShare returns a budget of so many bytes that are also taken from b.
func (b *Budget) NewShare(size int64) *Budget {
	share := NewBudget(size)
	share.of = b
	return share
}

// Take takes n bytes, or nothing and returns false if so much is not left.
func (b *Budget) Take(n int) bool {
	if b.left.Add(int64(-n)) >= 0 && (b.of == nil || b.of.Take(n)) {
		return true
	}
	b.left.Add(int64(n))
	return false
}

// Return gives n bytes back.
func (b *Budget) Return(n int) {
	b.left.Add(int64(n))
	if b.of != nil {
		b.of.Return(n)
	}
}

// move gives n bytes back and takes them from another budget, which may come to have
// less than nothing: they are few.
func (b *Budget) move(n int, to *Budget) {
	to.Return(-n)
	b.Return(n)
}

// ErrMemory means that the budget of all connections is used up. The connection must
// be closed: the request was read in part.
var ErrMemory = errors.New("OOM command not allowed when used memory > 'maxmemory'")

const (
	readBuffer = 4 << 10 // of a connection
	chunk      = 32 << 10
)

// Reader reads commands of a connection, in the form of arrays of bulk strings or as
// inline commands. It allocates in steps as the bytes arrive, so that a client pays
// for what it makes the server hold.
type Reader struct {
	Limits Limits

	from    *source
	in      *bufio.Reader // reads from; nil while nothing has arrived
	buffers *sync.Pool    // of in
	budget  *Budget
	used    int // bytes of the commands since the last release
	held    int // bytes of them taken from budget

	parks, wakes func() // called before and after it waits for the first byte of a command; may be nil
}

// NewReader returns a reader that takes the memory of large arguments from budget.
func NewReader(in io.Reader, budget *Budget, l Limits) *Reader {
	r := &Reader{Limits: l, budget: budget, buffers: &sync.Pool{New: newReadBuffer}}
	r.from = newSource(in, r.begin, r.park)
	return r
}

func newReadBuffer() any { return bufio.NewReaderSize(nil, readBuffer) }

// begin reads into a buffer.
func (r *Reader) begin() error {
	if r.in == nil {
		r.in = r.buffers.Get().(*bufio.Reader)
		r.in.Reset(r.from)
	}
	_, err := r.in.Peek(1)
	return err
}

// park gives the buffer, which is empty, to others.
func (r *Reader) park() {
	if r.in != nil {
		r.in.Reset(nil)
		r.buffers.Put(r.in)
		r.in = nil
	}
	if r.parks != nil {
		r.parks()
	}
}

// Release gives the memory of the commands read so far back to the budget. They must
// not be used any more.
func (r *Reader) Release() {
	r.budget.Return(r.held)
	r.used, r.held = 0, 0
}

// share makes the reader take its memory from another budget.
func (r *Reader) share(to *Budget) {
	r.budget.move(r.held, to)
	r.budget = to
}

// Ready reports whether Next will return without reading from the connection.
func (r *Reader) Ready() bool {
	if r.in == nil {
		return false
	}
	buffered, _ := r.in.Peek(r.in.Buffered())
	return complete(buffered)
}

// Next reads the next command; it skips empty ones. The arguments are not used again
// by the reader. Errors: ProtocolError, ErrMemory, io.EOF between two commands, and
// those of the connection.
func (r *Reader) Next() ([][]byte, error) {
	for {
		if r.in == nil || r.in.Buffered() == 0 {
			err := r.from.wait()
			if r.wakes != nil {
				r.wakes()
			}
			if err != nil {
				return nil, err
			}
		}
		first, err := r.in.Peek(1)
		if err != nil {
			return nil, err
		}
		read := r.inline
		if first[0] == '*' {
			read = r.multibulk
		}
		args, err := read()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil || len(args) > 0 {
			return args, err
		}
	}
}

// multibulk reads an array of bulk strings.
func (r *Reader) multibulk() ([][]byte, error) {
	n, err := r.header("multibulk length", "too big mbulk count string")
	switch {
	case err != nil:
		return nil, err
	case n > int64(r.Limits.Args) && r.Limits.Unauthenticated:
		return nil, ProtocolError("unauthenticated multibulk length")
	case n > int64(r.Limits.Args):
		return nil, ProtocolError("invalid multibulk length")
	case n <= 0:
		return nil, nil
	}
	args := make([][]byte, 0, min(n, 16))
	var small []byte // holds the short arguments one after the other
	total := 0
	for range n {
		first, err := r.in.Peek(1)
		if err != nil {
			return nil, err
		}
		if first[0] != '$' {
			return nil, ProtocolError(fmt.Sprintf("expected '$', got '%s'", printable(first[0])))
		}
		size, err := r.header("bulk length", "too big bulk count string")
		switch {
		case err != nil:
			return nil, err
		case size >= 0 && size > int64(r.Limits.Bulk) && r.Limits.Unauthenticated:
			return nil, ProtocolError("unauthenticated bulk length")
		case size < 0 || size > int64(r.Limits.Bulk) || size > int64(r.Limits.Total-total):
			return nil, ProtocolError("invalid bulk length")
		}
		total += int(size)
		if !r.take(int(size) + argCost) {
			return nil, ErrMemory
		}
		var arg []byte
		if small, arg, err = r.bulk(small, int(size)); err != nil {
			return nil, err
		}
		args = append(args, arg)
	}
	return args, nil
}

// argCost is about what an argument takes beside its bytes.
const argCost = 48

// takenAhead is how much more than it needs a connection takes from the budget.
const takenAhead = 32 << 10

// freeOfCharge is what a connection may hold without asking the budget.
const freeOfCharge = 2 << 10

// take takes n bytes from the budget, once the connection holds more than a little.
func (r *Reader) take(n int) bool {
	r.used += n
	more := r.used - freeOfCharge - r.held
	if more <= 0 {
		return true
	}
	if r.budget.Take(more + takenAhead) { // so that the next ones need not ask
		r.held += more + takenAhead
		return true
	}
	if !r.budget.Take(more) {
		r.used -= n
		return false
	}
	r.held += more
	return true
}

// bulk reads an argument of n bytes and the end of its line: a short one into small,
// a long one into memory of its own.
func (r *Reader) bulk(small []byte, n int) (rest, arg []byte, err error) {
	if n <= readBuffer/2 {
		if cap(small)-len(small) < n {
			small = make([]byte, 0, max(256, n))
		}
		at := len(small)
		small = small[:at+n]
		arg = small[at : at+n : at+n]
		_, err = io.ReadFull(r.in, arg)
	} else {
		for err == nil && len(arg) < n {
			at := len(arg)
			arg = append(arg, make([]byte, min(n-at, max(at, chunk)))...)
			_, err = io.ReadFull(r.in, arg[at:])
		}
	}
	if err != nil {
		return small, nil, err
	}
	end, err := r.in.Peek(2)
	if err != nil {
		return small, nil, err
	}
	if end[0] != '\r' || end[1] != '\n' {
		return small, nil, ProtocolError("invalid bulk length")
	}
	_, err = r.in.Discard(2)
	return small, arg, err
}

// header reads a line of one byte and a number.
func (r *Reader) header(what, tooBig string) (int64, error) {
	line, err := r.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return 0, ProtocolError(tooBig)
	case err != nil:
		return 0, err
	}
	n, ok := headerNumber(line)
	if !ok {
		return 0, ProtocolError("invalid " + what)
	}
	return n, nil
}

// headerNumber returns the number of a line such as "$3\r\n".
func headerNumber(line []byte) (int64, bool) {
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return 0, false
	}
	return parseInt(line[1 : len(line)-2])
}

// inline reads a command that is a line of words.
func (r *Reader) inline() ([][]byte, error) {
	var line []byte
	for {
		part, err := r.in.ReadSlice('\n')
		if len(line)+len(part) > r.Limits.Inline+2 {
			return nil, ProtocolError("too big inline request")
		}
		if line != nil || errors.Is(err, bufio.ErrBufferFull) {
			if !r.take(len(part)) {
				return nil, ErrMemory
			}
			line = append(line, part...)
		} else {
			line = part
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, err
		}
	}
	args, ok := splitWords(bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")))
	switch {
	case !ok:
		return nil, ProtocolError("unbalanced quotes in request")
	case len(args) > r.Limits.Args:
		return nil, ProtocolError("too big inline request")
	}
	return args, nil
}

// complete reports whether b begins with a whole command, or with one that is an error
// whatever follows. Empty commands before it are skipped as Next skips them.
func complete(b []byte) bool {
	for len(b) > 0 {
		line, rest, ok := cutLine(b)
		if !ok {
			return false
		}
		if b[0] != '*' {
			if len(bytes.TrimLeft(line, spaces)) > 0 {
				return true
			}
			b = rest
			continue
		}
		n, ok := headerNumber(line)
		if !ok || n > maxArgs {
			return true
		}
		b = rest
		for range max(n, 0) {
			line, rest, ok := cutLine(b)
			if !ok {
				return len(b) > 0 && b[0] != '$'
			}
			size, ok := headerNumber(line)
			if !ok || line[0] != '$' || size < 0 {
				return true
			}
			if size > int64(len(rest)-2) {
				return false
			}
			b = rest[size+2:]
		}
		if n > 0 {
			return true
		}
	}
	return false
}

func cutLine(b []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 0 {
		return nil, nil, false
	}
	return b[:i+1], b[i+1:], true
}

// parseInt reads a decimal number as Redis does: nothing but an optional minus and
// digits, without leading zeros.
func parseInt(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 || b[0] == '0' && (len(b) > 1 || negative) {
		return 0, false
	}
	var n uint64
	for _, d := range b {
		if d < '0' || d > '9' {
			return 0, false
		}
		n = n*10 + uint64(d-'0')
	}
	switch {
	case negative && n <= 1<<63:
		return int64(-n), true
	case !negative && n <= math.MaxInt64:
		return int64(n), true
	}
	return 0, false
}

// printable returns a byte as it can stand in an error.
func printable(b byte) string {
	if b < ' ' || b > '~' {
		return " "
	}
	return string(b)
}
