package pasteapi

import (
	"regexp"
	"strings"

	"github.com/alecthomas/chroma/v2"
)

// language is a language that can be chosen.
type language struct {
	short, shown string
	lexer        chroma.Lexer // nil for plain text
}

// languages lists the languages that can be chosen: short name, shown name and name
// in chroma. Lexers that work on the whole source before they return the first
// token are left out: they cannot be stopped.
func languages() [][3]string {
	return [][3]string{
		{"apache", "Apache configuration", "ApacheConf"},
		{"asm", "Assembly", "GAS"},
		{"awk", "Awk", "Awk"},
		{"bash", "Bash", "Bash"},
		{"bat", "Batch file", "Batchfile"},
		{"c", "C", "C"},
		{"cpp", "C++", "C++"},
		{"csharp", "C#", "C#"},
		{"clojure", "Clojure", "Clojure"},
		{"cmake", "CMake", "CMake"},
		{"cql", "CQL", "Cassandra CQL"},
		{"crystal", "Crystal", "Crystal"},
		{"css", "CSS", "CSS"},
		{"csv", "CSV", "CSV"},
		{"dart", "Dart", "Dart"},
		{"diff", "Diff", "Diff"},
		{"docker", "Dockerfile", "Docker"},
		{"elixir", "Elixir", "Elixir"},
		{"elm", "Elm", "Elm"},
		{"erlang", "Erlang", "Erlang"},
		{"fish", "Fish", "Fish"},
		{"fortran", "Fortran", "Fortran"},
		{"fsharp", "F#", "FSharp"},
		{"glsl", "GLSL", "GLSL"},
		{"go", "Go", "Go"},
		{"graphql", "GraphQL", "GraphQL"},
		{"groovy", "Groovy", "Groovy"},
		{"haskell", "Haskell", "Haskell"},
		{"hcl", "HCL", "HCL"},
		{"html", "HTML", "HTML"},
		{"ini", "INI", "INI"},
		{"java", "Java", "Java"},
		{"js", "JavaScript", "JavaScript"},
		{"json", "JSON", "JSON"},
		{"jsonnet", "Jsonnet", "Jsonnet"},
		{"jsx", "JSX", "react"},
		{"julia", "Julia", "Julia"},
		{"kotlin", "Kotlin", "Kotlin"},
		{"latex", "LaTeX", "TeX"},
		{"lua", "Lua", "Lua"},
		{"make", "Makefile", "Makefile"},
		{"markdown", "Markdown", "markdown"},
		{"matlab", "MATLAB", "Matlab"},
		{"nasm", "NASM", "NASM"},
		{"nginx", "nginx configuration", "Nginx configuration file"},
		{"nim", "Nim", "Nim"},
		{"nix", "Nix", "Nix"},
		{"objc", "Objective-C", "Objective-C"},
		{"ocaml", "OCaml", "OCaml"},
		{"pascal", "Pascal", "ObjectPascal"},
		{"perl", "Perl", "Perl"},
		{"php", "PHP", "PHP"},
		{"postgresql", "PostgreSQL", "PostgreSQL SQL dialect"},
		{"powershell", "PowerShell", "PowerShell"},
		{"prolog", "Prolog", "Prolog"},
		{"promql", "PromQL", "PromQL"},
		{"properties", "Properties", "properties"},
		{"proto", "Protocol Buffers", "Protocol Buffer"},
		{"puppet", "Puppet", "Puppet"},
		{"python", "Python", "Python"},
		{"r", "R", "R"},
		{"racket", "Racket", "Racket"},
		{"rego", "Rego", "Rego"},
		{"rst", "reStructuredText", "reStructuredText"},
		{"ruby", "Ruby", "Ruby"},
		{"rust", "Rust", "Rust"},
		{"sass", "Sass", "Sass"},
		{"scala", "Scala", "Scala"},
		{"scheme", "Scheme", "Scheme"},
		{"scss", "SCSS", "SCSS"},
		{"sed", "sed", "Sed"},
		{"console", "Shell session", "Bash Session"},
		{"smalltalk", "Smalltalk", "Smalltalk"},
		{"solidity", "Solidity", "Solidity"},
		{"sql", "SQL", "SQL"},
		{"swift", "Swift", "Swift"},
		{"systemd", "systemd unit", "SYSTEMD"},
		{"tcl", "Tcl", "Tcl"},
		{"terraform", "Terraform", "Terraform"},
		{"toml", "TOML", "TOML"},
		{"ts", "TypeScript", "TypeScript"},
		{"typst", "Typst", "Typst"},
		{"vb", "Visual Basic", "VB.net"},
		{"verilog", "Verilog", "verilog"},
		{"vhdl", "VHDL", "VHDL"},
		{"vim", "Vim script", "VimL"},
		{"vue", "Vue", "vue"},
		{"wat", "WebAssembly text", "WebAssembly Text Format"},
		{"xml", "XML", "XML"},
		{"yaml", "YAML", "YAML"},
		{"zig", "Zig", "Zig"},
	}
}

const (
	plainShort = "text"
	plainShown = "Plain text"
)

func (h *highlighter) byLexer(lexer chroma.Lexer) *language {
	for _, l := range h.known {
		if l.lexer == lexer {
			return l
		}
	}
	return nil
}

// languageOf returns the canonical short name of a language or of one of its
// aliases; false if it is not known.
func (h *highlighter) languageOf(name string) (string, bool) {
	if l := h.known[strings.ToLower(name)]; l != nil {
		return l.short, true
	}
	return "", false
}

// choose returns the language of a source: the chosen one, else that of the file
// name, else a guess; nil for plain text.
func (h *highlighter) choose(text, name, filename string) *language {
	if l := h.known[strings.ToLower(name)]; name != "" && l != nil {
		return l
	}
	if filename != "" {
		if lexer := h.lexers.Match(filename); lexer != nil {
			return h.byLexer(lexer)
		}
		if _, ext, _ := strings.Cut(filename, "."); h.known[strings.ToLower(ext)] != nil {
			return h.known[strings.ToLower(ext)]
		}
	}
	return h.known[h.guess(text)]
}

// hint says that a source which matches is probably in a language.
type hint struct {
	short   string
	pattern *regexp.Regexp
}

// guessed is how much of a source a guess looks at.
const guessed = 4 << 10

// hints is searched from the top. The expressions take time linear in the text.
func hints() []hint {
	var all []hint
	for _, h := range [][2]string{
		{"bash", `\A#! ?\S*[/ ](ba|z|k|da|a)?sh\b`},
		{"python", `\A#!.*\bpython`},
		{"perl", `\A#!.*\bperl\b`},
		{"ruby", `\A#!.*\bruby\b`},
		{"js", `\A#!.*\b(node|deno|bun)\b`},
		{"php", `\A\s*<\?php\b`},
		{"html", `(?i)\A\s*(<!--[^>]*-->\s*)?<(!doctype html|html|head|body|script|svg|div|table)\b`},
		{"xml", `\A\s*<\?xml\b`},
		{"diff", `(?m)\A(diff --git |Index: |--- \S.*\n\+\+\+ )|^@@ -\d+(,\d+)? \+\d+(,\d+)? @@`},
		{"json", `(?s)\A\s*(\{\s*("|\})|\[\s*(["\d\[{\]]|true|false|null))`},
		{"docker", `(?m)\A(#.*\n|\s)*FROM \S+(?s:.*)^(RUN|COPY|ENTRYPOINT|CMD|WORKDIR) `},
		{"go", `(?m)^package \w+\s*$`},
		{"rust", `(?m)^\s*(pub )?fn \w+(<[^>]*>)?\(.*\{\s*$|^use \w+(::\w+)+`},
		{"java", `(?m)^(import java[\w.]+;|public (final |abstract )?(class|interface|enum|record) \w+)`},
		{"csharp", `(?m)^(using System[\w.]*;|namespace [\w.]+)`},
		{"cpp", `(?m)^#include <(iostream|string|vector|map|memory)>|^\s*(using namespace \w+;|template ?<|std::)`},
		{"c", `(?m)^#\s*(include [<"]|define \w+|ifndef \w+)`},
		{"python", `(?m)^(from [\w.]+ import |import [\w.]+( as \w+)?$|(async )?def \w+\(.*\).*:$|class \w+.*:$)`},
		{"ts", `(?m)^(export )?(interface \w+ \{|type \w+ = )|^import .* from ['"].*['"];?$(?s:.*): (string|number|boolean)\b`},
		{"js", `(?m)^(import .* from ['"]|export (default |const |function )|(const|let|var) \w+ = |(async )?function \w*\(|module\.exports)`},
		{"php", `(?m)^\s*\$\w+ = .*;$(?s:.*)->`},
		{"ruby", `(?m)^(require ['"]|\s*def \w+[?!]?(\(.*\))?$)(?s:.*)^\s*end$`},
		{"sql", `(?im)^\s*(select\s.*\sfrom\s|select\s*$|insert into |create (table|index|view) |update \w+ set |alter table |with \w+ as \()`},
		{"css", `(?m)^(@(media|import|charset) |[.#]?[\w-]+(\s*[,>:.# ][\w-]+)*\s*\{\s*$)(?s:.*)^\s+[\w-]+:\s.*;$`},
		{"make", `(?m)^\.PHONY:|^[\w./-]+:.*\n\t\S`},
		{"console", `(?m)\A\$ \w+`},
		{"ini", `\A(\s|[;#].*\n)*\[[\w .:"-]+\]\s*\n(\s|[;#].*\n)*[\w.-]+\s*=`},
		{"yaml", `(?m)\A(#.*\n|\s)*(---\s*$|[\w.-]+:( .*)?\n([ ]+[\w.-]+:|[ ]*- |[\w.-]+:( |$)))`},
		{"markdown", `(?m)\A(# \S|## \S)|^(## \S.*|` + "```" + `\w*)$`},
	} {
		all = append(all, hint{h[0], regexp.MustCompile(h[1])})
	}
	return all
}

// guess returns the short name of the language that a text is probably in.
func (h *highlighter) guess(text string) string {
	text = text[:min(len(text), guessed)]
	for _, hint := range h.hints {
		if hint.pattern.MatchString(text) {
			return hint.short
		}
	}
	return plainShort
}
