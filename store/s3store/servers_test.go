//go:build servers

package s3store

import (
	"os"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store/conn"
)

// The real servers are those of docs/servers.md, one with TLS and one without:
// `go run ./deploy/servers up s3`, and with --secure --prefix MAYFLY_SECURE. Without
// them a test of the files with this build tag fails.
const (
	plainServer  = "MAYFLY_TEST_S3"
	secureServer = "MAYFLY_SECURE_S3"
)

func realServer(t testing.TB) Options { return serverAt(t, plainServer) }

// serverAt are the options for the server that the environment names.
func serverAt(t testing.TB, name string) Options {
	t.Helper()
	o := Options{
		Endpoint: os.Getenv(name), Region: os.Getenv(name + "_REGION"),
		Credentials: conn.Credentials{User: os.Getenv(name + "_KEY"), Password: mayfly.Secret(os.Getenv(name + "_SECRET"))},
	}
	if o.Endpoint == "" {
		t.Fatalf("%s is not set: docs/servers.md says how to start the server", name)
	}
	if file := os.Getenv(name + "_CA"); file != "" {
		var err error
		if o.CA, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	return o
}
