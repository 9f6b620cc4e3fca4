package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSlotsOfANodeAreDetected(t *testing.T) {
	const line = "07c37df 127.0.0.1:21000@21001 myself,master - 0 0 1 connected"
	if hasSlots(line+"\n") || !hasSlots("other 127.0.0.1:2@3 master - 0 0 1 connected\n"+line+" 0-5460\n") {
		t.Error("slots are not read")
	}
}

func TestCertificatesAreValidForLoopbackAndOneCA(t *testing.T) {
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
	dial := func(s server) error {
		config, err := s.tls()
		if err != nil {
			return err
		}
		c, err := tls.Dial("tcp", l.Addr().String(), config)
		if err != nil {
			return err
		}
		return c.Close()
	}
	if err := dial(s); err != nil {
		t.Fatal(err)
	}
	if dial(other) == nil {
		t.Fatal("the certificate of another server is trusted")
	}
	info, err := os.Stat(s.pem("key"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("others may read the key: %v, %v", info.Mode(), err)
	}
}
