package resp

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/kv"
)

// version is the version of Redis whose answers the commands have.
const version = "7.0.15"

func ping(c *conn, w *Reply, args [][]byte) {
	switch {
	case len(args) > 2:
		w.Error(wrongNumber("ping"))
	case c.subscribed.on() && !w.three:
		w.Array(2)
		w.Text("pong")
		if len(args) == 2 {
			w.Bulk(args[1])
		} else {
			w.Text("")
		}
	case len(args) == 2:
		w.Bulk(args[1])
	default:
		w.Simple("PONG")
	}
}

func echo(_ *conn, w *Reply, args [][]byte) { w.Bulk(args[1]) }

func quit(c *conn, w *Reply, _ [][]byte) {
	w.Simple(okText)
	c.quit = true
}

func reset(c *conn, w *Reply, _ [][]byte) {
	c.discard()
	c.unsubscribe()
	c.space, c.check, c.until, c.name = nil, nil, 0, ""
	c.join(nil)
	c.in.Limits = Anonymous()
	w.three = false
	w.Simple("RESET")
}

func selectDB(_ *conn, w *Reply, args [][]byte) {
	switch n, good := parseInt(args[1]); {
	case !good:
		w.Error(errInteger)
	case n != 0:
		w.Error("ERR DB index is out of range")
	default:
		w.Simple(okText)
	}
}

const wrongPass = "WRONGPASS invalid username-password pair or user is disabled."

func auth(c *conn, w *Reply, args [][]byte) {
	switch {
	case len(args) > 3:
		w.Error(errSyntax)
	case len(args) < 3: // the namespace is missing
		w.Error(wrongPass)
	default:
		if c.authenticate(w, string(args[1]), string(args[2])) {
			w.Simple(okText)
		}
	}
}

// authenticate opens a namespace with one of its keys or with a token of its owner; if
// it cannot, it answers.
func (c *conn) authenticate(w *Reply, namespace, secret string) bool {
	if c.at.Off {
		w.Error(errorText(c.at.Err))
		return false
	}
	err := c.open(namespace, secret)
	switch {
	case err == nil:
		c.discard() // entries of another namespace may be watched
		c.unsubscribe()
		c.join(c.s.joinShare(c.space))
		c.in.Limits, c.checked = c.limits(), c.at.Steady
		return true
	case errors.Is(err, mayfly.Unavailable):
		w.Error(errorText(err))
	default:
		w.Error(wrongPass)
		if a := c.s.o.Accounts; a != nil && a.TakeRead(c.ctx, account.Principal{}, addressOf(c.nc), c.at.Now) != nil {
			c.quit = true // too many attempts from this address (C3)
		}
	}
	return false
}

// open opens a namespace.
func (c *conn) open(namespace, secret string) error {
	if a := c.s.o.Accounts; a != nil && strings.Count(secret, ".") == 2 { // a token; keys have no dot
		owner, until, err := ownerOf(c.ctx, a, secret, c.at.Now)
		if err != nil {
			return err
		}
		space, err := c.s.o.KV.OpenOwned(c.ctx, owner, namespace)
		if err != nil {
			return err
		}
		c.space, c.until = space, until
		c.check = func(ctx context.Context, now mayfly.Instant) error {
			if _, _, err := ownerOf(ctx, a, secret, now); err != nil {
				return err
			}
			return space.StillOpen(ctx, "")
		}
		return nil
	}
	space, id, err := c.s.o.KV.Open(c.ctx, namespace, secret)
	if err != nil {
		return err
	}
	c.space, c.until = space, 0
	c.check = func(ctx context.Context, _ mayfly.Instant) error { return space.StillOpen(ctx, id) }
	return nil
}

// ownerOf returns the user or service of a token, and when the token ends.
func ownerOf(ctx context.Context, a *account.Accounts, token string, now mayfly.Instant) (mayfly.UserID, mayfly.Instant, error) {
	p, err := a.Verify(ctx, token, now)
	if err != nil {
		return mayfly.UserID{}, 0, err
	}
	owner, err := kv.OwnerOf(p)
	return owner, p.Until, err
}

func hello(c *conn, w *Reply, args [][]byte) {
	three := w.three
	if len(args) > 1 {
		n, good := parseInt(args[1])
		switch {
		case !good:
			w.Error("ERR Protocol version is not an integer or out of range")
			return
		case n < 2 || n > 3:
			w.Error("NOPROTO unsupported protocol version")
			return
		}
		three = n == 3
	}
	name, named := "", false
	for i := 2; i < len(args); {
		switch {
		case is(args[i], "auth") && i+2 < len(args):
			if !c.authenticate(w, string(args[i+1]), string(args[i+2])) {
				return
			}
			i += 3
		case is(args[i], "setname") && i+1 < len(args):
			if name, named = string(args[i+1]), true; !goodClientName(name) {
				w.Error(badClientName)
				return
			}
			i += 2
		default:
			w.Error(fmt.Sprintf("ERR Syntax error in HELLO option '%s'", args[i]))
			return
		}
	}
	if c.space == nil {
		w.Error("NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
		return
	}
	if named {
		c.name = name
	}
	w.three = three
	c.subscribed.setProtocol(three)
	w.Map(7)
	w.Text("server")
	w.Text("redis")
	w.Text("version")
	w.Text(version)
	w.Text("proto")
	if three {
		w.Int(3)
	} else {
		w.Int(2)
	}
	w.Text("id")
	w.Int(c.id)
	w.Text("mode")
	w.Text("standalone")
	w.Text("role")
	w.Text("master")
	w.Text("modules")
	w.Array(0)
}

const badClientName = "ERR Client names cannot contain spaces, newlines or special characters."

func goodClientName(name string) bool {
	return len(name) <= 1024 && !strings.ContainsFunc(name, func(r rune) bool { return r < '!' || r > '~' })
}

func client(c *conn, w *Reply, args [][]byte) {
	switch sub := strings.ToLower(string(args[1])); {
	case sub == "id":
		w.Int(c.id)
	case sub == "getname" && c.name == "":
		w.Null()
	case sub == "getname":
		w.Text(c.name)
	case sub == "info":
		w.Verbatim(c.info())
	case sub == "setname" && !goodClientName(string(args[2])):
		w.Error(badClientName)
	case sub == "setname":
		c.name = string(args[2])
		w.Simple(okText)
	case !is(args[2], "lib-name") && !is(args[2], "lib-ver"):
		w.Error(fmt.Sprintf("ERR Unrecognized option '%s'", args[2]))
	default: // what the client says about its library is not kept
		w.Simple(okText)
	}
}

func (c *conn) info() string {
	protocol, queued := 2, -1
	if c.reply.three {
		protocol = 3
	}
	if c.multi != nil {
		queued = len(c.multi.queued)
	}
	return fmt.Sprintf("id=%d addr=%s laddr=%s name=%s age=%d db=0 multi=%d user=%s resp=%d\n",
		c.id, c.nc.RemoteAddr(), c.nc.LocalAddr(), c.name, int(time.Since(c.opened).Seconds()), queued, c.space.Name, protocol)
}

func timeNow(c *conn, w *Reply, _ [][]byte) {
	w.Array(2)
	w.Text(strconv.FormatInt(int64(c.at.Now)/1000, 10))
	w.Text(strconv.FormatInt(int64(c.at.Now)%1000*1000, 10))
}

func describeCommands(c *conn, w *Reply, args [][]byte) {
	names := make([]string, 0, len(c.s.commands))
	for name := range c.s.commands {
		names = append(names, name)
	}
	slices.Sort(names)
	switch {
	case len(args) == 1, is(args[1], "info") && len(args) == 2:
		w.Array(len(names))
		for _, name := range names {
			describeCommand(w, c.s.commands[name])
		}
	case is(args[1], "info"):
		w.Array(len(args) - 2)
		for _, arg := range args[2:] {
			if cmd := c.s.commands[strings.ToLower(string(arg))]; cmd != nil {
				describeCommand(w, cmd)
			} else {
				w.NullArray()
			}
		}
	case is(args[1], "count"):
		w.Int(int64(len(names)))
	case is(args[1], "list"):
		texts(w, names)
	default: // docs
		w.Map(0)
	}
}

func describeCommand(w *Reply, cmd *command) {
	flag := "readonly"
	if cmd.write {
		flag = "write"
	}
	w.Array(6)
	w.Text(cmd.name)
	w.Int(int64(cmd.arity))
	w.Array(1)
	w.Simple(flag)
	w.Int(int64(cmd.first))
	w.Int(int64(cmd.last))
	w.Int(int64(cmd.step))
}

func info(c *conn, w *Reply, args [][]byte) {
	if !c.takes(w, 1) {
		return
	}
	usage, err := c.s.o.KV.Usage(c.ctx, c.at)
	if err != nil {
		w.Error(errorText(err))
		return
	}
	stats, err := c.space.Stats(c.ctx, c.at)
	if err != nil {
		w.Error(errorText(err))
		return
	}
	sections := []struct{ name, text string }{
		{"Server", fmt.Sprintf("redis_version:%s\r\nmayfly_version:%s\r\nredis_mode:standalone\r\nuptime_in_seconds:%d\r\n", version, c.s.o.Version, int(time.Since(c.s.started).Seconds()))},
		{"Clients", fmt.Sprintf("connected_clients:%d\r\nmaxclients:%d\r\n", c.s.Connections(), c.s.o.Clients)},
		{"Memory", fmt.Sprintf("maxmemory:%d\r\n", c.space.Settings().Quota)},
		{"Persistence", fmt.Sprintf("loading:0\r\naof_enabled:1\r\nappendfsync:%s\r\n", usage.Sync)},
		{"Stats", fmt.Sprintf("total_connections_received:%d\r\ntotal_commands_processed:%d\r\n", c.s.accepted.Load(), c.s.Commands())},
		{"Replication", "role:master\r\nconnected_slaves:0\r\n"},
		{"Cluster", "cluster_enabled:0\r\n"},
		{"Keyspace", fmt.Sprintf("db0:keys=%d,expires=0,avg_ttl=0\r\n", stats.Keys)},
	}
	var text strings.Builder
	for _, s := range sections {
		all := len(args) == 1
		for _, arg := range args[1:] {
			all = all || is(arg, s.name) || is(arg, "all") || is(arg, "default") || is(arg, "everything")
		}
		if all {
			if text.Len() > 0 {
				text.WriteString("\r\n")
			}
			text.WriteString("# " + s.name + "\r\n" + s.text)
		}
	}
	w.Verbatim(text.String())
}

func config(c *conn, w *Reply, args [][]byte) {
	usage, err := c.s.o.KV.Usage(c.ctx, c.at)
	if err != nil {
		w.Error(errorText(err))
		return
	}
	settings := c.space.Settings()
	all := [][2]string{
		{"appendfsync", usage.Sync},
		{"appendonly", "yes"},
		{"databases", "1"},
		{"maxclients", strconv.Itoa(c.s.o.Clients)},
		{"maxmemory", strconv.FormatInt(settings.Quota, 10)},
		{"maxmemory-policy", "noeviction"},
		{"proto-max-bulk-len", strconv.Itoa(settings.MaxValue)},
		{"save", ""},
		{"timeout", strconv.Itoa(int(c.s.o.Idle.Seconds()))},
	}
	var found [][2]string
	for _, pair := range all {
		for _, pattern := range args[2:] {
			if globMatch([]byte(strings.ToLower(string(pattern))), []byte(pair[0])) {
				found = append(found, pair)
				break
			}
		}
	}
	w.Map(len(found))
	for _, pair := range found {
		w.Text(pair[0])
		w.Text(pair[1])
	}
}
