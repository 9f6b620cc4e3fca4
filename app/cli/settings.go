package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
)

// settings holds the flags that select the configuration of a verb. Flags override
// the environment, which overrides the file (O1).
type settings struct {
	file    string
	data    string
	profile string
	set     []string
}

func (s *settings) flags(c *cobra.Command) {
	c.Flags().StringVar(&s.file, "config", "", "configuration file (default ./"+config.DefaultFile+", if it exists)")
	c.Flags().StringVar(&s.data, "data", "", "data folder (default "+config.DefaultData+")")
}

// allFlags adds --profile and --set, which sets any key.
func (s *settings) allFlags(c *cobra.Command) {
	s.flags(c)
	c.Flags().StringVar(&s.profile, "profile", "", "embedded or cluster (default embedded)")
	completeWords(c, "profile", config.Embedded, config.Cluster)
	c.Flags().StringArrayVar(&s.set, "set", nil, "set one key, such as --set walk.interval=2s; mayfly config describe prints all keys")
}

// load loads the configuration; more holds the keys that other flags set.
func (s *settings) load(more map[string]string) (config.Config, error) {
	from, err := s.sources(more)
	if err != nil {
		return config.Config{}, err
	}
	return config.Load(from)
}

// sources returns where the configuration comes from.
func (s *settings) sources(more map[string]string) (config.Sources, error) {
	flags := map[string]string{}
	for _, one := range s.set {
		key, value, ok := strings.Cut(one, "=")
		if !ok {
			return config.Sources{}, usage(mayfly.Errorf(mayfly.Invalid, "invalid --set %s", one).WithHint("write --set key=value"))
		}
		flags[key] = value
	}
	for key, value := range more {
		if value != "" {
			flags[key] = value
		}
	}
	for key, value := range map[string]string{"data": s.data, "profile": s.profile} {
		if value != "" {
			flags[key] = value
		}
	}
	return config.Sources{File: s.file, Environ: os.Environ(), Flags: flags}, nil
}
