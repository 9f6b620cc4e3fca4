//go:build servers

package kafkastore

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/mayflyhq/mayfly"
)

// guard makes the broker check rights and returns somebody who has all of them: the
// broker's own door lets in whoever comes, as ANONYMOUS.
func (b *ownBroker) guard() *kadm.Client {
	b.t.Helper()
	files, err := filepath.Glob(filepath.Join(b.state, "kafka", "*", "conf", "kafka.properties"))
	if err != nil || len(files) != 1 {
		b.t.Fatalf("%v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		b.t.Fatal(err)
	}
	b.kill()
	text = append(text, "\nauthorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users=User:ANONYMOUS\n"...)
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.start()
	door := regexp.MustCompile(`BROKER://([0-9.:]+)`).FindSubmatch(text)
	client, err := kgo.NewClient(kgo.SeedBrokers(string(door[1])))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

func TestARightThatIsMissingIsSaidAtTheStartOrByTheCheck(t *testing.T) {
	t.Parallel()
	b := startBroker(t, "--secure")
	o := b.options()
	o.Patience = 10 * time.Second
	root := b.guard()
	user := "User:" + o.Credentials.User
	allow := func(rights *kadm.ACLBuilder) {
		t.Helper()
		made, err := root.CreateACLs(t.Context(), rights.Allow(user).AllowHosts())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range made {
			if m.Err != nil {
				t.Fatal(m.Err)
			}
		}
	}
	try := func() error {
		s, err := Open(t.Context(), o)
		if err != nil {
			return err
		}
		return errors.Join(s.Check(t.Context()), s.Close())
	}
	// says tries until these words are said, or nothing is wrong: the broker hears of a
	// right a moment later.
	says := func(words ...string) {
		t.Helper()
		var err error
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(lookAgain) {
			err = try()
			unsaid := func(word string) bool { return !strings.Contains(err.Error(), word) }
			if (err != nil) == (len(words) > 0) && !slices.ContainsFunc(words, unsaid) {
				return
			}
		}
		t.Fatalf("%v, want %q in it", err, words)
	}
	births, ends := o.topic(mayfly.Births), o.topic(mayfly.Ends)
	topics := func(names ...string) *kadm.ACLBuilder {
		return kadm.NewACLs().Topics(names...).ResourcePatternType(kadm.ACLPatternLiteral)
	}
	allow(topics(births, ends).Operations(kadm.OpCreate, kadm.OpDescribe, kadm.OpDescribeConfigs))
	says("write on topic "+births, "--operation write --topic "+births, "write on topic "+ends)
	allow(topics(births).Operations(kadm.OpWrite))
	allow(topics(ends).Operations(kadm.OpWrite))
	says("read on topic "+births, "read on groups "+births+".*", "--group "+ends+". --resource-pattern-type prefixed")

	s := open(t, o) // what a node needs, it has
	if err := s.Append(t.Context(), life(t, 1)...); err != nil {
		t.Fatal(err)
	}
	allow(topics(births, ends).Operations(kadm.OpRead))
	allow(kadm.NewACLs().Groups(births+".", ends+".").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpRead))
	says()
	if _, err := join(t, s, "anybody").Next(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
}

func TestTheBrokersOfTheEnvironmentPassTheCheck(t *testing.T) {
	t.Parallel()
	for _, name := range []string{broker, secureBroker} {
		s := open(t, brokerAt(t, name))
		if err := s.Check(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		groups, err := s.admin.ListGroups(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for group := range groups {
			if strings.HasPrefix(group, s.opts.Prefix) {
				t.Errorf("%s: the check leaves group %s", name, group)
			}
		}
	}
}
