package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type kafka struct{}

func (kafka) version() string    { return "4.3.1" }
func (kafka) clientPort() string { return "client" }
func (kafka) tools() []tool      { return []tool{java17()} }

func (k kafka) software(in cache) (software, bool) {
	return jars{
		name: "kafka", version: k.version(), cost: "about 65 MB from Maven Central, 44 MB of them kept, one to two minutes",
		pom: text("kafka-pom.xml"), list: text("kafka-jars.sha256"),
	}.software(in), true
}

func (kafka) allocate(o options, p *ports) ([]node, error) {
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

// formatKafka creates the log folder of a new broker. An existing one has its cluster
// ID already and is not changed.
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
	id[0] &= 0x7f           // must not start with -, which would be read as an option
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// ping lists the brokers. A broker is listed only after its controller has registered
// it; before that it serves no requests.
func (kafka) ping(ctx context.Context, s server, n node) error {
	options := []kgo.Opt{kgo.SeedBrokers(n.at("client")), kgo.ClientID("servers"), kgo.RequestRetries(0), kgo.RetryTimeout(2 * time.Second)}
	encrypted, err := s.tls()
	if err != nil {
		return err
	}
	if encrypted != nil {
		auth := scram.Auth{User: s.Secrets.User, Pass: s.Secrets.Password}
		options = append(options, kgo.DialTLSConfig(encrypted), kgo.SASL(auth.AsSha512Mechanism()))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	brokers, err := kadm.NewClient(client).ListBrokers(ctx)
	if err == nil && len(brokers) == 0 {
		err = errors.New("the broker is not registered yet")
	}
	return err
}

func (kafka) settle(context.Context, server) error { return nil }

func (kafka) env(s server) []variable {
	return append([]variable{{"KAFKA", strings.Join(s.all(), ",")}}, s.credentials("KAFKA")...)
}
