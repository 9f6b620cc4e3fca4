package account_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

func TestAKeyIsMadeAtFirstStartForItsOwnerAloneAndReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secrets", "deep", "key")
	first, err := account.LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	again, err := account.LoadKey(path)
	if err != nil || !again.Public().Equal(first.Public()) || again.ID() != first.ID() {
		t.Fatalf("another key: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Fatalf("left in the folder: %v, %v", entries, err)
	}
	if other := newKey(t); other.Public().Equal(first.Public()) {
		t.Fatal("two first starts made the same key")
	}
}

func TestProcessesThatStartAtOnceAgreeOnOneKey(t *testing.T) {
	for range 20 {
		path := filepath.Join(t.TempDir(), "key")
		keys, begin := make([]*account.Key, 8), make(chan struct{})
		var wg sync.WaitGroup
		for i := range keys {
			wg.Go(func() {
				<-begin
				var err error
				if keys[i], err = account.LoadKey(path); err != nil {
					t.Error(err)
				}
			})
		}
		close(begin)
		wg.Wait()
		for _, k := range keys {
			if k == nil || !k.Public().Equal(keys[0].Public()) {
				t.Fatal("they do not agree")
			}
		}
	}
}

func TestAKeyFileThatOthersMayReachIsRefusedWithWhatToRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if _, err := account.LoadKey(path); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o640, 0o604, 0o620, 0o601} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := account.LoadKey(path); !errors.Is(err, mayfly.Invalid) || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("%s: %v", mode, err)
		}
	}
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	if _, err := account.LoadKey(path); err != nil {
		t.Error(err)
	}
}

func TestAFileThatHoldsNoKeyIsRefusedAndNotReplaced(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "short": "\x01abc", "of another format": "\x02" + strings.Repeat("x", 32), "long": "\x01" + strings.Repeat("x", 33),
	} {
		path := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := account.LoadKey(path); !errors.Is(err, mayfly.Corrupt) {
			t.Errorf("%s: %v", name, err)
		}
		if left, err := os.ReadFile(path); err != nil || string(left) != content {
			t.Errorf("%s: it was replaced", name)
		}
	}
	if _, err := account.LoadKey(t.TempDir()); !errors.Is(err, mayfly.Invalid) {
		t.Errorf("a folder: %v", err)
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	key, err := account.LoadKey(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := open(t, func(o *account.Options) { o.Key = key })
	access, refresh, err := h.accounts.Issue(t.Context(), ana(), "ana", start)
	h.must(err)
	seed := file[1:]
	secrets := []string{
		string(access), string(refresh), string(access)[len(access)-20:], string(refresh)[len(refresh)-20:],
		string(seed), fmt.Sprintf("%x", seed), fmt.Sprintf("%X", seed), fmt.Sprint(seed), base64.StdEncoding.EncodeToString(seed)[:30], base64.RawURLEncoding.EncodeToString(seed),
		strings.Trim(fmt.Sprint(seed), "[]"), strings.Trim(strings.ReplaceAll(fmt.Sprintf("%#v", seed), " ", ""), "[]byte{}"),
	}
	type nested struct {
		Key    *account.Key
		Value  account.Key
		Access account.Token
		Tokens []account.Token
		Named  map[string]account.Token
	}
	values := []any{key, *key, access, refresh, &refresh, nested{key, *key, access, []account.Token{refresh}, map[string]account.Token{"x": access}}}
	var out bytes.Buffer
	text, lines := slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))
	for _, v := range values {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		fmt.Fprintln(&out, v)
		b, err := json.Marshal(v)
		h.must(err)
		out.Write(b)
		text.Info("it", "value", v)
		lines.Info("it", "value", v)
		text.Info(fmt.Sprint(mayfly.Errorf(mayfly.Invalid, "with %v", v)))
	}
	printed := strings.ReplaceAll(out.String(), " ", "")
	for _, secret := range secrets {
		if strings.Contains(out.String(), secret) || strings.Contains(printed, strings.ReplaceAll(secret, " ", "")) {
			t.Fatalf("printed: %.200s", out.String())
		}
	}
	if !strings.Contains(out.String(), "[redacted]") {
		t.Fatal("nothing was printed")
	}
}
