package main

import (
	"fmt"
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
