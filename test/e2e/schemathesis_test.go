package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// fuzzed is how long schemathesis may take for each who asks.
const fuzzed = 25 * time.Second

// O5: whatever schemathesis makes of the document, no answer is 5xx, and every
// answer is one that the document declares: its status, its type, its shape. As a
// user and without a token. MAYFLY_SEED=n sends the same again.
func TestWhatIsMadeOfTheDocumentIsAnsweredAsItSays(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about a minute")
	}
	found, err := exec.Command("../../scripts/schemathesis", "--built").Output()
	if err != nil {
		t.Skip("schemathesis is not there: run scripts/setup-test")
	}
	seed := os.Getenv("MAYFLY_SEED")
	if seed == "" {
		seed = strconv.Itoa(rand.IntN(1 << 30))
	}
	for _, as := range []string{"ana", ""} {
		t.Run(map[string]string{"ana": "a user", "": "anonymous"}[as], func(t *testing.T) {
			h := openBadServer(t, badConfig(t))
			report := h.fuzz(strings.TrimSpace(string(found)), as, seed)
			sum := regexp.MustCompile(`\d+ generated[^\n]*`).FindString(report)
			if sum == "" {
				t.Errorf("nothing was generated:\n%s", report)
			}
			t.Logf("seed %s: %s", seed, sum)
			h.answers()
		})
	}
}

// fuzz runs schemathesis with a user's token or none, and returns its output.
func (h *badServer) fuzz(path, as, seed string) string {
	h.Helper()
	ctx, stop := context.WithTimeout(h.Context(), 4*fuzzed)
	defer stop()
	args := []string{
		"run", "http://" + h.api + "/openapi.json", "--no-color", "--seed", seed, "--max-time", strconv.Itoa(int(fuzzed / time.Second)),
		"--phases", "examples,coverage,fuzzing", "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance",
		"--generation-database", ":memory:", "--request-timeout", "10", "--continue-on-failure", "--no-shrink", "--warnings", "off",
	}
	if as != "" {
		args = append(args, "--header", "Authorization: Bearer "+h.bearer(as))
	}
	run := exec.CommandContext(ctx, path, args...)
	run.Dir = h.TempDir()
	run.Env = append(os.Environ(), "HOME="+run.Dir, "HYPOTHESIS_STORAGE_DIRECTORY="+filepath.Join(run.Dir, "hypothesis"), "NO_PROXY=127.0.0.1")
	out, err := run.CombinedOutput()
	text := strings.ReplaceAll(string(out), h.api, "stories.example.org")
	if err != nil {
		h.Errorf("seed %s: %v\n%s", seed, err, text)
	}
	return text
}
