package server

import (
	"net/http"
	"testing"

	"github.com/mayflyhq/mayfly/app/config"
)

func TestTheListenersAreLimited(t *testing.T) {
	l := config.Default().Listen
	l.API = "127.0.0.1:0"
	api, err := newListener(l, newConnMetrics("api"), http.NotFoundHandler(), discard())
	if err != nil {
		t.Fatal(err)
	}
	if s := api.server; s.ReadHeaderTimeout != l.HeaderWithin || s.IdleTimeout != l.IdleWithin || s.MaxHeaderBytes == 0 {
		t.Errorf("%+v", s)
	}
	both := &listeners{api: api}
	failed := both.serve()
	_ = api.listen.Close()
	if err := <-failed; err == nil {
		t.Error("a listener that fails is not reported")
	}
	if err := both.close(); err != nil {
		t.Error(err)
	}
}

func TestTheAdminFileNamesTheAdminAPI(t *testing.T) {
	data := t.TempDir()
	if err := writeAdminFile(data, "http://127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if url, err := AdminURL(data); url != "http://127.0.0.1:1" || err != nil {
		t.Errorf("%q %v", url, err)
	}
	if err := writeAdminFile(data, ""); err != nil { // a server without an admin API removes what a crash has left
		t.Fatal(err)
	}
	if url, err := AdminURL(data); url != "" || err != nil {
		t.Errorf("a server without an admin API has %q (%v)", url, err)
	}
}
