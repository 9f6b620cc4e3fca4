package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mayflyhq/mayfly/app/config"
)

func TestConfigPrintsAValidConfiguration(t *testing.T) {
	r, _ := testRunner(t, "config")
	startPing(t, r)
	if err := r.config(); err == nil {
		t.Fatal("config succeeds with Redis only")
	}
	found := map[string]string{
		"CASSANDRA": "127.0.0.1:9042,127.0.0.2:9042", "COPIES": "2", "CASSANDRA_USER": "mayfly", "CASSANDRA_PASSWORD": `a "b: c`, "CASSANDRA_CA": "/x/ca.pem",
		"KAFKA": "127.0.0.1:9092", "REDIS": "127.0.0.1:6379",
		"S3": "http://127.0.0.1:7070", "S3_REGION": "us-east-1", "S3_BUCKET": "mayfly", "S3_KEY": "k", "S3_SECRET": "s",
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(file, []byte(configOf("/tmp/state", found)), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Sources{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Cassandra.Hosts) != 2 || c.Cassandra.Copies != 2 || c.Cassandra.Password.Reveal() != `a "b: c` || !c.Cassandra.TLS || c.Kafka.TLS || c.S3.Hot != "mayfly/hot" {
		t.Fatalf("%+v", c)
	}
}
