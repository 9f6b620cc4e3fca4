package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"mime"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// operation is one operation of the served document.
type operation struct {
	id, method, path string
	admin            bool
	pattern          *regexp.Regexp
	spec             *openapi3.Operation
}

// documents are the operations of both listeners.
type documents []operation

// readDocument reads the OpenAPI document of a listener.
func readDocument(text []byte, admin bool) (documents, error) {
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, fmt.Errorf("the document cannot be read: %w", err)
	}
	places := regexp.MustCompile(`\{[a-z]+\}`)
	var all documents
	for path, item := range doc.Paths.Map() {
		compiled, err := regexp.Compile("^" + strings.ReplaceAll(places.ReplaceAllString(path, "[^/]+"), ".", `\.`) + "$")
		if err != nil {
			return nil, err
		}
		for method, spec := range item.Operations() {
			all = append(all, operation{id: spec.OperationID, method: method, path: path, admin: admin, pattern: compiled, spec: spec})
		}
	}
	slices.SortFunc(all, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	return all, nil
}

// find is the operation that a request is for.
func (d documents) find(r request) (operation, bool) {
	path, _, _ := strings.Cut(r.target, "?")
	literal := slices.ContainsFunc(d, func(op operation) bool { return op.admin == r.admin && op.path == path })
	for _, op := range d {
		if op.admin == r.admin && op.method == r.method && op.pattern.MatchString(path) && (op.path == path || !literal) {
			return op, true
		}
	}
	return operation{}, false
}

// documented says whether an answer is one that the document promises: its
// status, its type and the shape of its body.
func (d documents) documented(r request, a answer) error {
	op, ok := d.find(r)
	if !ok {
		return fmt.Errorf("no operation is documented for it")
	}
	declared := op.spec.Responses.Value(strconv.Itoa(a.status))
	if declared == nil {
		return fmt.Errorf("%s: status %d is not declared: %s", op.id, a.status, excerpt(a.body))
	}
	if a.header.Get("Mayfly-Request") == "" {
		return fmt.Errorf("%s: no request id", op.id)
	}
	if len(a.body) == 0 {
		return nil
	}
	typ, _, err := mime.ParseMediaType(a.header.Get("Content-Type"))
	if err != nil {
		return fmt.Errorf("%s: content type %q: %w", op.id, a.header.Get("Content-Type"), err)
	}
	content := declared.Value.Content.Get(typ)
	if content == nil {
		return fmt.Errorf("%s: %d with the type %s is not declared", op.id, a.status, typ)
	}
	if content.Schema == nil || !strings.HasSuffix(typ, "json") {
		return nil
	}
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		return fmt.Errorf("%s: %w", op.id, err)
	}
	if err := content.Schema.Value.VisitJSON(v, openapi3.VisitAsResponse()); err != nil {
		return fmt.Errorf("%s: %d: %w", op.id, a.status, err)
	}
	return nil
}

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
