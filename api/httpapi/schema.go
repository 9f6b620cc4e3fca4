package httpapi

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// schema is a JSON Schema, as OpenAPI 3.1 has it.
type schema map[string]any

// schemas are made from the shapes of wire, by their types and tags: what
// travels and what the document says of it cannot part.
type schemas struct {
	components map[string]schema
	strict     map[reflect.Type]bool // shapes of requests: an unknown field is refused
}

func (s *schemas) of(t reflect.Type) schema {
	switch t {
	case reflect.TypeFor[mayfly.ID](), reflect.TypeFor[mayfly.UserID]():
		return schema{"type": "string", "format": "uuid"}
	case reflect.TypeFor[mayfly.Instant]():
		return schema{"type": "string", "format": "date-time"}
	case reflect.TypeFor[mayfly.Lifetime]():
		return schema{"type": "string"}
	case reflect.TypeFor[json.RawMessage](): // the one shape that is free on its way through wire
		return schema{"type": "array", "maxItems": 50, "items": s.overlay()}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		return s.object(t)
	case reflect.Slice:
		return schema{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return schema{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		return schema{"type": "string"}
	case reflect.Bool:
		return schema{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint32:
		return schema{"type": "integer"}
	case reflect.Float64:
		return schema{"type": "number"}
	default:
		panic(fmt.Sprintf("httpapi: %s cannot be documented", t))
	}
}

func (s *schemas) object(t reflect.Type) schema {
	ref := schema{"$ref": "#/components/schemas/" + t.Name()}
	if _, known := s.components[t.Name()]; known {
		return ref
	}
	o := schema{"type": "object"}
	s.components[t.Name()] = o
	properties, required := schema{}, []string{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		properties[name] = s.field(f)
		if !strings.Contains(options, "omitempty") {
			required = append(required, name)
		}
	}
	o["properties"] = properties
	if len(required) > 0 {
		o["required"] = required
	}
	if s.strict[t] {
		o["additionalProperties"] = false
	}
	return ref
}

func (s *schemas) field(f reflect.StructField) schema {
	p := s.of(f.Type)
	if ref, ok := p["$ref"]; ok && f.Tag.Get("doc") != "" {
		return schema{"$ref": ref, "description": f.Tag.Get("doc")}
	}
	for tag, keyword := range map[string]string{"doc": "description", "format": "format"} {
		if v, ok := f.Tag.Lookup(tag); ok {
			p[keyword] = v
		}
	}
	if v, ok := f.Tag.Lookup("example"); ok {
		p["examples"] = []string{v}
	}
	for _, keyword := range []string{"minLength", "maxLength", "minimum", "maximum"} {
		if v, ok := f.Tag.Lookup(keyword); ok {
			p[keyword] = number(v)
		}
	}
	if v, ok := f.Tag.Lookup("enum"); ok {
		var values []any
		for word := range strings.SplitSeq(v, ",") {
			if p["type"] == "integer" {
				values = append(values, number(word))
			} else {
				values = append(values, word)
			}
		}
		p["enum"] = values
	}
	return p
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("httpapi: a tag says %q where a number belongs", text))
	}
	return n
}

// overlay is a sticker as package story checks it.
func (s *schemas) overlay() schema {
	const name = "Overlay"
	if _, known := s.components[name]; !known {
		text := func(most int) schema { return schema{"type": "string", "maxLength": most} }
		between := func(least, most int) schema { return schema{"type": "number", "minimum": least, "maximum": most} }
		s.components[name] = schema{
			"type": "object", "required": []string{"kind", "x", "y"}, "additionalProperties": false,
			"properties": schema{
				"kind":   schema{"type": "string", "enum": []string{"text", "mention", "hashtag", "link", "location", "poll", "question", "music", "emoji"}},
				"medium": schema{"type": "integer", "minimum": 0, "maximum": 9, "description": "On which of the story's media."},
				"x":      between(0, 1), "y": between(0, 1), "scale": between(0, 100), "rotation": between(-360, 360),
				"text": text(500), "style": text(100),
				"target":  schema{"type": "string", "maxLength": 2048, "description": "A user, a place, a track; of a link a web address."},
				"options": schema{"type": "array", "maxItems": 10, "items": text(100), "description": "Of a poll."},
			},
		}
	}
	return schema{"$ref": "#/components/schemas/" + name}
}
