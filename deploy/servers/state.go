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

// state records the servers and processes of one state folder. It is saved before the
// wait for a server, so that down finds the server whatever happens during the wait.
type state struct {
	Servers []server `json:"servers"`
}

// server is one Cassandra ring, Kafka broker, Redis or S3 server, with one or more
// nodes.
type server struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`
	Secure  bool    `json:"secure,omitempty"`
	Heap    string  `json:"heap,omitempty"`
	NoHints bool    `json:"no_hints,omitempty"`
	Secrets secrets `json:"secrets"`
	Nodes   []node  `json:"nodes"`
}

// secrets are created with each server.
type secrets struct {
	User      string `json:"user,omitempty"`
	Password  string `json:"password,omitempty"`
	Authority string `json:"authority,omitempty"` // CA file that signed the server's certificate
}

type node struct {
	Number  int            `json:"number"`
	Address string         `json:"address"`
	Ports   map[string]int `json:"ports"`
	Folder  string         `json:"folder"`
	Command command        `json:"command"`
	Process *process       `json:"process,omitempty"` // nil if it was killed, stopped or never started
}

// command is saved, so that start runs the same node with the same data.
type command struct {
	Args []string `json:"args"`
	Env  []string `json:"env,omitempty"` // in addition to PATH, HOME and LANG
}

func (n node) at(port string) string { return fmt.Sprintf("%s:%d", n.Address, n.Ports[port]) }
func (n node) log() string           { return filepath.Join(n.Folder, "log.txt") }
func (n node) data() string          { return filepath.Join(n.Folder, "data") }
func (n node) running() bool         { return n.Process != nil && n.Process.alive() }

func (s server) folder() string { return filepath.Dir(s.Nodes[0].Folder) }
func (s server) running() bool  { return slices.ContainsFunc(s.Nodes, node.running) }

func (r *runner) load() (*state, error) {
	text, err := os.ReadFile(filepath.Join(r.folder, "state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return &state{}, nil
	}
	if err != nil {
		return nil, err
	}
	var st state
	if err := json.Unmarshal(text, &st); err != nil {
		return nil, fmt.Errorf("read %s/state.json, which names the processes to stop: %w", r.folder, err)
	}
	return &st, nil
}

// save replaces the file atomically, because readers do not lock it. Only its owner may
// read it, because it contains passwords.
func (r *runner) save(st *state) error {
	text, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	fresh := filepath.Join(r.folder, "state.json.new")
	if err := os.WriteFile(fresh, text, 0o600); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(r.folder, "state.json"))
}

func (st *state) find(name string) *server {
	i := slices.IndexFunc(st.Servers, func(s server) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &st.Servers[i]
}

// put adds a server or replaces the one with the same name.
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
