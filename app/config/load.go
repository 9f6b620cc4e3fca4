package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mayflyhq/mayfly"
)

// DefaultFile is read, if it exists, when no file is named. DefaultData is the data
// folder when none is set.
const (
	DefaultFile = "mayfly.yaml"
	DefaultData = "./mayfly-data"

	envPrefix = "MAYFLY_"
)

// Sources lists where settings come from. Each overrides those above it.
type Sources struct {
	File    string            // a YAML file; empty: DefaultFile, if it exists
	Environ []string          // MAYFLY_WALK_INTERVAL=2s sets walk.interval
	Flags   map[string]string // by key
}

// Load combines the settings and validates them. An unknown key is an error, which
// names its line and the most similar known key (O1). Errors: Invalid, NotFound
// (the file).
func Load(from Sources) (Config, error) {
	file, err := fileLayer(from.File)
	if err != nil {
		return Config{}, err
	}
	environ, err := environLayer(from.Environ)
	if err != nil {
		return Config{}, err
	}
	layers := []layer{file, environ, flagLayer(from.Flags)}
	c := DefaultOn(profileOf(layers))
	c.Data = DefaultData
	var wrong []error
	for _, l := range layers {
		wrong = append(wrong, l.apply(&c))
	}
	if err := errors.Join(wrong...); err != nil {
		return Config{}, err
	}
	if c.Profile == Cluster && c.Node == Default().Node {
		if c.Node, err = os.Hostname(); err != nil {
			return Config{}, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("config: node: %w", err), "name the node: --set node=a")
		}
	}
	return c, c.Validate()
}

// profileOf returns the profile that the layers set, or "".
func profileOf(layers []layer) (profile string) {
	for _, l := range layers {
		if name, ok := l.values["profile"].(string); ok {
			profile = strings.TrimSpace(name)
		}
	}
	return profile
}

// layer is one source of settings.
type layer struct {
	values map[string]any
	where  func(key string) string // for messages: "mayfly.yaml:12: walk.page"
}

// apply sets the values of the layer and returns all errors in them.
func (l layer) apply(c *Config) error {
	all, left := settings(c), l.values
	var wrong []error
	for _, s := range all {
		value, ok := left[s.key]
		if !ok {
			continue
		}
		if err := s.take(value); err != nil {
			wrong = append(wrong, fmt.Errorf("config: %s: %w", l.where(s.key), err))
		}
	}
	for key, value := range left {
		if err := unknown(key, value); err != nil {
			wrong = append(wrong, fmt.Errorf("config: %s: %w", l.where(key), err))
		}
	}
	return errors.Join(wrong...)
}

// fileLayer reads a YAML file.
func fileLayer(path string) (layer, error) {
	named := path != ""
	if !named {
		path = DefaultFile
	}
	text, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return layer{}, nil
	case errors.Is(err, fs.ErrNotExist):
		return layer{}, mayfly.Errorf(mayfly.NotFound, "config: file %s does not exist", path).WithHint("mayfly config describe > " + path + " creates one with every default")
	case err != nil:
		return layer{}, fmt.Errorf("config: %w", err)
	}
	var tree map[string]any
	if err := yaml.Unmarshal(text, &tree); err != nil {
		return layer{}, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("config: %s: %w", path, err), "mayfly config describe prints an example")
	}
	values, lines := map[string]any{}, linesOf(text)
	flatten(values, "", tree)
	return layer{values, func(key string) string { return fmt.Sprintf("%s:%d: %s", path, lines[key], key) }}, nil
}

// flatten adds the values of a tree by key, such as walk.page. A section without
// keys is added as a value.
func flatten(values map[string]any, prefix string, tree map[string]any) {
	for key, value := range tree {
		if inner, ok := value.(map[string]any); ok && len(inner) > 0 {
			flatten(values, prefix+key+".", inner)
		} else {
			values[prefix+key] = value
		}
	}
}

// environLayer reads the environment variables that are settings. Other variables
// with the same prefix are ignored, such as those that Kubernetes sets for a service
// called mayfly, unless they look like a misspelled setting.
func environLayer(environ []string) (layer, error) {
	names := map[string]string{} // variable by key
	keys := map[string]string{}  // key by variable
	for _, key := range Keys() {
		names[key] = envName(key)
		keys[names[key]] = key
	}
	var wrong []error
	values := map[string]any{}
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) {
			continue
		}
		if key, known := keys[name]; known {
			values[key] = value
			continue
		}
		if near := nearest(name, slices.Sorted(maps.Keys(keys))); near != "" && meantAsSetting(name, near) {
			wrong = append(wrong, mayfly.Errorf(mayfly.Invalid, "config: unknown environment variable %s", name).WithHint("did you mean "+near+"?"))
		}
	}
	return layer{values, func(key string) string { return names[key] }}, errors.Join(wrong...)
}

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

func flagLayer(flags map[string]string) layer {
	values := map[string]any{}
	for key, value := range flags {
		values[key] = value
	}
	return layer{values, func(key string) string { return "flag " + key }}
}
