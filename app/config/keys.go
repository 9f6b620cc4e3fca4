package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/mayflyhq/mayfly"
)

// setting is one key and the field that it sets.
type setting struct {
	key   string // "walk.interval"
	field reflect.StructField
	into  reflect.Value
}

// settings returns all settings of c, in the order of its fields.
func settings(c *Config) []setting {
	var all []setting
	top := reflect.ValueOf(c).Elem()
	for i := range top.NumField() {
		field, into := top.Type().Field(i), top.Field(i)
		if into.Kind() != reflect.Struct {
			all = append(all, setting{keyOf(field), field, into})
			continue
		}
		for j := range into.NumField() {
			inner := into.Type().Field(j)
			all = append(all, setting{keyOf(field) + "." + keyOf(inner), inner, into.Field(j)})
		}
	}
	return all
}

// Keys returns the keys of all settings.
func Keys() []string {
	var keys []string
	for _, s := range settings(new(Config)) {
		keys = append(keys, s.key)
	}
	return keys
}

// Text returns the value of a key without passwords (C7), or "" if there is no
// such key.
func (c Config) Text(key string) string {
	for _, s := range settings(&c) {
		if s.key == key {
			return withoutSecret(s.text())
		}
	}
	return ""
}

// keyOf returns the key of a field: its tag, or its name in snake case.
func keyOf(f reflect.StructField) string {
	if key := f.Tag.Get("key"); key != "" {
		return key
	}
	name := []rune(strings.Replace(f.Name, "URLs", "Urls", 1)) // the s is part of the word
	var key []rune
	for i, r := range name {
		begins := i > 0 && unicode.IsUpper(r) &&
			(unicode.IsLower(name[i-1]) || i+1 < len(name) && unicode.IsLower(name[i+1]))
		if begins {
			key = append(key, '_')
		}
		key = append(key, unicode.ToLower(r))
	}
	return string(key)
}

// take sets the field to a value of a file, the environment or a flag: text, a
// number, or a list.
func (s setting) take(value any) error {
	list, isList := value.([]any)
	isText := !isList
	text := ""
	switch value.(type) {
	case nil:
		return mayfly.Errorf(mayfly.Invalid, "the value is missing").WithHint(`write one, "" for an empty text, or remove the key`)
	case string, int, int64, uint64, float64, bool:
		text = strings.TrimSpace(fmt.Sprint(value))
	case []any:
	default:
		return mayfly.Errorf(mayfly.Invalid, "invalid value %v", value).WithHint("write it in quotes")
	}
	var err error
	switch into := s.into.Addr().Interface().(type) {
	case *[]string:
		*into, err = texts(list, text)
		return err
	case *[]mayfly.Lifetime:
		words, err := texts(list, text)
		if err != nil {
			return err
		}
		all := make([]mayfly.Lifetime, len(words))
		for i, word := range words {
			if all[i], err = mayfly.ParseLifetime(word); err != nil {
				return err
			}
		}
		*into = all
		return nil
	default:
		if !isText {
			return mayfly.Errorf(mayfly.Invalid, "a list is not allowed here").WithHint("write one value")
		}
		return s.takeOne(into, text)
	}
}

func (s setting) takeOne(into any, text string) (err error) {
	switch into := into.(type) {
	case *string:
		*into = text
	case *mayfly.Secret:
		*into = mayfly.Secret(text)
	case *bool:
		if *into, err = strconv.ParseBool(text); err != nil {
			return mayfly.Errorf(mayfly.Invalid, "invalid boolean %q", text).WithHint("write true or false")
		}
	case *int:
		if *into, err = strconv.Atoi(text); err != nil {
			return notANumber(text)
		}
	case *int64:
		if *into, err = strconv.ParseInt(text, 10, 64); err != nil {
			return notANumber(text)
		}
	case *float64:
		if *into, err = strconv.ParseFloat(text, 64); err != nil {
			return notANumber(text)
		}
	case *Bytes:
		*into, err = ParseBytes(text)
	case *Rate:
		*into, err = ParseRate(text)
	case *time.Duration:
		*into, err = parseDuration(text)
	case *mayfly.Lifetime:
		*into, err = mayfly.ParseLifetime(text)
	default:
		return fmt.Errorf("unsupported field type %T", into)
	}
	return err
}

func notANumber(text string) error {
	return mayfly.Errorf(mayfly.Invalid, "invalid number %q", text).WithHint("write a number, such as 500")
}

// texts returns the words of a list, or of a text that separates them by commas.
func texts(list []any, text string) ([]string, error) {
	if list == nil && text != "" {
		for word := range strings.SplitSeq(text, ",") {
			list = append(list, word)
		}
	}
	var words []string
	for _, one := range list {
		switch one.(type) {
		case string, int, float64, bool:
		default:
			return nil, mayfly.Errorf(mayfly.Invalid, "a list in a list").WithHint("write [one, two]")
		}
		words = append(words, strings.TrimSpace(fmt.Sprint(one)))
	}
	if slices.Contains(words, "") {
		return nil, mayfly.Errorf(mayfly.Invalid, "an empty word in a list").WithHint("remove it")
	}
	return words, nil
}

// text returns the field's value as it is written in the environment.
func (s setting) text() string {
	switch value := s.into.Interface().(type) {
	case time.Duration:
		return durationText(value)
	case []string:
		return strings.Join(value, ", ")
	case []mayfly.Lifetime:
		words := make([]string, len(value))
		for i, l := range value {
			words[i] = l.String()
		}
		return strings.Join(words, ", ")
	case mayfly.Lifetime:
		return value.String()
	default:
		return fmt.Sprint(value)
	}
}
