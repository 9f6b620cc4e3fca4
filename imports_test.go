package mayfly_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This page holds the house in shape: who may import whom, who may read the
// clock, what may live at package level. Each line carries its reason, and the
// reason is what a violation prints. Tests are free to import what they need.

const module = "github.com/mayflyhq/mayfly"

// The layers. A package is named by its path below the module; "." is the root.
// The functions return fresh lists, so that a rule can append to them.
func base() []string  { return []string{".", "store", "loop"} }
func early() []string { return []string{"walk", "remind", "audit", "erase"} }
func engine() []string {
	return append(early(), "intake", "gate", "sweep", "archive", "hydrate", "restore", "edge", "deliver")
}
func products() []string { return []string{"story", "feed", "paste", "kv", "account"} }
func drivers() []string {
	return []string{
		"store/pebblestore", "store/diskstore", "store/memstore",
		"store/cassandrastore", "store/redisstore", "store/kafkastore", "store/s3store",
	}
}

// rule says what the packages of one line may import of ours, outside of tests.
type rule struct {
	packages []string
	may      []string
	inFiles  string   // files of the package whose name begins with one of these words (a|b) …
	mayAlso  []string // … may import these too
	stdOnly  bool     // nothing of others but the standard library
	reason   string
}

func rules() []rule {
	all := slices.Concat([]string{"."}, []string{"store", "loop", "clock", "wire", "config", "media"}, engine(), products(),
		[]string{"httpapi", "resp", "web", "client", "node", "profile"}, drivers(), []string{"store/diskfs", "store/storetest"})
	return []rule{
		{packages: []string{"."}, stdOnly: true, reason: "the root is vocabulary: standard library only, no I/O"},
		{packages: []string{"store", "loop", "wire", "config"}, may: []string{"."}, reason: "contracts and small tools know the vocabulary and nothing else"},
		{packages: []string{"media"}, may: []string{"."}, reason: "what untrusted bytes are is told by the bytes alone"},
		{packages: []string{"clock"}, may: []string{".", "store"}, reason: "the clock's mark is a row; otherwise it knows the vocabulary and nothing else"},
		{packages: []string{"store/diskfs"}, may: []string{".", "store", "loop"}, reason: "the file system below the drivers knows none of them"},
		{packages: drivers(), may: []string{".", "store", "loop", "store/diskfs"}, reason: "a driver knows its contract, not who uses it"},
		{packages: []string{"store/storetest"}, may: []string{".", "store"}, reason: "a suite is written against the contract, so that every driver can be held to it"},

		{packages: []string{"walk"}, may: base(), reason: "the walker is the bottom of the engine"},
		{packages: []string{"remind"}, may: append(base(), "walk"), reason: "reminders are walked; they know no step they remind of"},
		{packages: []string{"audit"}, may: append(base(), "walk", "remind"), reason: "the audit log is below everything that is audited"},
		{packages: []string{"erase"}, may: append(base(), "walk", "remind", "audit"), reason: "there is one eraser, and the steps call it, not the reverse"},
		{
			packages: []string{"intake", "gate", "sweep", "archive", "restore", "edge", "deliver"}, may: append(base(), early()...),
			reason: "the steps of a life meet in the row or in the log, not by calls to each other",
		},
		{packages: []string{"hydrate"}, may: append(base(), "media"), reason: "it reads media, and makes smaller pictures of them"},
		{packages: products(), may: append([]string{".", "store", "loop", "media"}, engine()...), reason: "a product is written on the engine and on Rows, and knows no other product"},

		{
			packages: []string{"httpapi", "resp", "web"}, may: append([]string{".", "wire", "clock", "media", "gate", "hydrate"}, products()...),
			inFiles: "admin", mayAlso: append(base(), engine()...),
			reason: "the doors talk to products, in the words of the gate; only the admin routes reach into the engine",
		},
		{packages: []string{"client"}, may: []string{".", "wire"}, reason: "whoever imports the client gets no server with it"},
		{
			packages: []string{"node"},
			may:      slices.Concat(base(), []string{"clock", "wire", "config", "media"}, engine(), products(), []string{"httpapi", "resp", "web"}),
			reason:   "a node takes a store.Set: which drivers are in it is the profile's business",
		},
		{packages: []string{"profile"}, may: append([]string{".", "config", "store", "store/diskfs"}, drivers()...), reason: "the profile is the one visible switch between drivers, and nothing else"},
		{
			packages: []string{"cli"}, may: []string{".", "config", "profile", "node", "client", "wire", "clock"},
			inFiles: "bench|demo|desk|worker", mayAlso: slices.Concat(base(), engine(), products()),
			reason: "verbs talk to a node or a server; only bench, demo, the desk (on a stopped folder) and the worker that tests kill drive the engine in process",
		},
		{packages: []string{"cmd/mayfly"}, may: []string{"cli"}, stdOnly: true, reason: "main calls cli, nothing else"},

		{packages: []string{"sim", "e2e", "e2e/cluster"}, may: all, reason: "whole-system tests see everything below the command line"},
		{packages: []string{"deploy/servers", "scripts/report", "mutants"}, stdOnly: true, reason: "tools beside the product stand alone"},
	}
}

type library struct {
	prefixes []string
	users    []string
	reason   string
}

// libraries says who may import which third-party code, outside of tests. What
// is not listed is free above the root.
func libraries() []library {
	return []library{
		{[]string{"github.com/cockroachdb/pebble"}, []string{"store/pebblestore", "store/diskstore", "store/diskfs", "store/storetest"}, "Pebble and its file system stay behind the contracts; storetest breaks them from below"},
		{[]string{"github.com/apache/cassandra-gocql-driver", "github.com/gocql/gocql"}, []string{"store/cassandrastore"}, "one client library, one driver"},
		{[]string{"github.com/redis/rueidis"}, []string{"store/redisstore"}, "one client library, one driver"},
		{[]string{"github.com/twmb/franz-go"}, []string{"store/kafkastore"}, "one client library, one driver"},
		{[]string{"github.com/minio/minio-go"}, []string{"store/s3store"}, "one client library, one driver"},
		{append(testOnly(), "testing"), []string{"store/storetest", "sim", "e2e"}, "test libraries are for tests"},
	}
}

// testOnly are the libraries that the product must not link.
func testOnly() []string {
	return []string{
		"pgregory.net/rapid", "go.uber.org/goleak", "github.com/anishathalye/porcupine", "github.com/Shopify/toxiproxy",
		"github.com/chromedp", "github.com/alicebob/miniredis", "github.com/johannesboyne/gofakes3",
		"github.com/twmb/franz-go/pkg/kfake", "github.com/getkin/kin-openapi",
	}
}

type selector struct {
	from   string
	names  []string
	users  func(pkg string) bool
	reason string
}

// selectors says who may use certain names of a package, outside of tests.
func selectors() []selector {
	return []selector{
		{"time", []string{"Now", "Since", "Until"}, func(pkg string) bool {
			return slices.Contains([]string{
				"clock", "loop", "cli",
				"httpapi", "resp", // to measure durations; what time it is they ask the node's clock
				"scripts/report", "mutants", "deploy/servers", "e2e", "store/storetest", // not the product
			}, pkg)
		}, "now is an argument: one clock decides births, gate and walks (L7)"},
		{module + "/store", []string{"Blobs", "Ledger"}, func(pkg string) bool {
			return !slices.Contains([]string{"story", "feed", "paste", "account"}, pkg)
		}, "a product touches media and ledger only through intake, gate, hydrate, erase, restore"},
	}
}

func TestEveryPackageIsInTheTable(t *testing.T) {
	for imported := range strings.FieldsSeq(goList(t, "-e", "./...")) {
		pkg, _ := below(imported)
		if _, known := ruleOf(pkg); !known {
			t.Errorf("package %s is not in the table: add it to rules() in imports_test.go, with what it may import and why", pkg)
		}
	}
}

func TestEveryImportIsAllowed(t *testing.T) {
	for _, f := range sources(t) {
		r, _ := ruleOf(f.pkg)
		may := r.may
		if r.inFiles != "" && regexp.MustCompile("^("+r.inFiles+")").MatchString(path.Base(f.name)) {
			may = append(slices.Clone(may), r.mayAlso...)
		}
		for _, imported := range f.imports() {
			own, ours := below(imported)
			switch {
			case ours && !slices.Contains(may, own):
				t.Errorf("%s: %s may not import %s: %s", f.name, f.pkg, own, r.reason)
			case !ours && r.stdOnly && strings.Contains(imported, "."):
				t.Errorf("%s: %s may not import %s: %s", f.name, f.pkg, imported, r.reason)
			}
			for _, l := range libraries() {
				if hasPath(l.prefixes, imported) && !slices.Contains(l.users, f.pkg) {
					t.Errorf("%s: %s may not import %s: %s", f.name, f.pkg, imported, l.reason)
				}
			}
		}
	}
}

func TestNamesAreUsedOnlyWhereTheyMay(t *testing.T) {
	for _, f := range sources(t) {
		for _, s := range selectors() {
			local := f.localName(s.from)
			if local == "" || s.users(f.pkg) {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				sel, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && slices.Contains(s.names, sel.Sel.Name) {
					t.Errorf("%s: %s.%s in %s: %s", f.at(sel.Pos()), local, sel.Sel.Name, f.pkg, s.reason)
				}
				return true
			})
		}
	}
}

func TestNothingVariableLivesAtPackageLevel(t *testing.T) {
	for _, f := range sources(t) {
		for _, decl := range f.syntax.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				if !mayLiveAtPackageLevel(d, v) {
					t.Errorf("%s: var %s: package level is for error kinds, metrics, embedded files and interface assertions; hand it in, or make it a const or a function", f.at(v.Pos()), v.Names[0].Name)
				}
			}
		}
	}
}

func mayLiveAtPackageLevel(d *ast.GenDecl, v *ast.ValueSpec) bool {
	if v.Names[0].Name == "_" {
		return true // var _ store.Ledger = (*Ledger)(nil)
	}
	for _, doc := range []*ast.CommentGroup{d.Doc, v.Doc} {
		if doc != nil && slices.ContainsFunc(doc.List, func(c *ast.Comment) bool { return strings.HasPrefix(c.Text, "//go:embed ") }) {
			return true
		}
	}
	if len(v.Values) != 1 {
		return false
	}
	call, ok := v.Values[0].(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	from, ok := sel.X.(*ast.Ident)
	return ok && slices.Contains([]string{"errors.New", "fmt.Errorf"}, from.Name+"."+sel.Sel.Name) ||
		ok && slices.Contains([]string{"prometheus", "promauto"}, from.Name)
}

func TestNoPackageIsNamedAfterNothing(t *testing.T) {
	for _, f := range sources(t) {
		for _, word := range strings.Split(f.pkg, "/") {
			if slices.Contains([]string{"util", "utils", "common", "helpers", "models", "types", "manager", "service"}, word) {
				t.Errorf("%s: a package called %s says nothing about what it is in charge of", f.pkg, word)
			}
		}
	}
}

func TestNoMarksAreLeftInTheCode(t *testing.T) {
	marks := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "testdata"}, d.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		script := strings.HasPrefix(name, "scripts"+string(filepath.Separator)) || name == "Makefile"
		if !script && !slices.Contains([]string{".go", ".js", ".sh"}, filepath.Ext(name)) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		n := 0
		for line := range strings.Lines(string(text)) {
			n++
			if mark := marks.FindString(line); mark != "" {
				t.Errorf("%s:%d: %s: finish it, or write an issue", name, n, mark)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheBinaryLinksNoTestLibrary(t *testing.T) {
	forbidden := append(testOnly(), "testing", module+"/store/storetest", module+"/sim", module+"/e2e")
	linked := strings.Fields(goList(t, "-deps", "./cmd/mayfly"))
	if len(linked) == 0 {
		t.Fatal("go list names no package")
	}
	for _, imported := range linked {
		if hasPath(forbidden, imported) {
			t.Errorf("cmd/mayfly links %s: test libraries stay out of the product", imported)
		}
	}
}

func TestTheTableNamesEachPackageOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range rules() {
		for _, pkg := range r.packages {
			if seen[pkg] {
				t.Errorf("%s stands in two rules", pkg)
			}
			seen[pkg] = true
		}
		if r.reason == "" {
			t.Errorf("the rule of %s has no reason", r.packages)
		}
	}
	for _, r := range rules() {
		for _, pkg := range append(r.may, r.mayAlso...) {
			if !seen[pkg] {
				t.Errorf("the rule of %s names %s, which has no rule", r.packages, pkg)
			}
		}
	}
}

// file is a source file of ours that is no test, whatever platform it is for.
type file struct {
	pkg    string // "." or a path below the module
	name   string
	syntax *ast.File
	fset   *token.FileSet
}

func sources(t *testing.T) []file {
	t.Helper()
	var files []file
	for in := json.NewDecoder(strings.NewReader(goList(t, "-e", "-json=ImportPath,Dir,GoFiles,IgnoredGoFiles", "./..."))); ; {
		var p struct {
			ImportPath, Dir         string
			GoFiles, IgnoredGoFiles []string
		}
		if err := in.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkg, _ := below(p.ImportPath)
		for _, name := range append(p.GoFiles, p.IgnoredGoFiles...) {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			fset := token.NewFileSet()
			syntax, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file{pkg: pkg, name: path.Join(pkg, name), syntax: syntax, fset: fset})
		}
	}
	if len(files) == 0 {
		t.Fatal("go list names no source file")
	}
	return files
}

func (f file) imports() []string {
	var paths []string
	for _, spec := range f.syntax.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		paths = append(paths, imported)
	}
	return paths
}

// localName is what a file calls an imported package; "" if it does not import it.
func (f file) localName(imported string) string {
	i := slices.Index(f.imports(), imported)
	switch {
	case i < 0:
		return ""
	case f.syntax.Imports[i].Name != nil:
		return f.syntax.Imports[i].Name.Name
	default:
		return path.Base(imported)
	}
}

func (f file) at(pos token.Pos) string {
	return fmt.Sprintf("%s:%d", f.name, f.fset.Position(pos).Line)
}

func ruleOf(pkg string) (rule, bool) {
	for _, r := range rules() {
		if slices.Contains(r.packages, pkg) {
			return r, true
		}
	}
	return rule{}, false
}

// below is the path of a package below the module.
func below(imported string) (string, bool) {
	if imported == module {
		return ".", true
	}
	return strings.CutPrefix(imported, module+"/")
}

// hasPath says whether an import is one of the paths or lies below one.
func hasPath(paths []string, imported string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		return imported == p || strings.HasPrefix(imported, p+"/")
	})
}

func goList(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}
