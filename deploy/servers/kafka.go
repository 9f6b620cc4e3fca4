package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

type kafka struct{}

func (kafka) version() string { return "4.3.1" }
func (kafka) door() string    { return "client" }
func (kafka) tools() []tool   { return []tool{java17()} }

func (k kafka) software(in cache) (software, bool) {
	return jars{
		name: "kafka", version: k.version(), cost: "about 65 MB from Maven Central, 44 MB of them kept, one to two minutes",
		pom: text("kafka-pom.xml"), list: text("kafka-jars.sha256"),
	}.software(in), true
}

func (kafka) place(o order, p *ports) ([]node, error) {
	n := node{Address: "127.0.0.1", Ports: map[string]int{}}
	for _, name := range []string{"client", "broker", "controller"} {
		if name == "broker" && !o.secure {
			continue
		}
		port, err := p.take(n.Address)
		if err != nil {
			return nil, err
		}
		n.Ports[name] = port
	}
	return []node{n}, nil
}

func (kafka) prepare(ctx context.Context, s server, n node, lib string) (command, error) {
	java, err := findJava(ctx)
	if err != nil {
		return command{}, err
	}
	if err := folders(n, "conf", "data"); err != nil {
		return command{}, err
	}
	conf := filepath.Join(n.Folder, "conf")
	properties := filepath.Join(conf, "kafka.properties")
	err = fill("kafka.properties.tmpl", properties, map[string]any{
		"Address": n.Address, "Client": n.Ports["client"], "Broker": n.Ports["broker"], "Controller": n.Ports["controller"],
		"Data": n.data(), "Secure": s.Secure, "KeyAndCertificate": s.pem("both"), "Authority": s.Secrets.Authority,
	})
	if err != nil {
		return command{}, err
	}
	logging := filepath.Join(conf, "log4j2.properties")
	if err := os.WriteFile(logging, text("kafka-log4j2.properties"), 0o600); err != nil {
		return command{}, err
	}
	args := slices.Concat([]string{java}, lines("kafka-jvm.txt"), []string{"-Dlog4j2.configurationFile=" + logging, "-cp", filepath.Join(lib, "*")})

	if err := formatKafka(ctx, s, n, args, properties); err != nil {
		return command{}, err
	}
	return command{Args: append(args, "kafka.Kafka", properties)}, nil
}

// formatKafka makes the log folder of a new broker; one that is kept has a name
// for its cluster already and is left alone.
func formatKafka(ctx context.Context, s server, n node, java []string, properties string) error {
	_, err := os.Stat(filepath.Join(n.data(), "meta.properties"))
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	args := slices.Concat(java, []string{"kafka.tools.StorageTool", "format", "-t", clusterID(), "-c", properties})
	if s.Secure {
		args = append(args, "--add-scram", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", s.Secrets.User, s.Secrets.Password))
	}
	if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("format the log folder: %w\n%s", err, lastLines(string(out), 10))
	}
	return nil
}

func clusterID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[0] &= 0x7f           // does not begin with -, which would be read as an option
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// reach asks at the door of the clients whether it answers, and who the brokers
// are where no login is needed for that: in a secure one, at the broker's own.
func (kafka) reach(ctx context.Context, s server, n node) error {
	c, err := dial(ctx, s, n.at("client"))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := askVersions(c); err != nil {
		return err
	}
	if !s.Secure {
		return askBrokers(c)
	}
	own, err := (&net.Dialer{}).DialContext(ctx, "tcp", n.at("broker"))
	if err != nil {
		return err
	}
	defer own.Close()
	return askBrokers(own)
}

func (kafka) settle(context.Context, server) error { return nil }

func (kafka) env(s server) []variable {
	return append([]variable{{"KAFKA", strings.Join(s.all(), ",")}}, s.credentials("KAFKA")...)
}
