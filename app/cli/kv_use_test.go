package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

func TestKVVerbsTakeAKeyThroughItsLife(t *testing.T) {
	r := startServer(t, filepath.Join(t.TempDir(), "data"))
	t.Setenv("MAYFLY_SERVER", r.api)
	key := strings.TrimSpace(r.run(exitOK, "mfkv_", "kv", "namespace", "add", "cache", "--default-ttl", "1h", "--user", "ana"))
	r.run(exitConflict, "is taken", "kv", "namespace", "add", "cache", "--user", "ben")
	r.run(exitUsage, "", "kv", "namespace", "add", "Cache", "--user", "ana")
	r.run(exitOK, "cache", "kv", "namespace", "list", "--user", "ana")

	r.run(exitOK, "greeting expires ", "kv", "set", "cache", "greeting", "hello", "--ttl", "60s", "--user", "ana")
	r.run(exitOK, "hello", "kv", "get", "cache", "greeting", "--token", key)
	if left := r.run(exitOK, "ms", "kv", "ttl", "cache", "greeting", "--token", key); !strings.HasPrefix(left, "59") && !strings.HasPrefix(left, "5") {
		t.Errorf("%s are left", left)
	}
	r.run(exitOK, "", "kv", "ttl", "cache", "greeting", "--ttl", "2h", "--token", key)
	r.run(exitOK, "never", "kv", "ttl", "cache", "greeting", "--ttl", "never", "--token", key)
	r.run(exitConflict, "If-None-Match", "kv", "set", "cache", "greeting", "other", "--if-absent", "--token", key)
	r.run(exitUsage, "such as 60s", "kv", "set", "cache", "greeting", "other", "--ttl", "soon", "--token", key)
	r.run(exitUsage, "such as 60s", "kv", "set", "cache", "greeting", "other", "--ttl", "0s", "--token", key)
	r.run(exitUsage, "--ttl and --keep exclude", "kv", "set", "cache", "greeting", "other", "--ttl", "1s", "--keep", "--token", key)

	bytesOf := "\x00\xff a value\n"
	var out, log bytes.Buffer
	root := newRoot()
	root.SetArgs([]string{"kv", "set", "cache", "odd\x01key", "-", "--token", key})
	root.SetIn(strings.NewReader(bytesOf))
	root.SetOut(&out)
	root.SetErr(&log)
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v: %s", err, &log)
	}
	if got := r.run(exitOK, "", "kv", "get", "cache", "odd\x01key", "--token", key); got != bytesOf {
		t.Errorf("read %q", got)
	}
	if got := r.run(exitOK, "", "kv", "scan", "cache", "--token", key); got != "greeting\n\"odd\\x01key\"\n" {
		t.Errorf("listed %q", got)
	}
	r.run(exitOK, `"version"`, "kv", "scan", "cache", "gr", "--json", "--token", key)

	r.run(exitOK, "", "kv", "del", "cache", "greeting", "none", "--token", key)
	r.run(exitWrong, `no key "greeting" in cache`, "kv", "get", "cache", "greeting", "--token", key)
	r.run(exitWrong, "there is no such namespace", "kv", "get", "cache", "greeting", "--user", "ben")
	r.run(exitWrong, "--user NAME", "kv", "get", "cache", "greeting")

	second := strings.TrimSpace(r.run(exitOK, "mfkv_", "kv", "namespace", "key", "add", "cache", "--user", "ana"))
	r.run(exitConflict, "has 2 keys", "kv", "namespace", "key", "add", "cache", "--user", "ana")
	r.run(exitWrong, "there is no key AAAAAAAA", "kv", "namespace", "key", "remove", "cache", "AAAAAAAA", "--user", "ana")
	r.run(exitOK, "", "kv", "scan", "cache", "--token", second)
	r.run(exitWrong, "there is no namespace cache", "kv", "namespace", "drop", "cache", "--user", "ben")
	r.run(exitOK, "cache is removed", "kv", "namespace", "drop", "cache", "--user", "ana")
	r.run(exitWrong, "there is no such namespace", "kv", "scan", "cache", "--token", second)
	if strings.Contains(r.log.String(), "mfkv_") || strings.Contains(r.log.String(), "greeting") {
		t.Error("a key is in the log")
	}
}
