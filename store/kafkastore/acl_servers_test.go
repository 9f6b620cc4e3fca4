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

// enableACLs makes the broker check permissions and returns a client that has all of
// them: connections to the broker's internal listener are the super user ANONYMOUS.
func (b *ownBroker) enableACLs() *kadm.Client {
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
	listener := regexp.MustCompile(`BROKER://([0-9.:]+)`).FindSubmatch(text)
	client, err := kgo.NewClient(kgo.SeedBrokers(string(listener[1])))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

func TestOpenAndCheckReportMissingPermissions(t *testing.T) {
	t.Parallel()
	b := startBroker(t, "--secure")
	o := b.options()
	o.Timeout = 10 * time.Second
	root := b.enableACLs()
	user := "User:" + o.Credentials.User
	allow := func(acls *kadm.ACLBuilder) {
		t.Helper()
		made, err := root.CreateACLs(t.Context(), acls.Allow(user).AllowHosts())
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
	// expectError retries until the error contains these words, or, without words, until
	// there is no error: the broker applies a permission a moment later.
	expectError := func(words ...string) {
		t.Helper()
		var err error
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(pollInterval) {
			err = try()
			missing := func(word string) bool { return !strings.Contains(err.Error(), word) }
			if (err != nil) == (len(words) > 0) && !slices.ContainsFunc(words, missing) {
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
	expectError("write on topic "+births, "--operation write --topic "+births, "write on topic "+ends)
	allow(topics(births).Operations(kadm.OpWrite))
	allow(topics(ends).Operations(kadm.OpWrite))
	expectError("read on topic "+births, "read on groups "+births+".*", "--group "+ends+". --resource-pattern-type prefixed")

	s := open(t, o) // it has the permissions that a node needs
	if err := s.Append(t.Context(), life(t, 1)...); err != nil {
		t.Fatal(err)
	}
	allow(topics(births, ends).Operations(kadm.OpRead))
	allow(kadm.NewACLs().Groups(births+".", ends+".").ResourcePatternType(kadm.ACLPatternPrefixed).Operations(kadm.OpRead))
	expectError()
	if _, err := join(t, s, "any-group").Next(t.Context(), 1); err != nil {
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
				t.Errorf("%s: the check leaves group %s behind", name, group)
			}
		}
	}
}
