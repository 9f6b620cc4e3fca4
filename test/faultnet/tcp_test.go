package faultnet

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// echo starts a server that sends its name and then what it receives.
func echo(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					text, err := in.ReadString('\n')
					if err != nil {
						return
					}
					if _, err := c.Write([]byte(name + " " + text)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestALineSwallowsRestoresLosesAndTurns(t *testing.T) {
	line := NewLine(t, echo(t, "one"))
	dial := func() (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", line.Address())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() }) // the line may have
		return c, bufio.NewReader(c)
	}
	say := func(c net.Conn, text string) {
		t.Helper()
		if _, err := c.Write([]byte(text + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	hears := func(c net.Conn, in *bufio.Reader, within time.Duration, want string) {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		if got, err := in.ReadString('\n'); err != nil || got != want+"\n" {
			t.Errorf("heard %q, %v, want %q", got, err, want)
		}
	}
	c, in := dial()
	say(c, "a")
	hears(c, in, 10*time.Second, "one a")

	line.Swallow()
	say(c, "b")
	if err := c.SetReadDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Peek(1); err == nil {
		t.Error("nothing was swallowed")
	}
	line.Restore()
	hears(c, in, 10*time.Second, "one b")

	for _, d := range []Direction{Request, Answer} {
		c, in := dial()
		line.Lose(d, 0)
		say(c, "lost")
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := in.ReadByte(); err == nil {
			t.Error("an answer came although it was lost on the way")
		}
	}
	if line.Lost() != 2 {
		t.Errorf("%d losses, want 2", line.Lost())
	}

	line.Turn(echo(t, "two"))
	if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := in.ReadByte(); err == nil {
		t.Error("a connection outlived the turn")
	}
	c, in = dial()
	say(c, "c")
	hears(c, in, 10*time.Second, "two c")
}
