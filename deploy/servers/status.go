package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
)

// status prints a table of all nodes.
func (r *runner) status() error {
	st, err := r.load()
	if err != nil {
		return err
	}
	if len(st.Servers) == 0 {
		fmt.Fprintf(r.out, "nothing was started in %s\n", r.folder)
		return nil
	}
	table := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "server\tnode\tstate\tprocess\tMB\taddress\tlog")
	for _, s := range st.Servers {
		for i, address := range s.all() {
			n := s.Nodes[i]
			state, pid, megabytes := "down", "", ""
			if n.running() {
				state, pid, megabytes = "up", fmt.Sprint(n.Process.Pid), fmt.Sprint(n.Process.resident()>>20)
			} else if n.Process != nil {
				state = "died"
			}
			fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\n", s.Name, n.Number, state, pid, megabytes, address, n.log())
		}
	}
	return table.Flush()
}

// env prints the environment variables of the running servers as export lines.
func (r *runner) env() error {
	st, err := r.load()
	if err != nil {
		return err
	}
	printed := false
	for _, s := range st.Servers {
		rec, known := recipeOf(s.Name)
		if !known || !s.running() {
			continue
		}
		for _, v := range rec.env(s) {
			fmt.Fprintf(r.out, "export %s_%s='%s'\n", r.prefix, v.name, strings.ReplaceAll(v.value, "'", `'\''`))
			printed = true
		}
	}
	if !printed {
		return fmt.Errorf("no server runs in %s; start them with: go run ./deploy/servers up", r.folder)
	}
	return nil
}

// all returns the client address of each node.
func (s server) all() []string {
	rec, known := recipeOf(s.Name)
	if !known {
		return nil
	}
	var list []string
	for _, n := range s.Nodes {
		list = append(list, n.at(rec.clientPort()))
	}
	return list
}

// config prints a mayfly configuration that uses the running servers, for
// mayfly serve --config FILE.
func (r *runner) config() error {
	st, err := r.load()
	if err != nil {
		return err
	}
	found := map[string]string{}
	for _, s := range st.Servers {
		rec, known := recipeOf(s.Name)
		if !known || !s.running() {
			continue
		}
		for _, v := range rec.env(s) {
			found[v.name] = v.value
		}
		if s.Name == "cassandra" {
			found["COPIES"] = strconv.Itoa(min(3, len(s.Nodes)))
		}
	}
	if found["REDIS"] == "" {
		found["REDIS"] = found["REDIS_CLUSTER"]
	}
	if found["CASSANDRA"] == "" || found["KAFKA"] == "" || found["REDIS"] == "" || found["S3"] == "" {
		return fmt.Errorf("a cluster needs all four servers, and not all run in %s; start them with: go run ./deploy/servers up", r.folder)
	}
	_, err = fmt.Fprint(r.out, configOf(r.folder, found))
	return err
}

// configOf returns the configuration for servers with these environment variables.
func configOf(folder string, found map[string]string) string {
	return fmt.Sprintf(`# A mayfly node on the servers in %s.
profile: cluster
tokens:
  key_file: %s
cassandra:
  hosts: [%s]
  replication_factor: %s
%skafka:
  brokers: [%s]
  replication_factor: 1
  partitions: 16
%sredis:
  addresses: [%s]
%ss3:
  endpoint: %s
  region: %s
  key: %s
  secret: %s
%s  hot: %s/hot
  cold: %s/cold
  deletions: %s/deletions
`, folder, quote(filepath.Join(folder, "mayfly.key")),
		list(found["CASSANDRA"]), found["COPIES"], wire(found, "CASSANDRA"),
		list(found["KAFKA"]), wire(found, "KAFKA"), list(found["REDIS"]), wire(found, "REDIS"),
		quote(found["S3"]), found["S3_REGION"], quote(found["S3_KEY"]), quote(found["S3_SECRET"]), caFile(found["S3_CA"]),
		found["S3_BUCKET"], found["S3_BUCKET"], found["S3_BUCKET"])
}

func list(addresses string) string {
	words := strings.Split(addresses, ",")
	for i, word := range words {
		words[i] = quote(word)
	}
	return strings.Join(words, ", ")
}

func quote(text string) string { return strconv.Quote(text) }

// wire returns the configuration lines for TLS and credentials.
func wire(found map[string]string, name string) string {
	if found[name+"_CA"] == "" {
		return ""
	}
	return "  user: " + quote(found[name+"_USER"]) + "\n  password: " + quote(found[name+"_PASSWORD"]) + "\n  tls: true\n" + caFile(found[name+"_CA"])
}

func caFile(file string) string {
	if file == "" {
		return ""
	}
	return "  ca_file: " + quote(file) + "\n"
}
