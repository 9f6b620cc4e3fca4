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

// A folder is a layer. A package imports packages of the layers before its own,
// and inside its layer only as the rank of the package says: a package imports
// packages of a lower rank. What deviates from that stands in exceptions(), with
// its reason. Tests may import anything.

const module = "github.com/mayflyhq/mayfly"

// layers lists the folders from the bottom to the top.
func layers() []string { return []string{".", "store", "engine", "product", "api", "app", "cmd"} }

// outside lists the folders beside the layers: they may import everything, and
// nothing imports them but what exceptions() names.
func outside() []string { return []string{"bench", "demo", "test", "deploy", "store/storetest"} }

// ranks orders the packages inside a layer. A package that is not listed has the
// rank behind the last one, so packages that are not listed do not import each
// other.
func ranks() map[string][][]string {
	return map[string][][]string{
		"store":   {{"store"}, {"store/loop"}, {"store/conn", "store/diskfs"}},
		"engine":  {{"engine"}, {"engine/clock", "engine/media", "engine/walk"}, {"engine/remind", "engine/logread"}, {"engine/audit"}, {"engine/erase", "engine/upload"}},
		"product": {{"product/account", "product/feed/text"}},
		"api":     {{"api/wire"}, {"api/httpapi"}},
		"app":     {{"app/config"}, {"app/profile", "app/node"}, {"app/server", "app/progress"}, {"app/admin"}},
	}
}

// exception changes what the packages below a path may import.
type exception struct {
	from, to []string // paths; a package below one counts too
	allowed  bool
	reason   string
}

// exceptions is searched from the top; the first match decides.
func exceptions() []exception {
	return []exception{
		{[]string{"client"}, []string{".", "api/wire"}, true, "the client is the vocabulary, the wire types and an HTTP client"},
		{[]string{"client"}, []string{"*"}, false, "a program that imports the client must not link a server"},
		{[]string{"app/admin", "app/cli", "bench", "demo", "test", "deploy"}, []string{"client"}, true, "programs that talk to a server use the client"},
		{[]string{"*"}, []string{"client"}, false, "a server does not call itself"},
		{[]string{"api/wire", "app/config", "engine/media", "store/loop", "store/conn"}, []string{"."}, true, "small packages that know the vocabulary only"},
		{[]string{"api/wire", "app/config", "engine/media", "store/loop", "store/conn"}, []string{"*"}, false, "small packages that know the vocabulary only"},
		{[]string{"app/profile"}, []string{"engine", "product", "api"}, false, "a profile chooses drivers and knows nothing of what runs on them"},
		{[]string{"app/profile", "bench", "demo", "test", "deploy"}, []string{"*"}, true, "profiles, benchmarks and tests open drivers"},
		{[]string{"engine", "product", "api", "app"}, drivers(), false, "only app/profile knows which drivers there are"},
		{[]string{"app/cli"}, []string{"bench", "demo"}, true, "bench and demo are verbs"},
		{[]string{"engine/verify"}, []string{"engine/gate"}, true, "the verifier asks the gate instead of repeating it"},
		{[]string{"api"}, []string{"store"}, false, "handlers call products and the engine, not stores"},
		{[]string{"cmd"}, []string{"app/cli"}, true, "main calls cli"},
		{[]string{"cmd"}, []string{"*"}, false, "main calls cli and nothing else"},
	}
}

func drivers() []string {
	return []string{
		"store/pebblestore", "store/kvpebble", "store/diskstore", "store/memstore", "store/diskfs",
		"store/cassandrastore", "store/redisstore", "store/kafkastore", "store/s3store",
	}
}

// allowed reports whether a package may import another one of this module, and
// the reason if not.
func allowed(from, to string) (bool, string) {
	for _, e := range exceptions() {
		if within(e.from, from) && within(e.to, to) {
			return e.allowed, e.reason
		}
	}
	if within(outside(), from) {
		return true, ""
	}
	if within(outside(), to) {
		return false, "benchmarks, demos and tests are not part of the product"
	}
	lower, upper := slices.Index(layers(), layerOf(to)), slices.Index(layers(), layerOf(from))
	switch {
	case lower < 0 || upper < 0:
		return false, "it is in no layer: see layers() and outside()"
	case lower != upper:
		return lower < upper, fmt.Sprintf("layer %s is below layer %s", layerOf(from), layerOf(to))
	}
	return rankOf(to) < rankOf(from), "inside a layer a package imports only packages of a lower rank: see ranks()"
}

// layerOf returns the first element of a package's path.
func layerOf(pkg string) string {
	layer, _, _ := strings.Cut(pkg, "/")
	return layer
}

func rankOf(pkg string) int {
	order := ranks()[layerOf(pkg)]
	if i := slices.IndexFunc(order, func(same []string) bool { return slices.Contains(same, pkg) }); i >= 0 {
		return i
	}
	return len(order)
}

// within reports whether a package is one of the paths or lies below one. "*"
// matches every package; "." matches the root only.
func within(paths []string, pkg string) bool {
	return slices.ContainsFunc(paths, func(p string) bool {
		return p == "*" || pkg == p || strings.HasPrefix(pkg, p+"/")
	})
}

type library struct {
	prefixes []string
	users    []string
	reason   string
}

// libraries lists who may import which third-party code, outside of tests. What
// is not listed may be imported anywhere above the root.
func libraries() []library {
	return []library{
		{[]string{"github.com/cockroachdb/pebble"}, []string{"store/pebblestore", "store/kvpebble", "store/diskstore", "store/diskfs", "store/storetest", "bench", "test"}, "Pebble and its file system stay behind the contracts; storetest injects faults below them"},
		{[]string{"github.com/apache/cassandra-gocql-driver", "github.com/gocql/gocql"}, []string{"store/cassandrastore", "deploy/servers"}, "one client library, one driver"},
		{[]string{"github.com/redis/rueidis"}, []string{"store/redisstore", "deploy/servers", "bench"}, "one client library, one driver"},
		{[]string{"github.com/twmb/franz-go"}, []string{"store/kafkastore", "deploy/servers"}, "one client library, one driver"},
		{[]string{"github.com/minio/minio-go"}, []string{"store/s3store", "deploy/servers"}, "one client library, one driver"},
		{append(testOnly(), "testing"), []string{"store/storetest", "test"}, "test libraries are for tests"},
	}
}

// testOnly lists the libraries that the product must not link.
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

// selectors lists who may use certain names of a package, outside of tests.
func selectors() []selector {
	return []selector{
		{"time", []string{"Now", "Since", "Until"}, func(pkg string) bool {
			return within([]string{"engine/clock", "store/loop", "app/admin", "app/cli", "app/server", "app/progress", "api"}, pkg) || within(outside(), pkg)
		}, "now is an argument: one clock decides births, gate and walks; api and app/progress measure durations (L7)"},
		{module + "/store", []string{"Blobs", "Ledger"}, func(pkg string) bool { return layerOf(pkg) != "product" }, "a product touches media and ledger only through the engine"},
	}
}

func TestImportsFollowTheLayers(t *testing.T) {
	for _, f := range sources(t) {
		for _, imported := range f.imports() {
			own, ours := below(imported)
			if ours {
				if ok, reason := allowed(f.pkg, own); !ok {
					t.Errorf("%s: %s may not import %s: %s", f.name, f.pkg, own, reason)
				}
				continue
			}
			if f.pkg == "." && strings.Contains(imported, ".") {
				t.Errorf("%s imports %s: the root is vocabulary, on the standard library only", f.name, imported)
			}
			for _, l := range libraries() {
				if hasPath(l.prefixes, imported) && !within(l.users, f.pkg) {
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
		if within([]string{"test"}, f.pkg) {
			continue // a cache between the tests of one binary
		}
		for _, decl := range f.syntax.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.VAR {
				continue
			}
			for _, spec := range d.Specs {
				v := spec.(*ast.ValueSpec)
				if !mayLiveAtPackageLevel(d, v) {
					t.Errorf("%s: var %s: package level is for error kinds, metrics, declared tables, embedded files and interface assertions; hand it in, or make it a const or a function", f.at(v.Pos()), v.Names[0].Name)
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
	return ok && slices.Contains([]string{"errors.New", "fmt.Errorf", "store.DeclareTable"}, from.Name+"."+sel.Sel.Name) ||
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
	forbidden := append(testOnly(), "testing", module+"/store/storetest", module+"/test")
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

func TestEveryDependencyHasItsLine(t *testing.T) {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := os.ReadFile("docs/decisions/0013-dependencies.md")
	if err != nil {
		t.Fatal(err)
	}
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllSubmatch(mod, -1)
	if len(direct) < 20 {
		t.Fatalf("go.mod has %d direct requirements", len(direct))
	}
	for _, m := range direct {
		if !strings.Contains(string(reasons), "`"+string(m[1])+"`") {
			t.Errorf("docs/decisions/0013-dependencies.md does not say what %s is for", m[1])
		}
	}
}
