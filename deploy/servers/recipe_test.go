package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTokensDivideTheRingEqually(t *testing.T) {
	// The usual tokens of a ring of three.
	for i, want := range []int64{-9223372036854775808, -3074457345618258603, 3074457345618258602} {
		if got := token(i, 3); got != want {
			t.Errorf("token %d of 3 is %d, not %d", i, got, want)
		}
	}
	if token(0, 1) != 0 {
		t.Errorf("the token of a single node is %d", token(0, 1))
	}
	for n := 2; n <= 9; n++ {
		for i := 1; i < n; i++ {
			if share := uint64(token(i, n)) - uint64(token(i-1, n)); share != math.MaxUint64/uint64(n) {
				t.Errorf("node %d of %d has %d of the ring", i-1, n, share)
			}
		}
	}
}

func TestEveryHashSlotHasOneMaster(t *testing.T) {
	for n := 1; n <= 5; n++ {
		next := 0
		for i := range n {
			first, last := slots(i, n)
			if first != next || last < first {
				t.Errorf("master %d of %d has %d to %d, after %d", i, n, first, last, next-1)
			}
			next = last + 1
		}
		if next != 16384 {
			t.Errorf("%d masters have %d slots", n, next)
		}
	}
}

func TestTemplatesNeedAllValues(t *testing.T) {
	server := func(secure bool) map[string]any {
		return map[string]any{
			"Address": "127.0.0.2", "Secure": secure, "KeyAndCertificate": "/x/both.pem", "Authority": "/x/authority.pem", "Data": "/x/data",
			"Token": 7, "Nodes": 3, "NoHints": secure, "Seeds": "127.0.0.1:21000,127.0.0.2:21000", "Storage": 21000, "CQL": 21001,
			"Client": 22000, "Broker": 22001, "Controller": 22002,
			"Port": 23000, "Bus": 23001, "Cluster": true, "User": "mayfly", "Password": "secret", "Certificate": "/x/certificate.pem", "Key": "/x/key.pem",
		}
	}
	for _, c := range []struct {
		template string
		secure   bool
		wants    []string
		not      string
	}{
		{"cassandra.yaml.tmpl", false, []string{"initial_token: '7'", "auto_bootstrap: false", "commitlog_sync: batch", "listen_address: 127.0.0.2", "native_transport_port: 21001"}, "hinted_handoff"},
		{"cassandra.yaml.tmpl", true, []string{"authenticator: PasswordAuthenticator", "keystore: /x/both.pem", "optional: false", "hinted_handoff_enabled: false"}, "AllowAll"},
		{"kafka.properties.tmpl", false, []string{"listeners=CLIENT://127.0.0.2:22000,CONTROLLER://127.0.0.2:22002", "log.retention.hours=720"}, "SASL"},
		{"kafka.properties.tmpl", true, []string{"CLIENT:SASL_SSL", "BROKER://127.0.0.2:22001"}, "CLIENT:PLAINTEXT"},
		{"redis.conf.tmpl", false, []string{"port 23000", "appendfsync always", "cluster-port 23001"}, "tls"},
		{"redis.conf.tmpl", true, []string{"port 0", "tls-port 23000", "user default off", "user mayfly on >secret"}, "\nport 23000"},
	} {
		file := filepath.Join(t.TempDir(), "filled")
		if err := fill(c.template, file, server(c.secure)); err != nil {
			t.Fatal(err)
		}
		filled, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.wants {
			if !strings.Contains(string(filled), want) {
				t.Errorf("%s (secure %v) lacks %q", c.template, c.secure, want)
			}
		}
		if strings.Contains(string(filled), c.not) {
			t.Errorf("%s (secure %v) has %q", c.template, c.secure, c.not)
		}
	}
	if err := fill("redis.conf.tmpl", filepath.Join(t.TempDir(), "filled"), map[string]any{"Address": "127.0.0.1"}); err == nil {
		t.Error("a template is filled although values are missing")
	}
}

func TestPomsNameExactVersionsAndTheListsMatchThem(t *testing.T) {
	for _, c := range []struct {
		name, jar string
		r         recipe
	}{
		{"cassandra", "cassandra-all-5.0.9.jar", cassandra{}},
		{"kafka", "kafka_2.13-4.3.1.jar", kafka{}},
	} {
		for _, version := range regexp.MustCompile(`<version>(.*)</version>`).FindAllStringSubmatch(string(text(c.name+"-pom.xml")), -1) {
			if !regexp.MustCompile(`^[0-9]+(\.[0-9]+)+$`).MatchString(version[1]) {
				t.Errorf("%s: %q is not one exact version", c.name, version[1])
			}
		}
		list, err := parseSums(text(c.name + "-jars.sha256"))
		if err != nil {
			t.Fatal(err)
		}
		if list[c.jar] == "" || !strings.Contains(c.jar, c.r.version()) {
			t.Errorf("%s is not on the list of %d, or the recipe says another version than %s", c.jar, len(list), c.r.version())
		}
	}
	if want := "github.com/versity/versitygw v" + (s3{}).version(); !strings.Contains(string(text("s3-go.mod")), want) {
		t.Errorf("s3-go.mod does not ask for %s", want)
	}
	for _, broken := range []string{"abc  x.jar", fmt.Sprintf("%064d  ../x.jar", 0), "x.jar"} {
		if _, err := parseSums([]byte(broken)); err == nil {
			t.Errorf("%q is accepted as a checksum line", broken)
		}
	}
}

func TestAChangedListChangesTheCacheFolder(t *testing.T) {
	one, _ := cassandra{}.software(cache{})
	j := jars{name: "cassandra", version: "5.0.9", list: append(text("cassandra-jars.sha256"), '\n')}
	if other := j.software(cache{}); other.name == one.name {
		t.Errorf("a changed list has the same folder, %s", one.name)
	}
	if key([]byte("ab"), []byte("c")) == key([]byte("a"), []byte("bc")) {
		t.Error("two sets have one key")
	}
}

func TestMajorVersionsAreParsed(t *testing.T) {
	for version, want := range map[string]int{
		`openjdk version "17.0.15" 2025-04-15`:          17,
		`openjdk version "1.8.0_442"`:                   1,
		"Redis server v=7.0.15 sha=00000000:0 bits=64":  7,
		"Picked up nothing.":                            0,
		`java version "21.0.1" 2023-10-17 LTS and more`: 21,
	} {
		if got, _ := major(version); got != want {
			t.Errorf("%q is version %d, not %d", version, got, want)
		}
	}
}
