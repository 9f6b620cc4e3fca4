package pace

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// withoutDetector lists packages that start goroutines and yet do not run under
// the race detector, with the reason.
func withoutDetector() map[string]string {
	return map[string]string{
		"app/cli":                  "runs the packages below as whole processes",
		"app/progress":             "one goroutine that prints; run by bench and demo",
		"app/server":               "runs whole servers; app/node and api/httpapi run under the detector",
		"bench":                    "measures; its loops are those of the packages below",
		"demo":                     "runs a whole server",
		"deploy/servers":           "starts processes",
		"deploy/varnish":           "starts a process",
		"store/cassandrastore":     "needs a server",
		"store/kafkastore":         "needs a server",
		"store/redisstore":         "needs a server",
		"store/s3store":            "needs a server",
		"store/storetest":          "its suites run in the packages of the drivers",
		"test/faultnet":            "a proxy for tests that need a server",
		"test/fixture/browsertest": "needs a browser",
		"test/mutants":             "starts processes",
		"test/report":              "starts processes",
		"engine/erase":             "ten times as long under the detector; its goroutines are those of errgroup",
		"engine/restore":           "ten times as long under the detector; its goroutines are those of errgroup",
		"engine/remind":            "its passes run in app/node under the detector",
		"test/fixture/nodetest":    "used by packages that run under the detector",
	}
}

func TestEveryPackageThatStartsGoroutinesRunsUnderTheRaceDetector(t *testing.T) {
	const root = "../.."
	starts, marked := map[string]string{}, map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if _, module := os.Stat(filepath.Join(path, "go.mod")); module == nil && path != root {
			return filepath.SkipDir // another module, such as bench/peers, has its own tests
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		if d.Name() == "race_test.go" && strings.Contains(string(text), "//go:build race\n") {
			marked[folder] = true
		}
		if strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				starts[folder] = files.Position(n.Pos()).String()
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Go" {
					starts[folder] = files.Position(n.Pos()).String()
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder, where := range starts {
		if !marked[folder] && withoutDetector()[folder] == "" {
			t.Errorf("%s starts a goroutine: add a file race_test.go to %s (see engine/gate), or name it in withoutDetector", where, folder)
		}
	}
	if len(marked) == 0 {
		t.Error("no package runs under the race detector")
	}
}
