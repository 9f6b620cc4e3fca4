package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// state is what one state folder holds: which servers, where, which processes.
// It is written before a server is waited for, so that down finds it whatever
// happens in between.
type state struct {
	Servers []server `json:"servers"`
}

// server is one ring, broker or bucket keeper: one or more nodes that belong
// together.
type server struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`
	Secure  bool    `json:"secure,omitempty"`
	Heap    string  `json:"heap,omitempty"`
	Secrets secrets `json:"secrets"`
	Nodes   []node  `json:"nodes"`
}

// secrets are made for each server when it is made.
type secrets struct {
	User      string `json:"user,omitempty"`
	Password  string `json:"password,omitempty"`
	Authority string `json:"authority,omitempty"` // file of the certificate that signed the servers' own
}

type node struct {
	Number  int            `json:"number"`
	Address string         `json:"address"`
	Ports   map[string]int `json:"ports"`
	Folder  string         `json:"folder"`
	Command command        `json:"command"`
	Process *process       `json:"process,omitempty"` // nil: killed, stopped, or never begun
}

// command is kept, so that start brings back the same node on the same data.
type command struct {
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"` // beside PATH, HOME and LANG
}

func (n node) at(port string) string { return fmt.Sprintf("%s:%d", n.Address, n.Ports[port]) }
func (n node) log() string           { return filepath.Join(n.Folder, "log.txt") }
func (n node) data() string          { return filepath.Join(n.Folder, "data") }
func (n node) running() bool         { return n.Process != nil && n.Process.alive() }

func (s server) folder() string { return filepath.Dir(s.Nodes[0].Folder) }
func (s server) running() bool  { return slices.ContainsFunc(s.Nodes, node.running) }

func (h *house) load() (*state, error) {
	text, err := os.ReadFile(filepath.Join(h.folder, "state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return &state{}, nil
	}
	if err != nil {
		return nil, err
	}
	var st state
	if err := json.Unmarshal(text, &st); err != nil {
		return nil, fmt.Errorf("%s/state.json cannot be read, so nothing can be stopped by it: %w", h.folder, err)
	}
	return &st, nil
}

// save replaces the file as a whole; its readers do not lock. It holds
// passwords: nobody else reads it.
func (h *house) save(st *state) error {
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	fresh := filepath.Join(h.folder, "state.json.new")
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(h.folder, "state.json"))
}

func (st *state) find(name string) *server {
	i := slices.IndexFunc(st.Servers, func(s server) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &st.Servers[i]
}

// put adds a server or takes the place of the one of its name.
func (st *state) put(s server) *server {
	if old := st.find(s.Name); old != nil {
		*old = s
		return old
	}
	st.Servers = append(st.Servers, s)
	return &st.Servers[len(st.Servers)-1]
}

func (st *state) remove(name string) {
	st.Servers = slices.DeleteFunc(st.Servers, func(s server) bool { return s.Name == name })
}
