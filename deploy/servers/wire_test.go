package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// talk is a connection whose other side has already said everything.
type talk struct {
	bytes.Buffer
	answer *bytes.Reader
}

func (t *talk) Read(p []byte) (int, error) { return t.answer.Read(p) }

func kafkaSays(body ...byte) []byte {
	frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(body)))
	return append(binary.BigEndian.AppendUint32(frame, 7), body...)
}

func TestABrokerThatIsNotLetInYetIsNotReady(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer []byte
		ready  bool
	}{
		{"one broker", kafkaSays(0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1), true},
		{"no broker", kafkaSays(0, 0, 0, 0, 0, 0, 0, 0), false},
		{"cut off", kafkaSays(0, 0, 0, 0, 0, 0, 0, 1)[:9], false},
		{"not Kafka", []byte("HTTP/1.1 400 Bad Request\r\n\r\n"), false},
	} {
		if err := askBrokers(&talk{answer: bytes.NewReader(c.answer)}); (err == nil) != c.ready {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := askVersions(&talk{answer: bytes.NewReader(kafkaSays(0, 35))}); err == nil {
		t.Error("a refusal passes for an answer")
	}
}

func TestCellsOfRowsAreRead(t *testing.T) {
	result := []byte{
		0, 0, 0, 2, // rows
		0, 0, 0, 5, // no metadata, one table
		0, 0, 0, 1, // column
		0, 0, 0, 2, // rows
		0, 0, 0, 2, 'o', 'k',
		0xff, 0xff, 0xff, 0xff, // null
	}
	rows, err := parseRows(result)
	if err != nil || len(rows) != 2 || string(rows[0][0]) != "ok" || rows[1][0] != nil {
		t.Fatalf("%q, %v", rows, err)
	}
	for cut := 4; cut < len(result); cut++ {
		if _, err := parseRows(result[:cut]); err == nil {
			t.Errorf("an answer cut after %d bytes passes", cut)
		}
	}
	if rows, err := parseRows([]byte{0, 0, 0, 5}); err != nil || rows != nil {
		t.Errorf("a schema change has rows %q, %v", rows, err)
	}
}

func TestAnErrorInCQLIsAnError(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		defer there.Close()
		var request [9]byte
		if _, err := there.Read(request[:]); err == nil {
			_, _ = there.Write([]byte("\x84\x00\x00\x00\x00\x00\x00\x00\x0a\x00\x00\x10\x01\x00\x04busy"))
		}
	}()
	if _, err := (&cqlConn{here}).ask(cqlOptions, nil, cqlSupported); err == nil || !strings.Contains(err.Error(), "busy") {
		t.Fatalf("%v", err)
	}
}

func TestAnswersOfRedisAreRead(t *testing.T) {
	for text, want := range map[string]string{"+PONG\r\n": "PONG", "$5\r\na\r\nbc\r\n": "a\r\nbc"} {
		if got, err := redisAnswer(bufio.NewReader(strings.NewReader(text))); err != nil || got != want {
			t.Errorf("%q is read as %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-LOADING wait\r\n", "$-1\r\n", "$9\r\nshort", "HTTP/1.1 400\r\n"} {
		if got, err := redisAnswer(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%q is read as %q", text, got)
		}
	}
	if got := string(redisCommand("PING", "é")); got != "*2\r\n$4\r\nPING\r\n$2\r\né\r\n" {
		t.Errorf("a command is written as %q", got)
	}
}

func TestANodeThatHasSlotsIsNotGivenThemAgain(t *testing.T) {
	const line = "07c37df 127.0.0.1:21000@21001 myself,master - 0 0 1 connected"
	if hasSlots(line+"\n") || !hasSlots("other 127.0.0.1:2@3 master - 0 0 1 connected\n"+line+" 0-5460\n") {
		t.Error("slots are not read")
	}
}

func TestASignatureIsWhatAnotherImplementationComputes(t *testing.T) {
	// The keys and the date are those of the published examples; the signature was
	// computed by another implementation, in another language.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:7070/", nil)
	if err != nil {
		t.Fatal(err)
	}
	signV4(r, "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
	if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature=2a15eb693bf86413dbb92034e7d2f4954b2d387a6a5363647fd5b00665890896") {
		t.Error(got)
	}
}

func TestCertificatesHoldForLoopbackAndForNoOtherAuthority(t *testing.T) {
	make := func() server {
		folder := t.TempDir()
		s := server{Name: "kafka", Secure: true, Nodes: []node{{Folder: filepath.Join(folder, "1")}}}
		if err := makeSecrets(&s, time.Now()); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s, other := make(), make()
	if s.Secrets.Password == other.Secrets.Password {
		t.Error("two servers have one password")
	}
	pair, err := tls.LoadX509KeyPair(s.pem("both"), s.pem("both"))
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	c, err := dial(t.Context(), s, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if _, err := dial(t.Context(), other, l.Addr().String()); err == nil {
		t.Fatal("the certificate of another server is trusted")
	}
	info, err := os.Stat(s.pem("key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("others may read the key: %v, %v", info.Mode(), err)
	}
}
