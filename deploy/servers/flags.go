package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const usage = `Real servers on this machine, on loopback, for tests and for the curious.

  go run ./deploy/servers up     [server …]       start them, wait until they answer, print the environment to use
  go run ./deploy/servers down   [server …]       stop what up started, remove its data
  go run ./deploy/servers status                  what runs, where, how large
  go run ./deploy/servers env                     the environment of what runs, as export lines
  go run ./deploy/servers config                  a mayfly.yaml for a node on what runs
  go run ./deploy/servers kill   server [node]    end one process with SIGKILL, keep its data
  go run ./deploy/servers start  server [node]    bring it back on its data and ports
  go run ./deploy/servers fetch  [server …]       only download and build
  go run ./deploy/servers need   [server …]       what is missing on this machine

Servers: cassandra, kafka, redis, redis-cluster, s3. Without a name: cassandra kafka redis s3.

  --nodes N       Cassandra nodes, on 127.0.0.1, 127.0.0.2, … (1)
  --heap SIZE     heap of each Cassandra node (256m)
  --cluster       a Redis Cluster of three masters too (redis-cluster)
  --secure        TLS and credentials on every server
  --keep          up: start on the data of the last run; down: leave the data
  --install       on Debian, as root: install what is missing
  --state DIR     what runs is written down here; two runs with two folders do not meet
                  (${XDG_STATE_HOME:-$HOME/.local/state}/mayfly/servers)
  --prefix WORD   how the names of the environment begin (MAYFLY_TEST)
`

var errHelp = errors.New("help was asked for")

// order is what the command line asks for.
type order struct {
	verb    string
	servers []string
	node    int // of kill and start
	nodes   int
	heap    string
	secure  bool
	keep    bool
	install bool
	state   string
	prefix  string
}

func everyday() []string { return []string{"cassandra", "kafka", "redis", "s3"} }

// parse takes flags and names in any order.
func parse(args []string) (order, error) {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		return order{}, errHelp
	}
	o := order{verb: args[0], node: 1}
	if !slices.Contains([]string{"up", "down", "status", "env", "config", "kill", "start", "fetch", "need"}, o.verb) {
		return order{}, fmt.Errorf("no verb is called %q: up, down, status, env, config, kill, start, fetch, need", o.verb)
	}
	cluster := false
	flags := flag.NewFlagSet(o.verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.IntVar(&o.nodes, "nodes", 1, "")
	flags.StringVar(&o.heap, "heap", "256m", "")
	flags.BoolVar(&cluster, "cluster", false, "")
	flags.BoolVar(&o.secure, "secure", false, "")
	flags.BoolVar(&o.keep, "keep", false, "")
	flags.BoolVar(&o.install, "install", false, "")
	flags.StringVar(&o.state, "state", "", "")
	flags.StringVar(&o.prefix, "prefix", "MAYFLY_TEST", "")
	var words []string
	for rest := args[1:]; len(rest) > 0; {
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			return order{}, errHelp
		} else if err != nil {
			return order{}, err
		}
		if rest = flags.Args(); len(rest) > 0 {
			words, rest = append(words, rest[0]), rest[1:]
		}
	}
	if err := o.take(words); err != nil {
		return order{}, err
	}
	if len(o.servers) == 0 && slices.Contains([]string{"up", "fetch", "need"}, o.verb) {
		o.servers = everyday()
	}
	if cluster && !slices.Contains(o.servers, "redis-cluster") {
		o.servers = append(o.servers, "redis-cluster")
	}
	return o, o.check()
}

func (o *order) take(words []string) error {
	for i, w := range words {
		_, known := recipeOf(w)
		number, err := strconv.Atoi(w)
		switch {
		case known && !slices.Contains(o.servers, w):
			o.servers = append(o.servers, w)
		case known:
		case o.oneNode() && err == nil && i == len(words)-1:
			o.node = number
		default:
			return fmt.Errorf("no server is called %q: cassandra, kafka, redis, redis-cluster, s3", w)
		}
	}
	return nil
}

func (o order) oneNode() bool { return o.verb == "kill" || o.verb == "start" }

func (o order) check() error {
	switch {
	case o.oneNode() && len(o.servers) != 1:
		return fmt.Errorf("%s takes one server and the number of a node: %s cassandra 2", o.verb, o.verb)
	case slices.Contains([]string{"status", "env", "config"}, o.verb) && len(o.servers) > 0:
		return fmt.Errorf("%s speaks of all servers and takes no name", o.verb)
	case o.nodes < 1 || o.nodes > 9:
		return errors.New("--nodes is 1 to 9")
	case !regexp.MustCompile(`^[1-9][0-9]*[mg]$`).MatchString(o.heap):
		return fmt.Errorf("--heap %s: write it as Java does, 256m or 1g", o.heap)
	case !regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`).MatchString(o.prefix) || strings.HasSuffix(o.prefix, "_"):
		return fmt.Errorf("--prefix %s: capital letters, digits, _ between them", o.prefix)
	}
	return nil
}
