package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
)

func (h *house) status() error {
	st, err := h.load()
	if err != nil {
		return err
	}
	if len(st.Servers) == 0 {
		fmt.Fprintf(h.out, "nothing was started in %s\n", h.folder)
		return nil
	}
	table := tabwriter.NewWriter(h.out, 0, 0, 2, ' ', 0)
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

// env prints the environment of what runs, for a shell to read.
func (h *house) env() error {
	st, err := h.load()
	if err != nil {
		return err
	}
	printed := false
	for _, s := range st.Servers {
		r, known := recipeOf(s.Name)
		if !known || !s.running() {
			continue
		}
		for _, v := range r.env(s) {
			fmt.Fprintf(h.out, "export %s_%s='%s'\n", h.prefix, v.name, strings.ReplaceAll(v.value, "'", `'\''`))
			printed = true
		}
	}
	if !printed {
		return fmt.Errorf("nothing is up in %s: go run ./deploy/servers up", h.folder)
	}
	return nil
}

// all are the addresses that clients use, one for each node.
func (s server) all() []string {
	r, known := recipeOf(s.Name)
	if !known {
		return nil
	}
	var list []string
	for _, n := range s.Nodes {
		list = append(list, n.at(r.door()))
	}
	return list
}

// config prints a configuration of mayfly for what runs, so that
// mayfly serve --config FILE is a node on it.
func (h *house) config() error {
	st, err := h.load()
	if err != nil {
		return err
	}
	found := map[string]string{}
	for _, s := range st.Servers {
		r, known := recipeOf(s.Name)
		if !known || !s.running() {
			continue
		}
		for _, v := range r.env(s) {
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
		return fmt.Errorf("a cluster needs all four servers, and not all are up in %s: go run ./deploy/servers up", h.folder)
	}
	_, err = fmt.Fprint(h.out, configOf(h.folder, found))
	return err
}

// configOf is the configuration for servers whose environment was found.
func configOf(folder string, found map[string]string) string {
	return fmt.Sprintf(`# A node of mayfly on the servers in %s.
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
		quote(found["S3"]), found["S3_REGION"], quote(found["S3_KEY"]), quote(found["S3_SECRET"]), authority(found["S3_CA"]),
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

// wire are the lines of a server with TLS and credentials.
func wire(found map[string]string, name string) string {
	if found[name+"_CA"] == "" {
		return ""
	}
	return "  user: " + quote(found[name+"_USER"]) + "\n  password: " + quote(found[name+"_PASSWORD"]) + "\n  tls: true\n" + authority(found[name+"_CA"])
}

func authority(file string) string {
	if file == "" {
		return ""
	}
	return "  ca_file: " + quote(file) + "\n"
}
