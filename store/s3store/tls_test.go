package s3store

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
)

func TestACertificateIsTrustedOnlyWithItsCA(t *testing.T) {
	server := httptest.NewTLSServer(gofakes3.New(s3mem.New()).Server())
	t.Cleanup(server.Close)
	o := quick(Options{Endpoint: server.URL, Credentials: conn.Credentials{User: "ana", Password: "secret"}})
	_, err := tier(t, connect(t, o), TierOptions{Bucket: "hot"}).Put(t.Context(), "00/x", strings.NewReader("x"))
	wantKind(t, mayfly.Unavailable, err)
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("the error does not speak of the certificate: %v", err)
	}
	o.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s := connect(t, o)
	hot := tier(t, s, TierOptions{Bucket: freshBucket(t, s)})
	mustPut(t, hot, "00/x", []byte("x"))
	wantContent(t, hot, "00/x", []byte("x"))
}
