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

const usage = `Real servers on this machine, on loopback, for tests and experiments.

  go run ./deploy/servers up     [server …]       start them, wait until they answer, print the environment variables
  go run ./deploy/servers down   [server …]       stop the servers that up started, remove their data
  go run ./deploy/servers status                  processes, addresses, memory
  go run ./deploy/servers env                     environment variables of the running servers, as export lines
  go run ./deploy/servers config                  a mayfly.yaml for a node on the running servers
  go run ./deploy/servers kill   server [node]    kill one process with SIGKILL, keep its data
  go run ./deploy/servers start  server [node]    start it again with its data and ports
  go run ./deploy/servers fetch  [server …]       download and build only
  go run ./deploy/servers need   [server …]       list what is missing on this machine

Servers: cassandra, kafka, redis, redis-cluster, s3. Default: cassandra kafka redis s3.

  --nodes N       Cassandra nodes, on 127.0.0.1, 127.0.0.2, … (1)
  --heap SIZE     heap of each Cassandra node (256m)
  --no-hints      Cassandra nodes keep no hints: one that was away gets what it missed by a repair only
  --cluster       also a Redis Cluster of three masters (redis-cluster)
  --secure        TLS and credentials on every server
  --keep          up: start with the data of the last run; down: keep the data
  --install       install missing packages (on Debian, as root)
  --state DIR     state folder; runs with different folders are independent
                  (${XDG_STATE_HOME:-$HOME/.local/state}/mayfly/servers)
  --prefix WORD   prefix of the environment variables (MAYFLY_TEST)
`

var errHelp = errors.New("help requested")

// options are the parsed command line.
type options struct {
	verb    string
	servers []string
	node    int // for kill and start
	nodes   int
	heap    string
	noHints bool
	secure  bool
	keep    bool
	install bool
	state   string
	prefix  string
}

func defaultServers() []string { return []string{"cassandra", "kafka", "redis", "s3"} }

// parse reads the command line. Flags and names may come in any order.
func parse(args []string) (options, error) {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		return options{}, errHelp
	}
	o := options{verb: args[0], node: 1}
	if !slices.Contains([]string{"up", "down", "status", "env", "config", "kill", "start", "fetch", "need"}, o.verb) {
		return options{}, fmt.Errorf("unknown command %q; use up, down, status, env, config, kill, start, fetch or need", o.verb)
	}
	cluster := false
	flags := flag.NewFlagSet(o.verb, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.IntVar(&o.nodes, "nodes", 1, "")
	flags.StringVar(&o.heap, "heap", "256m", "")
	flags.BoolVar(&o.noHints, "no-hints", false, "")
	flags.BoolVar(&cluster, "cluster", false, "")
	flags.BoolVar(&o.secure, "secure", false, "")
	flags.BoolVar(&o.keep, "keep", false, "")
	flags.BoolVar(&o.install, "install", false, "")
	flags.StringVar(&o.state, "state", "", "")
	flags.StringVar(&o.prefix, "prefix", "MAYFLY_TEST", "")
	var words []string
	for rest := args[1:]; len(rest) > 0; {
		if err := flags.Parse(rest); errors.Is(err, flag.ErrHelp) {
			return options{}, errHelp
		} else if err != nil {
			return options{}, err
		}
		if rest = flags.Args(); len(rest) > 0 {
			words, rest = append(words, rest[0]), rest[1:]
		}
	}
	if err := o.take(words); err != nil {
		return options{}, err
	}
	if len(o.servers) == 0 && slices.Contains([]string{"up", "fetch", "need"}, o.verb) {
		o.servers = defaultServers()
	}
	if cluster && !slices.Contains(o.servers, "redis-cluster") {
		o.servers = append(o.servers, "redis-cluster")
	}
	return o, o.check()
}

func (o *options) take(words []string) error {
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
			return fmt.Errorf("unknown server %q; use cassandra, kafka, redis, redis-cluster or s3", w)
		}
	}
	return nil
}

func (o options) oneNode() bool { return o.verb == "kill" || o.verb == "start" }

func (o options) check() error {
	switch {
	case o.oneNode() && len(o.servers) != 1:
		return fmt.Errorf("%s takes one server and a node number, such as %s cassandra 2", o.verb, o.verb)
	case slices.Contains([]string{"status", "env", "config"}, o.verb) && len(o.servers) > 0:
		return fmt.Errorf("%s prints all servers and takes no name", o.verb)
	case o.nodes < 1 || o.nodes > 9:
		return errors.New("--nodes must be 1 to 9")
	case !regexp.MustCompile(`^[1-9][0-9]*[mg]$`).MatchString(o.heap):
		return fmt.Errorf("invalid --heap %s; write it as for Java, such as 256m or 1g", o.heap)
	case !regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`).MatchString(o.prefix) || strings.HasSuffix(o.prefix, "_"):
		return fmt.Errorf("invalid --prefix %s; use capital letters, digits and _ between them", o.prefix)
	}
	return nil
}
