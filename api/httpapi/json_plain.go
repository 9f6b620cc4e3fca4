package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
)

// maxDepth is how deep JSON may be nested.
const maxDepth = 32

// plainJSON refuses what readers of JSON disagree about: it must be one object
// whose names are written as the document writes them, none of them twice, in
// valid UTF-8.
func plainJSON(in []byte, names []string) error {
	if trimmed := bytes.TrimLeft(in, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return mayfly.Errorf(mayfly.Invalid, "the body is no JSON object").WithHint("send an object, such as {}; /openapi.json says what may be in it")
	}
	if !utf8.Valid(in) {
		return mayfly.Errorf(mayfly.Invalid, "the body is not UTF-8").WithHint("send JSON in UTF-8")
	}
	w := walker{in: json.NewDecoder(bytes.NewReader(in)), names: names, replaced: bytes.ContainsRune(in, utf8.RuneError) || bytes.Contains(bytes.ToLower(in), []byte(`\ufffd`))}
	w.in.UseNumber()
	if err := w.value(1); err != nil {
		return badJSON(err)
	}
	if _, err := w.in.Token(); !errors.Is(err, io.EOF) {
		return mayfly.Errorf(mayfly.Invalid, "there is something behind the JSON value").WithHint("send one object")
	}
	return nil
}

// walker goes through the tokens of a value.
type walker struct {
	in       *json.Decoder
	names    []string // of the outermost object
	replaced bool     // whether U+FFFD was sent as such
}

func (w walker) value(depth int) error {
	if depth > maxDepth {
		return mayfly.Errorf(mayfly.Invalid, "the JSON is nested too deeply").WithHint("/openapi.json says what may be in it")
	}
	token, err := w.in.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case string:
		return w.text(token)
	case json.Delim:
		seen := map[string]bool{}
		for w.in.More() {
			if token == '{' {
				if err := w.name(depth, seen); err != nil {
					return err
				}
			}
			if err := w.value(depth + 1); err != nil {
				return err
			}
		}
		_, err = w.in.Token()
	}
	return err
}

func (w walker) name(depth int, seen map[string]bool) error {
	token, err := w.in.Token()
	if err != nil {
		return err
	}
	name, _ := token.(string)
	switch {
	case seen[name]:
		return mayfly.Errorf(mayfly.Invalid, "%.40q stands twice in an object", name).WithHint("say it once")
	case depth == 1 && !slices.Contains(w.names, name):
		return mayfly.Errorf(mayfly.Invalid, "%.40q is no field here", name).WithHint("the fields are " + strings.Join(w.names, ", "))
	}
	seen[name] = true
	return w.text(name)
}

// text refuses half a character: Go's reader would put another in its place.
func (w walker) text(s string) error {
	if !w.replaced && strings.ContainsRune(s, utf8.RuneError) {
		return mayfly.Errorf(mayfly.Invalid, "a text has half a character in it").WithHint("write both halves of a surrogate pair")
	}
	return nil
}

// namesOf are the names of a shape's fields.
func namesOf(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}
