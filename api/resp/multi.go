package resp

import (
	"errors"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/kv"
)

// transaction is the commands since MULTI.
type transaction struct {
	queued []queued
	size   int  // bytes of them, taken from the budget
	dirty  bool // one was refused: EXEC executes nothing
	begun  time.Time
}

// endOldTransaction forgets the commands of a transaction that was begun longer ago than
// a client may be idle, so that commands that only keep the connection do not keep them.
func (c *conn) endOldTransaction() {
	if c.multi != nil && time.Since(c.multi.begun) >= c.s.o.Idle {
		c.spoil()
	}
}

// spoil makes EXEC execute nothing.
func (c *conn) spoil() {
	c.forgetQueued()
	c.multi.dirty = true
}

// forgetQueued forgets the commands of the transaction.
func (c *conn) forgetQueued() {
	c.budget.Return(c.multi.size)
	c.multi.queued, c.multi.size = nil, 0
}

type queued struct {
	cmd  *command
	args [][]byte
}

// queue adds a command to the transaction. Its memory belongs to the connection until
// EXEC or DISCARD.
func (c *conn) queue(cmd *command, args [][]byte) step {
	size := argCost
	for _, arg := range args {
		size += len(arg) + argCost
	}
	switch {
	case c.multi.dirty: // nothing of it will be executed
		return answer(func(w *Reply) { w.Simple("QUEUED") })
	case c.multi.size+size > kv.MaxGroup || !c.budget.Take(size):
		c.spoil()
		return failed(ErrMemory.Error())
	}
	c.multi.size += size
	c.multi.queued = append(c.multi.queued, queued{cmd, args})
	return answer(func(w *Reply) { w.Simple("QUEUED") })
}

// discard ends the transaction and forgets the watched entries.
func (c *conn) discard() {
	if c.multi != nil {
		c.forgetQueued()
	}
	c.multi = nil
	c.forget()
}

// forget forgets the watched entries.
func (c *conn) forget() {
	for i := range c.watched {
		c.budget.Return(len(c.watched[i].Key) + watchCost)
	}
	c.watched, c.watching = nil, nil
}

func multi(c *conn, w *Reply, _ [][]byte) {
	if c.multi != nil {
		w.Error("ERR MULTI calls can not be nested")
		return
	}
	c.multi = &transaction{begun: time.Now()}
	w.Simple(okText)
}

func discard(c *conn, w *Reply, _ [][]byte) {
	if c.multi == nil {
		w.Error("ERR DISCARD without MULTI")
		return
	}
	c.discard()
	w.Simple(okText)
}

// watchCost is about what a watched entry takes beside its key.
const watchCost = 160

// watch reads entries, so that EXEC can tell whether they have changed.
func watch(c *conn, w *Reply, args [][]byte) {
	if c.multi != nil {
		w.Error("ERR WATCH inside MULTI is not allowed")
		return
	}
	if !c.takes(w, len(args)-1) {
		return
	}
	for _, arg := range args[1:] {
		key := string(arg)
		if c.watching[key] {
			continue
		}
		before := c.held.Load()
		found, err := c.applyGroup(kv.Group{Ops: []kv.Op{{Key: key}}}, maxAnswer)
		if err != nil {
			w.Error(errorText(err))
			return
		}
		c.budget.Return(int(c.held.Swap(before) - before)) // the value is not kept
		if !c.budget.Take(len(key) + watchCost) {
			w.Error(ErrMemory.Error())
			return
		}
		if c.watching == nil {
			c.watching = map[string]bool{}
		}
		e := found[0].Old
		e.Key, e.Value = key, nil
		c.watched, c.watching[key] = append(c.watched, e), true
	}
	w.Simple(okText)
}

func unwatch(c *conn, w *Reply, _ [][]byte) {
	c.forget()
	w.Simple(okText)
}

// exec executes the transaction as one group. No command that can be in one reads or
// writes entries in another way: it would be executed before or after all of the others.
func exec(c *conn, w *Reply, _ [][]byte) {
	t := c.multi
	if t == nil {
		w.Error("ERR EXEC without MULTI")
		return
	}
	watched := c.watched
	defer c.discard()
	if t.dirty {
		w.Error("EXECABORT Transaction discarded because of previous errors.")
		return
	}
	c.multi = nil // for commands that ask
	defer func() { c.multi = t }()
	steps := make([]step, len(t.queued))
	var ops []kv.Op
	for i, q := range t.queued {
		switch {
		case q.cmd.plan == nil:
			steps[i] = answer(func(w *Reply) { q.cmd.run(c, w, q.args) })
		case !c.charge(q.cmd, q.args):
			w.Error(ErrMemory.Error())
			return
		default:
			steps[i] = c.planned(q.cmd, q.args)
		}
		ops = append(ops, steps[i].ops...)
	}
	var results []kv.Result
	err := c.takeRate(steps)
	if err == nil {
		results, err = c.applyGroup(kv.Group{Watch: watched, Ops: ops}, maxAnswer)
	}
	switch {
	case errors.Is(err, mayfly.Conflict):
		w.NullArray()
	case err != nil:
		w.Error(errorText(err))
	default:
		w.Array(len(steps))
		c.answer(steps, results)
	}
}
