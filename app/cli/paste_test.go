package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestThePasswordOfAPasteIsTheFirstLineOfAFile(t *testing.T) {
	for text, want := range map[string]string{"secret\nmore": "secret", "secret\r\n": "secret", "secret": "secret", "": ""} {
		file := filepath.Join(t.TempDir(), "password")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := passwordIn(file); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	if _, err := passwordIn("/nonexistent"); err == nil || !strings.Contains(err.Error(), "nonexistent") {
		t.Errorf("a file that is not there: %v", err)
	}
}
