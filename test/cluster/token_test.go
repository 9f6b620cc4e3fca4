//go:build servers

package cluster

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/client"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store/storetest"
)

// A token that one node has denied is refused by the other as of the answer, although
// that one remembers that it was accepted; another token of the same user is not.
func TestATokenThatOneNodeDeniesIsRefusedByTheOtherAtOnce(t *testing.T) {
	t.Parallel()
	w := reusedCluster(t, servers(t))
	nodes := []*process{w.start("a", nil), w.start("b", nil)}
	tokens := pick(40, 1000)
	for n := range tokens {
		user := fmt.Sprintf("ana%d", n%7)
		denied, kept := w.token(user, account.User), w.token(user, account.User)
		by, other := nodes[n%2], nodes[1-n%2]
		for range 2 {
			w.wantAnswer("before its denial", other, denied, "2xx")
		}
		w.wantAnswer("before its denial", by, denied, "2xx")
		if n == 0 {
			w.denyByCommand(by, denied)
		} else if err := w.personAt(by.admin, "operator", account.Admin).DenyToken(t.Context(), wire.TokenDenial{Token: denied, Reason: "a test"}); err != nil {
			t.Fatal(err)
		}
		w.wantAnswer("denied by the other", other, denied, "401")
		w.wantAnswer("denied by it", by, denied, "401")
		w.wantAnswer("another of the user", other, kept, "2xx")
	}
	storetest.Proof(t, "tokens denied by one node of two", "refused by the other at once", tokens)
}

// wantAnswer asks a node with a token.
func (w *testCluster) wantAnswer(what string, p *process, token, want string) {
	w.Helper()
	c, err := client.New(p.api, client.Options{Token: token, HTTP: w.http, Retries: -1})
	if err != nil {
		w.Fatal(err)
	}
	_, err = c.Preflight(context.Background())
	if got := answerOf(err); got != want {
		w.Errorf("%s, a token at %s: %s, must be %s", what, p.name, got, want)
	}
}

// denyByCommand denies a token as an operator does.
func (w *testCluster) denyByCommand(p *process, token string) {
	w.Helper()
	path, err := binary()
	if err != nil {
		w.Fatal(err)
	}
	cmd := exec.Command(path, "token", "deny", "--admin", p.admin, "--token", w.token("operator", account.Admin), "--reason", "a test")
	cmd.Dir, cmd.Env, cmd.Stdin = w.folder, ownEnviron(), strings.NewReader(token+"\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.Fatalf("%v\n%s", err, out)
	}
}
