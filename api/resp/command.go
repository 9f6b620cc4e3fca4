package resp

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/mayflyhq/mayfly/product/kv"
)

// command is a command of Redis. A command about entries has plan; any other has run
// and is executed after the commands before it.
type command struct {
	name  string
	arity int // with its name; negative: at least so many
	plan  func(c *conn, args [][]byte) step
	run   func(c *conn, w *Reply, args [][]byte)

	subs map[string]int // subcommands with their arity; nil: it has none

	write      bool
	anonymous  bool // allowed before AUTH
	immediate  bool // in MULTI executed at once
	alone      bool // not allowed in MULTI
	subscriber bool // allowed in RESP2 while subscribed

	first, last, step int // which arguments are keys, as COMMAND says it
}

// commandTable returns the commands by their names in lower case.
func commandTable(risky bool) map[string]*command {
	one := func(name string, arity int, write bool, plan func(*conn, [][]byte) step) command {
		return command{name: name, arity: arity, write: write, plan: plan, first: 1, last: 1, step: 1}
	}
	many := func(name string, write bool, plan func(*conn, [][]byte) step) command {
		return command{name: name, arity: -2, write: write, plan: plan, first: 1, last: -1, step: 1}
	}
	all := []command{
		{name: "ping", arity: -1, run: ping, subscriber: true},
		{name: "echo", arity: 2, run: echo},
		{name: "quit", arity: -1, run: quit, anonymous: true, immediate: true, subscriber: true},
		{name: "reset", arity: 1, run: reset, anonymous: true, immediate: true, subscriber: true},
		{name: "auth", arity: -2, run: auth, anonymous: true, alone: true},
		{name: "hello", arity: -1, run: hello, anonymous: true, alone: true},
		{name: "select", arity: 2, run: selectDB},
		{name: "client", arity: -2, run: client, subs: map[string]int{"id": 2, "getname": 2, "info": 2, "setname": 3, "setinfo": 4}},
		{name: "command", arity: -1, run: describeCommands, alone: true, subs: map[string]int{"count": 2, "list": 2, "info": -2, "docs": -2}},
		{name: "info", arity: -1, run: info, alone: true},
		{name: "config", arity: -2, run: config, alone: true, subs: map[string]int{"get": -3}},
		{name: "time", arity: 1, run: timeNow},
		{name: "multi", arity: 1, run: multi, immediate: true},
		{name: "exec", arity: 1, run: exec, immediate: true},
		{name: "discard", arity: 1, run: discard, immediate: true},
		{name: "watch", arity: -2, run: watch, immediate: true, first: 1, last: -1, step: 1},
		{name: "unwatch", arity: 1, run: unwatch},
		{name: "subscribe", arity: -2, run: subscribe, alone: true, subscriber: true},
		{name: "unsubscribe", arity: -1, run: unsubscribe, alone: true, subscriber: true},
		{name: "scan", arity: -2, run: scan, alone: true},
		{name: "dbsize", arity: 1, run: dbsize, alone: true},

		one("get", 2, false, get),
		many("mget", false, mget),
		one("set", -3, true, set),
		one("setex", 4, true, setex),
		one("psetex", 4, true, psetex),
		one("setnx", 3, true, setnx),
		one("getset", 3, true, getset),
		one("getdel", 2, true, getdel),
		one("getex", -2, true, getex),
		{name: "mset", arity: -3, write: true, plan: mset, first: 1, last: -1, step: 2},
		one("append", 3, true, appendTo),
		one("strlen", 2, false, strlen),
		one("incr", 2, true, incr),
		one("decr", 2, true, decr),
		one("incrby", 3, true, incrby),
		one("decrby", 3, true, decrby),
		one("incrbyfloat", 3, true, incrbyfloat),
		many("del", true, del),
		many("unlink", true, del),
		many("exists", false, exists),
		one("type", 2, false, typeOf),
		one("expire", -3, true, expire),
		one("pexpire", -3, true, pexpire),
		one("expireat", -3, true, expireat),
		one("pexpireat", -3, true, pexpireat),
		one("ttl", 2, false, ttl),
		one("pttl", 2, false, pttl),
		one("expiretime", 2, false, expiretime),
		one("pexpiretime", 2, false, pexpiretime),
		one("persist", 2, true, persist),
	}
	if risky {
		all = append(all, command{name: "keys", arity: 2, run: keys, alone: true}, command{name: "flushdb", arity: -1, write: true, run: flushdb, alone: true})
	}
	table := make(map[string]*command, len(all))
	for i := range all {
		table[all[i].name] = &all[i]
	}
	return table
}

const (
	errSyntax  = "ERR syntax error"
	errInteger = "ERR value is not an integer or out of range"
	errFloat   = "ERR value is not a valid float"
	errNoAuth  = "NOAUTH Authentication required."
	okText     = "OK"
)

// dispatch checks a command as Redis does and executes it, or adds it to the batch.
func (c *conn) dispatch(args [][]byte) {
	if len(c.steps) == 0 {
		c.begin()
	}
	if c.quit {
		return
	}
	c.endOldTransaction()
	cmd, problem := c.find(args)
	switch {
	case problem == "" && c.space == nil && !cmd.anonymous:
		problem = errNoAuth
	case problem == "" && c.multi != nil && cmd.alone:
		problem = "ERR Command not allowed inside a transaction"
	case problem == "" && c.subscribed.on() && !c.reply.three && !cmd.subscriber:
		problem = fmt.Sprintf("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context", cmd.name)
	case problem == "" && cmd.last < 0: // it takes several keys
		problem = c.crossSlot(cmd, args)
	}
	switch {
	case problem != "":
		if c.multi != nil {
			c.spoil()
		}
		if c.space != nil && !c.in.take(opCost) {
			problem = ErrMemory.Error()
		}
		c.add(failed(problem))
	case c.multi != nil && !cmd.immediate:
		c.add(c.queue(cmd, args))
	case cmd.plan != nil && !c.charge(cmd, args):
		c.add(failed(ErrMemory.Error()))
	case cmd.plan != nil:
		c.add(c.planned(cmd, args))
	default:
		if len(c.steps) > 0 {
			c.execute()
			c.begin()
		}
		if !c.quit {
			cmd.run(c, &c.reply, args)
		}
		if c.muchToSend() && !c.flush() {
			c.quit = true
		}
	}
}

// charge takes memory for the operations of a command, before they are made. It is given
// back with that of the arguments.
func (c *conn) charge(cmd *command, args [][]byte) bool {
	cost := opCost
	if cmd.last < 0 { // it takes several keys
		cost = opCost * ((len(args) - cmd.first) / cmd.step)
		for i := cmd.first; i < len(args); i += cmd.step {
			cost += 2 * len(args[i])
		}
	}
	return c.in.take(cost)
}

// crossSlot returns the error of a command whose keys are in several slots of a cluster.
func (c *conn) crossSlot(cmd *command, args [][]byte) string {
	for i := cmd.first + cmd.step; i < len(args); i += cmd.step {
		if err := c.space.OneSlot(string(args[cmd.first]), string(args[i])); err != nil {
			return errorText(err)
		}
	}
	return ""
}

// find returns the command, or the error that Redis answers with.
func (c *conn) find(args [][]byte) (*command, string) {
	var buf [32]byte
	name := args[0]
	if len(name) <= len(buf) {
		name = buf[:copy(buf[:], name)]
		for i, b := range name {
			if b >= 'A' && b <= 'Z' {
				name[i] = b + 'a' - 'A'
			}
		}
	}
	cmd := c.s.commands[string(name)]
	switch {
	case cmd == nil:
		return nil, unknownCommand(args)
	case wrongArity(cmd.arity, args):
		return nil, wrongNumber(cmd.name)
	case cmd.subs != nil && len(args) > 1:
		sub := strings.ToLower(string(args[1][:min(len(args[1]), 128)]))
		arity, known := cmd.subs[sub]
		switch {
		case !known:
			return nil, fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", args[1][:min(len(args[1]), 128)], strings.ToUpper(cmd.name))
		case wrongArity(arity, args):
			return nil, wrongNumber(cmd.name + "|" + sub)
		}
	}
	return cmd, ""
}

func wrongArity(arity int, args [][]byte) bool {
	return arity > 0 && len(args) != arity || len(args) < -arity
}

func unknownCommand(args [][]byte) string {
	var begin strings.Builder
	for _, arg := range args[1:] {
		if begin.Len() >= 128 {
			break
		}
		fmt.Fprintf(&begin, "'%s' ", arg[:min(len(arg), 128-begin.Len())])
	}
	return fmt.Sprintf("ERR unknown command '%s', with args beginning with: %s", args[0][:min(len(args[0]), 128)], begin.String())
}

func wrongNumber(name string) string {
	return fmt.Sprintf("ERR wrong number of arguments for '%s' command", name)
}

// planned returns the step of a command about entries, or the error that the limits of
// the namespace make of it.
func (c *conn) planned(cmd *command, args [][]byte) step {
	s := cmd.plan(c, args)
	s.cmd, s.args = cmd, args
	for i := range s.ops {
		if err := c.space.Prepare(&s.ops[i], c.at.Now); err != nil {
			text := errorText(err)
			return step{cmd: cmd, args: args, reply: func(w *Reply, _ []kv.Result) { w.Error(text) }}
		}
	}
	return s
}

// is reports whether an argument is a word, in any case.
func is(arg []byte, word string) bool {
	return len(arg) == len(word) && bytes.EqualFold(arg, []byte(word))
}

// read returns a step that reads one entry.
func read(key []byte, reply func(w *Reply, e kv.Entry)) step {
	return step{ops: []kv.Op{{Key: string(key)}}, reply: func(w *Reply, r []kv.Result) { reply(w, r[0].Old) }}
}

// write returns a step of one operation.
func write(op kv.Op, reply func(w *Reply, r kv.Result)) step {
	return step{ops: []kv.Op{op}, reply: func(w *Reply, r []kv.Result) { reply(w, r[0]) }}
}

// value answers with the value of an entry.
func value(w *Reply, e kv.Entry) {
	if e.Found {
		w.Bulk(e.Value)
	} else {
		w.Null()
	}
}

func ok(w *Reply, _ kv.Result) { w.Simple(okText) }
