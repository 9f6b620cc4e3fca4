package config

import (
	_ "embed"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
)

//go:embed config.go
var source string // its comments are the manual

// Describe is c as a documented file, which loads back to c (O1). Secrets, and
// what a URL has of names and passwords, are left out (C7).
func Describe(c Config) (string, error) {
	manual, err := readManual()
	if err != nil {
		return "", err
	}
	out := &strings.Builder{}
	out.WriteString("# Every setting of mayfly with its default. Take out what you do not change. A variable overrides the file, such as\n" +
		"# " + envName("walk.interval") + "=1s for walk.interval; a flag overrides both, such as --set walk.interval=1s.\n" +
		"# Durations are written like 500ms, 90m, 24h or 30d; sizes like 64MiB.\n\n")
	section := ""
	for _, s := range settings(&c) {
		indent, name := "", s.key
		if head, rest, ok := strings.Cut(s.key, "."); ok {
			indent, name = "  ", rest
			if head != section {
				section = head
				writeComment(out, "\n", "", manual[head])
				out.WriteString(head + ":\n")
			}
		}
		writeComment(out, "", indent, manual[s.key])
		out.WriteString(indent + name + ": " + s.yaml() + "\n")
	}
	return out.String(), nil
}

// writeComment writes text as lines that begin with #.
func writeComment(out *strings.Builder, before, indent, text string) {
	out.WriteString(before)
	for line := range strings.Lines(text) {
		out.WriteString(indent + "# " + strings.TrimRight(line, "\n") + "\n")
	}
}

// yaml is the field's value as it stands in a file.
func (s setting) yaml() string {
	plain := func(text string) string {
		if plainText().MatchString(text) {
			return text
		}
		return strconv.Quote(text)
	}
	switch value := s.into.Interface().(type) {
	case string:
		return plain(withoutSecret(value))
	case mayfly.Secret:
		return `""` // a file that is printed holds none (C7)
	case []string:
		words := make([]string, len(value))
		for i, word := range value {
			words[i] = strconv.Quote(word)
		}
		return "[" + strings.Join(words, ", ") + "]"
	case time.Duration, Bytes, Rate:
		return s.text()
	default:
		if s.into.Kind() == reflect.Slice {
			return "[" + s.text() + "]"
		}
		return s.text()
	}
}

// plainText is what YAML reads as text without quotes; what might be a number,
// a date, a word of YAML or has a colon gets quotes.
func plainText() *regexp.Regexp { return regexp.MustCompile(`^[./]*[a-z][a-z-]*[a-z/.]*$`) }

// withoutSecret takes name and password out of a URL.
func withoutSecret(text string) string {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return text
	}
	host, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(host, "@"); at >= 0 {
		return strings.TrimSuffix(scheme+"://"+host[at+1:]+"/"+path, "/")
	}
	return text
}

// manual is what the comments of config.go say, by key.
type manual map[string]string

// readManual reads the comments of the structs: of a section by its type, of a
// key by its field. A field below another without a comment of its own belongs
// to that one's.
func readManual() (manual, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	structs := map[string]*ast.StructType{}
	docs := map[string]string{}
	for _, decl := range file.Decls {
		d, ok := decl.(*ast.GenDecl)
		if !ok || d.Tok != token.TYPE {
			continue
		}
		for _, spec := range d.Specs {
			t := spec.(*ast.TypeSpec)
			if s, ok := t.Type.(*ast.StructType); ok {
				structs[t.Name.Name], docs[t.Name.Name] = s, d.Doc.Text()
			}
		}
	}
	m := manual{}
	top := reflect.TypeFor[Config]()
	m.addFields("", top, structs["Config"])
	for i := range top.NumField() {
		f := top.Field(i)
		if f.Type.Kind() == reflect.Struct {
			m[keyOf(f)] = inKeys(docs[f.Type.Name()], nil)
			m.addFields(keyOf(f)+".", f.Type, structs[f.Type.Name()])
		}
	}
	return m, nil
}

func (m manual) addFields(prefix string, t reflect.Type, fields *ast.StructType) {
	for _, group := range fields.Fields.List {
		field, ok := t.FieldByName(group.Names[0].Name)
		if ok && field.Type.Kind() != reflect.Struct || ok && prefix != "" {
			m[prefix+keyOf(field)] = inKeys(group.Doc.Text(), t)
		}
	}
}

// inKeys is a comment with the names of fields as the keys that they are in the
// file: Walk.Settle is walk.settle, and in its own section Settle is settle.
func inKeys(text string, own reflect.Type) string {
	top := reflect.TypeFor[Config]()
	return regexp.MustCompile(`[A-Z]\w*(\.[A-Z]\w*)?`).ReplaceAllStringFunc(text, func(word string) string {
		if section, name, ok := strings.Cut(word, "."); ok {
			s, known := top.FieldByName(section)
			if !known || s.Type.Kind() != reflect.Struct {
				return word
			}
			if f, known := s.Type.FieldByName(name); known {
				return keyOf(s) + "." + keyOf(f)
			}
			return word
		}
		if own == nil {
			return word // the first word of a section's sentence
		}
		if f, known := own.FieldByName(word); known {
			return keyOf(f)
		}
		return word
	})
}
