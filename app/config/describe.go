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

// Describe returns c as a documented configuration file, which loads back to c
// (O1). Secrets, and user names and passwords in URLs, are left out (C7).
func Describe(c Config) (string, error) {
	manual, err := readManual()
	if err != nil {
		return "", err
	}
	out := &strings.Builder{}
	out.WriteString("# Every setting of mayfly with its default. Remove what you do not change.\n" +
		"# An environment variable overrides the file, such as " + envName("walk.interval") + "=1s for walk.interval;\n" +
		"# a flag overrides both, such as --set walk.interval=1s.\n" +
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

// writeComment writes text as lines that start with #.
func writeComment(out *strings.Builder, before, indent, text string) {
	out.WriteString(before)
	for line := range strings.Lines(text) {
		out.WriteString(indent + "# " + strings.TrimRight(line, "\n") + "\n")
	}
}

// yaml returns the field's value as it is written in a file.
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
		return `""` // secrets are never printed (C7)
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

// plainText matches text that needs no quotes in YAML. Text that could be read as a
// number, a date or a keyword, or that has a colon, does not match.
func plainText() *regexp.Regexp { return regexp.MustCompile(`^[./]*[a-z][a-z-]*[a-z/.]*$`) }

// withoutSecret removes the user name and the password from a URL.
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

// manual holds the comments of config.go by key.
type manual map[string]string

// readManual reads the comments of the structs: the comment of a type documents a
// section, the comment of a field documents a key. A field without a comment is
// documented by the comment of the field above it.
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

// inKeys replaces the names of fields in a comment by their keys: Walk.Settle by
// walk.settle, and in its own section Settle by settle.
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
			return word // the comment of a section starts with its name
		}
		f, known := own.FieldByName(word)
		if known && (own != top || f.Type.Kind() != reflect.Struct) { // Kafka alone is the product, not the section
			return keyOf(f)
		}
		return word
	})
}
