package config

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mayflyhq/mayfly"
)

// unknown returns an error for a key that does not exist. A section without a value
// is allowed: all of its lines may be commented out.
func unknown(key string, value any) error {
	keys := Keys()
	isSection := slices.ContainsFunc(keys, func(k string) bool { return strings.HasPrefix(k, key+".") })
	inner, isMap := value.(map[string]any)
	switch {
	case slices.Contains(keys, key):
		return nil
	case isSection && (value == nil || isMap && len(inner) == 0):
		return nil
	case isSection:
		return mayfly.Errorf(mayfly.Invalid, "this is a section, not a value").WithHint("write its keys below it, such as " + firstOf(keys, key))
	}
	hint := "mayfly config describe prints every key"
	if near := nearest(key, keys); near != "" {
		hint = "did you mean " + near + "? " + hint
	}
	return mayfly.Errorf(mayfly.Invalid, "unknown key").WithHint(hint)
}

func firstOf(keys []string, section string) string {
	return keys[slices.IndexFunc(keys, func(k string) bool { return strings.HasPrefix(k, section+".") })]
}

// nearest returns the known word that is most similar to key, or "" if none is similar.
func nearest(key string, known []string) string {
	best, least := "", len(key)
	for _, k := range known {
		d := distance(key, k)
		if last := k[strings.LastIndex(k, ".")+1:]; last == key[strings.LastIndex(key, ".")+1:] {
			d = min(d, 2) // the right word in the wrong section
		}
		if d < least || d == least && best == "" {
			best, least = k, d
		}
	}
	if least > max(2, len(key)/3) {
		return ""
	}
	return best
}

// meantAsSetting reports whether a variable looks like a misspelled setting: it
// starts with the name of a section, or differs from a setting by one or two letters.
func meantAsSetting(name, near string) bool {
	if ofAService().MatchString(name) {
		return false
	}
	for _, key := range Keys() {
		section, _, ok := strings.Cut(key, ".")
		if ok && strings.HasPrefix(name, envName(section)+"_") {
			return true
		}
	}
	return distance(name, near) <= 2
}

// ofAService matches the variables that Kubernetes sets for a service, such as
// mayfly-redis.
func ofAService() *regexp.Regexp {
	return regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)$`)
}

// distance returns the number of letters to add, remove or change to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(changed, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}

// linesOf returns the line of each key of a YAML file.
func linesOf(text []byte) map[string]int {
	lines := map[string]int{}
	var root yaml.Node
	if yaml.Unmarshal(text, &root) != nil || len(root.Content) == 0 {
		return lines
	}
	var walk func(prefix string, n *yaml.Node)
	walk = func(prefix string, n *yaml.Node) {
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			key := prefix + n.Content[i].Value
			lines[key] = n.Content[i].Line
			walk(key+".", n.Content[i+1])
		}
	}
	walk("", root.Content[0])
	return lines
}
