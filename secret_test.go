package mayfly_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestASecretIsNeverPrinted(t *testing.T) {
	const word = "anas-own-password"
	type within struct{ Password mayfly.Secret }
	in := within{word}
	var shown bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&shown, verb+verb, in, &in.Password)
		fmt.Fprintf(&shown, verb, in.Password)
	}
	slog.New(slog.NewTextHandler(&shown, nil)).Info("opened", "in", in, "password", in.Password)
	slog.New(slog.NewJSONHandler(&shown, nil)).Info("opened", "in", in, "password", in.Password)
	if err := json.NewEncoder(&shown).Encode(in); err != nil {
		t.Fatal(err)
	}
	if text := shown.String(); strings.Contains(text, word) || strings.Contains(text, fmt.Sprintf("%x", word)) || !strings.Contains(text, "(hidden)") {
		t.Fatal(text)
	}
	if in.Password.Reveal() != word || mayfly.Secret("").String() != "" {
		t.Fatal("what it holds is not what was put in")
	}
}
