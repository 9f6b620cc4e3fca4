package resp

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

const testBudget = 1 << 20

func testLimits() Limits { return Authenticated(64<<10, 256<<10) }

// readAll reads commands until the end or an error.
func readAll(in io.Reader, l Limits) (commands [][][]byte, err error) {
	r := NewReader(in, NewBudget(testBudget), l)
	for {
		args, err := r.Next()
		if err != nil {
			return commands, err
		}
		commands = append(commands, args)
		r.Release()
	}
}

func TestCommandsAreReadInEveryForm(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"*1\r\n$4\r\nPING\r\n", "PING"},
		{"*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "GET|"},
		{"*2\r\n$3\r\nGET\r\n$4\r\na\r\n\x00\r\n", "GET|a\r\n\x00"},
		{"PING\r\n", "PING"},
		{"PING\n", "PING"},
		{"\r\n*0\r\n*-1\r\n  \r\nPING\r\n", "PING"},
		{"  set  k   v \r\n", "set|k|v"},
		{`set "a b" 'c"d'` + "\r\n", `set|a b|c"d`},
		{`set "\x41\n\"\z" '\n\''` + "\r\n", "set|A\n\"z|\\n'"},
		{`set "" ''` + "\r\n", "set||"},
		{"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n", "PING/QUIT"},
		{"*2\r\n$3\r\nGET\r\n$40000\r\n" + strings.Repeat("x", 40000) + "\r\n", "GET|" + strings.Repeat("x", 40000)},
	} {
		for name, in := range map[string]io.Reader{"at once": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
			commands, err := readAll(in, testLimits())
			if !errors.Is(err, io.EOF) || shown(commands) != c.want {
				t.Errorf("%.60q %s: got %.80q, %v, want %.80q", c.in, name, shown(commands), err, c.want)
			}
		}
	}
}

func shown(commands [][][]byte) string {
	var all []string
	for _, args := range commands {
		all = append(all, string(bytes.Join(args, []byte("|"))))
	}
	return strings.Join(all, "/")
}

func TestBadRequestsAreRefusedInTheWordsOfRedis(t *testing.T) {
	for _, c := range []struct {
		in, want string
		l        Limits
	}{
		{"*9223372036854775807\r\n", "invalid multibulk length", testLimits()},
		{"*9223372036854775807\r\n", "unauthenticated multibulk length", Anonymous()},
		{"*9223372036854775808\r\n", "invalid multibulk length", testLimits()},
		{"*65537\r\n", "invalid multibulk length", testLimits()},
		{"*11\r\n", "unauthenticated multibulk length", Anonymous()},
		{"*a\r\n", "invalid multibulk length", testLimits()},
		{"*+1\r\n", "invalid multibulk length", testLimits()},
		{"*01\r\n", "invalid multibulk length", testLimits()},
		{"*1\n", "invalid multibulk length", testLimits()},
		{"*\r\n", "invalid multibulk length", testLimits()},
		{"*" + strings.Repeat("1", 70000), "too big mbulk count string", testLimits()},
		{"*1\r\n$" + strings.Repeat("1", 70000), "too big bulk count string", testLimits()},
		{"*1\r\n*1\r\n$4\r\nPING\r\n", "expected '$', got '*'", testLimits()},
		{"*2\r\n$3\r\nGET\r\n:1\r\n", "expected '$', got ':'", testLimits()},
		{"*1\r\n\x00", "expected '$', got ' '", testLimits()},
		{"*2\r\n$3\r\nGET\r\n$536870912\r\n", "invalid bulk length", testLimits()},
		{"*2\r\n$3\r\nGET\r\n$536870912\r\n", "unauthenticated bulk length", Anonymous()},
		{"*2\r\n$4\r\nAUTH\r\n$1025\r\n", "unauthenticated bulk length", Anonymous()},
		{"*1\r\n$-1\r\n", "invalid bulk length", testLimits()},
		{"*1\r\n$-1\r\n", "invalid bulk length", Anonymous()},
		{"*1\r\n$4\r\nPINGxx", "invalid bulk length", testLimits()},
		{"*5\r\n" + strings.Repeat("$65536\r\n"+strings.Repeat("x", 65536)+"\r\n", 5), "invalid bulk length", testLimits()},
		{strings.Repeat("x", 70000), "too big inline request", testLimits()},
		{strings.Repeat("x", 1200) + "\r\n", "too big inline request", Anonymous()},
		{"set \"a\r\n", "unbalanced quotes in request", testLimits()},
		{"set \"a\"b\r\n", "unbalanced quotes in request", testLimits()},
		{"set 'a\\'\r\n", "unbalanced quotes in request", testLimits()},
		{strings.Repeat("x ", 11) + "\r\n", "too big inline request", Anonymous()},
	} {
		_, err := readAll(strings.NewReader(c.in), c.l)
		if p := ProtocolError(""); !errors.As(err, &p) || string(p) != c.want {
			t.Errorf("%.40q: got %v, want protocol error: %s", c.in, err, c.want)
		}
	}
}

// A header alone makes the server allocate next to nothing.
func TestNothingIsAllocatedForBytesThatDidNotArrive(t *testing.T) {
	limits := Authenticated(512<<20, 1<<30)
	for _, in := range []string{
		"*65536\r\n", "*2\r\n$3\r\nSET\r\n$536870912\r\n", "*9223372036854775807\r\n", strings.Repeat("*65536\r\n$0\r\n\r\n", 1),
	} {
		const runs = 100
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range runs {
			r := NewReader(strings.NewReader(in), NewBudget(1<<30), limits)
			if _, err := r.Next(); err == nil {
				t.Fatalf("%q was read", in)
			}
		}
		runtime.ReadMemStats(&after)
		if each := (after.TotalAlloc - before.TotalAlloc) / runs; each > 256<<10 {
			t.Errorf("%q allocated %d bytes", in, each)
		}
	}
}

func TestConnectionsShareTheBudget(t *testing.T) {
	budget := NewBudget(100 << 10)
	value := strings.Repeat("x", 60<<10)
	in := "*2\r\n$3\r\nGET\r\n$61440\r\n" + value + "\r\n"
	first := NewReader(strings.NewReader(in), budget, testLimits())
	second := NewReader(strings.NewReader(in+in), budget, testLimits())
	if _, err := first.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Next(); !errors.Is(err, ErrMemory) {
		t.Fatalf("the second large request got %v, want %v", err, ErrMemory)
	}
	second.Release()
	first.Release()
	if got := budget.left.Load(); got != 100<<10 {
		t.Errorf("after the release %d bytes are left, want all", got)
	}
	if _, err := first.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
}

func TestManySmallArgumentsCountAgainstTheBudget(t *testing.T) {
	in := "*60000\r\n" + strings.Repeat("$1\r\nx\r\n", 60000)
	budget := NewBudget(1 << 20)
	if _, err := NewReader(strings.NewReader(in), budget, testLimits()).Next(); !errors.Is(err, ErrMemory) {
		t.Errorf("60,000 arguments got %v, want %v", err, ErrMemory)
	}
}

func TestReadyTellsWhetherACommandHasArrived(t *testing.T) {
	const whole = "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
	for n := range len(whole) {
		if complete([]byte(whole[:n])) {
			t.Errorf("%q counts as whole", whole[:n])
		}
	}
	for _, in := range []string{whole, whole + "*", "PING\n", "*x\r\n", "*1\r\n*", "\r\n" + whole, "*0\r\n" + whole} {
		if !complete([]byte(in)) {
			t.Errorf("%q does not count as whole", in)
		}
	}
	for _, in := range []string{"", "PING", "*0\r\n", "\r\n", " \n\n", "*1\r\n$"} {
		if complete([]byte(in)) {
			t.Errorf("%q counts as whole", in)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) {
		for _, l := range []Limits{testLimits(), Anonymous()} {
			budget := NewBudget(testBudget)
			r := NewReader(bytes.NewReader(in), budget, l)
			var commands [][][]byte
			var err error
			for err == nil {
				var args [][]byte
				ready := r.Ready()
				args, err = r.Next()
				if ready && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)) {
					t.Errorf("Next had to wait although Ready said that it would not: %v", err)
				}
				total := 0
				for _, arg := range args {
					total += len(arg)
					if len(arg) > max(l.Bulk, l.Inline) {
						t.Errorf("an argument of %d bytes passed", len(arg))
					}
				}
				if len(args) > l.Args || total > max(l.Total, l.Inline) {
					t.Errorf("%d arguments of %d bytes passed", len(args), total)
				}
				if err == nil {
					commands = append(commands, args)
				}
			}
			r.Release()
			if left := budget.left.Load(); left != testBudget {
				t.Errorf("%d bytes of the budget are left, want %d", left, testBudget)
			}
			slow, slowErr := readAll(iotest.OneByteReader(bytes.NewReader(in)), l)
			if shown(slow) != shown(commands) || slowErr.Error() != err.Error() && !errors.Is(err, ErrMemory) {
				t.Errorf("byte by byte: %q, %v; at once: %q, %v", shown(slow), slowErr, shown(commands), err)
			}
		}
	})
}
