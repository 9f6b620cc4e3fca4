package resp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/kv"
)

// conn is the connection of a client. All but out and the subscription is used by one
// goroutine.
type conn struct {
	s      *Server
	nc     net.Conn
	in     *Reader
	out    *output
	reply  Reply
	id     int64
	name   string
	opened time.Time
	idle   time.Time // the read deadline, if it is that of an idle client
	quit   bool      // close after the answers were sent

	space   *kv.Space // nil before AUTH
	check   func(ctx context.Context, now mayfly.Instant) error
	until   mayfly.Instant // when the token ends; 0: never
	checked mayfly.Instant // by the steady time

	ctx   context.Context
	work  *work         // nil while the client is silent
	at    clock.Reading // of the commands that are executed now
	steps []step        // commands whose operations wait for the others of the pipeline
	ops   int           // of steps

	budget *Budget      // of share
	share  *share       // nil before AUTH
	held   atomic.Int64 // bytes of budget for the answers that are being made

	multi    *transaction // nil outside of MULTI
	watched  []kv.Entry
	watching map[string]bool

	subscribed subscription

	parking parking
	fresh   bool // no command was executed in this goroutine
	moved   bool // the read was ended by move
}

// step is a command of a pipeline: operations and the function that answers it from
// their results. Without operations it is only an answer.
type step struct {
	ops   []kv.Op
	reply func(w *Reply, r []kv.Result)

	cmd  *command // nil: it does not depend on the time
	args [][]byte
}

func answer(do func(w *Reply)) step { return step{reply: func(w *Reply, _ []kv.Result) { do(w) }} }

func failed(text string) step { return answer(func(w *Reply) { w.Error(text) }) }

func newConn(s *Server, nc net.Conn, id int64) *conn {
	c := &conn{
		s: s, nc: nc, in: NewReader(nc, s.budget, Anonymous()), out: newOutput(nc, s.o, s.budget), id: id, opened: time.Now(),
		subscribed: subscription{mu: &sync.Mutex{}}, budget: s.budget,
	}
	c.in.parks, c.in.wakes, c.in.buffers = c.park, c.wake, &s.buffers
	return c
}

const (
	maxBatch    = 1024     // commands of a pipeline that are executed as one group
	maxUnknown  = 16       // those of a client before AUTH
	maxBatchOps = 4096     // operations of them
	maxHeld     = 4 << 20  // bytes of them
	maxAnswer   = 32 << 20 // bytes of values that one command or transaction may answer with
	batchAnswer = 1 << 20  // those of a pipeline that is executed as one group
	smallAnswer = 16 << 10 // what is taken for an answer before its size is known
	freeAnswer  = 2 << 10  // what an answer may have if nothing is left
)

// opCost is about what an operation and its result take beside the key and the values,
// in this package and in the store.
const opCost = 640

// serve reads and executes commands until the connection ends, and calls ended then.
func (c *conn) serve(ctx context.Context, ended func()) {
	var cancel context.CancelFunc
	c.ctx, cancel = context.WithCancel(ctx)
	c.run(func() {
		cancel()
		c.unsubscribe()
		c.discard()
		c.in.Release()
		c.out.end()
		c.budget.Return(int(c.held.Swap(0)))
		c.join(nil)
		_ = c.nc.Close() // every answer was sent, or cannot be
		ended()
	})
}

// run does the work of serve. While the client is silent it goes on in a new goroutine:
// the stack of one that has executed commands is several times as large.
func (c *conn) run(end func()) {
	c.fresh = true
	for !c.quit {
		err := c.readBatch()
		if c.moved && errors.Is(err, os.ErrDeadlineExceeded) {
			go c.run(end)
			return
		}
		if err != nil {
			c.fail(err)
			break
		}
		c.fresh = false
		c.execute()
		if !c.flush() {
			break
		}
		c.in.Release()
	}
	end()
}

// readBatch waits for a command and takes those that have arrived with it.
func (c *conn) readBatch() error {
	c.moved = false
	c.setDeadline()
	for n := 0; n == 0 || n < c.maxBatch() && c.ops < maxBatchOps && !c.quit && c.in.held < maxHeld && c.in.Ready(); n++ {
		args, err := c.in.Next()
		if err != nil {
			if n > 0 || len(c.steps) > 0 {
				c.execute()
			}
			return err
		}
		c.s.executed.Add(1)
		c.dispatch(args)
	}
	return nil
}

// maxBatch returns how many commands are executed as one group.
func (c *conn) maxBatch() int {
	if c.space == nil {
		return maxUnknown
	}
	return maxBatch
}

// begin reads the clock for commands that are executed together. If what opened the
// namespace is not good any more, it answers that and ends the connection.
func (c *conn) begin() {
	if err := c.refresh(); err != nil {
		c.steps = append(c.steps, failed(errorText(err)))
	}
}

// refresh reads the clock, and once a second whether what opened the namespace is still
// good; else the connection is to end. It measures by the steady time: the other one may
// have taken a step that is taken back.
func (c *conn) refresh() error {
	c.at = c.s.o.Read()
	if err := c.s.o.Open(); err != nil {
		c.at.Off, c.at.Confirmed, c.at.Err = true, false, err
	}
	passed := c.at.Steady - c.checked
	if c.space == nil || passed >= 0 && passed < 1000 && (c.until == 0 || c.at.Now < c.until) {
		return nil
	}
	err := c.checkAccess()
	c.quit = c.quit || err != nil
	return err
}

// renew refreshes before steps that were planned by an earlier reading, and plans them
// by the new one. It returns false if none may be executed any more; then it has answered.
func (c *conn) renew(steps []step) bool {
	planned := c.at.Now
	if err := c.refresh(); err != nil {
		c.answerAll(steps, err)
		return false
	}
	for i := range steps {
		if s := &steps[i]; s.cmd != nil && c.at.Now != planned {
			*s = c.planned(s.cmd, s.args)
		}
	}
	return true
}

// checkAccess returns an error if what opened the namespace is not good any more.
func (c *conn) checkAccess() error {
	c.checked = c.at.Steady
	if err := c.check(c.ctx, c.at.Now); errors.Is(err, mayfly.Unauthenticated) || errors.Is(err, mayfly.NotFound) || errors.Is(err, mayfly.Denied) {
		return mayfly.Wrap(mayfly.Unauthenticated, err, "")
	}
	c.in.Limits = c.limits() // another error is one of the store, and the command will show it
	return nil
}

func (c *conn) limits() Limits {
	s := c.space.Settings()
	return Authenticated(max(s.MaxValue, s.MaxKey, 1<<10), kv.MaxGroup)
}

// setDeadline sets when the connection is closed if no command comes. The deadline of an
// idle client is moved only if that makes it later by an eighth: it costs as much as a
// small command.
func (c *conn) setDeadline() {
	now, wait := time.Now(), c.s.o.Idle
	if c.subscribed.on() {
		wait = 0
	}
	deadline := now.Add(wait)
	switch {
	case c.until != 0:
		left := max(c.until.Sub(c.s.o.Read().Now), 0)
		if wait == 0 || left < wait {
			deadline = now.Add(left)
		}
		c.idle = time.Time{}
	case wait == 0:
		deadline, c.idle = time.Time{}, time.Time{}
	case deadline.Sub(c.idle) < wait/8:
		return
	default:
		c.idle = deadline
	}
	_ = c.nc.SetReadDeadline(deadline) // a connection that cannot have one is closed: Next will say so
	if c.s.leaving.Load() {
		_ = c.nc.SetReadDeadline(time.Now())
	}
}

// fail ends the connection after an error of reading.
func (c *conn) fail(err error) {
	protocol := ProtocolError("")
	switch {
	case errors.As(err, &protocol):
		c.reply.Error("ERR " + protocol.Error())
	case errors.Is(err, ErrMemory):
		c.reply.Error(ErrMemory.Error())
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
	default:
		c.s.o.Log.Debug("connection of a redis client failed", "error", err)
	}
	c.flush()
}

// join makes the connection take its memory from the share of an owner, with what it
// holds; nil is none.
func (c *conn) join(to *share) {
	budget, from := c.s.budget, c.share
	if to != nil {
		budget = to.Budget
	}
	c.budget.move(int(c.held.Load()), budget)
	c.in.share(budget)
	c.out.share(budget)
	if c.budget, c.share = budget, to; from != nil {
		c.s.leaveShare(from)
	}
}

// flush hands the answers to the output.
func (c *conn) flush() bool {
	if len(c.reply.buf) == 0 {
		c.budget.Return(int(c.held.Swap(0)))
		return true
	}
	ok := c.out.send(c.reply.buf, int(c.held.Swap(0)))
	if cap(c.reply.buf) > replyBuffer {
		c.reply.buf = nil
	}
	c.reply.buf = c.reply.buf[:0]
	return ok
}

// add adds a command to the batch.
func (c *conn) add(s step) {
	c.steps = append(c.steps, s)
	c.ops += len(s.ops)
}

// execute executes the batch as one group, so that its writes share one commit. If the
// group is refused, each command is executed by itself, and only those that are at
// fault are refused.
func (c *conn) execute() {
	steps := c.steps
	c.steps, c.ops = c.steps[:0], 0
	defer clear(steps)
	if err := c.takeRate(steps); err != nil {
		c.answerAll(steps, err)
		return
	}
	counted := 0
	for i := range steps {
		if len(steps[i].ops) > 0 {
			counted++
		}
	}
	if counted < 2 || !c.at.Confirmed {
		c.executeEach(steps)
		return
	}
	results, err := c.applyGroup(kv.Group{Ops: allOps(steps)}, batchAnswer)
	cause := kv.CrossSlot{}
	switch {
	case err == nil:
		c.answer(steps, results)
	case errors.As(err, &cause):
		c.executeBySlot(steps)
	case refused(err):
		if c.renew(steps) {
			c.executeEach(steps)
		}
	default:
		c.answerAll(steps, err)
	}
}

// executeEach executes each step by itself. Sending the answers may take long: the
// later ones are executed by the time and the permission of then.
func (c *conn) executeEach(steps []step) {
	for i := range steps {
		if i > 0 && !c.renew(steps[i:]) {
			return
		}
		results, err := c.applyGroup(kv.Group{Ops: steps[i].ops}, maxAnswer)
		if err != nil {
			c.answerAll(steps[i:i+1], err)
		} else {
			c.answer(steps[i:i+1], results)
		}
		if c.muchToSend() && !c.flush() {
			c.quit = true
			return
		}
	}
}

// muchToSend reports whether answers are to be sent before the next ones are made: they
// are many, or the budget was not asked for them.
func (c *conn) muchToSend() bool {
	n := len(c.reply.buf)
	return n > c.s.o.Output || n > replyBuffer+int(c.held.Load())
}

// takeRate counts steps against the rate of the namespace: one for each operation.
func (c *conn) takeRate(steps []step) error {
	n := 0
	for i := range steps {
		if steps[i].cmd != nil {
			n += max(len(steps[i].ops), 1)
		}
	}
	if n == 0 {
		return nil
	}
	return c.space.Take(c.ctx, n, c.at.Steady)
}

// slotBatch is how many commands of a pipeline are executed at once on a cluster, so that
// the values that they answer with are limited.
const slotBatch = 64

// executeBySlot executes commands of several slots of a cluster: those of a slot as one
// group, the groups at once. The answers are in the order of the commands.
func (c *conn) executeBySlot(all []step) {
	for begin := 0; begin < len(all); begin += slotBatch {
		if !c.renew(all[begin:]) {
			return
		}
		steps := all[begin:min(begin+slotBatch, len(all))]
		bySlot := map[uint16][]int{}
		for i := range steps {
			if len(steps[i].ops) > 0 {
				slot := kv.Slot(steps[i].ops[0].Key)
				bySlot[slot] = append(bySlot[slot], i)
			}
		}
		results, errs := make([][]kv.Result, len(steps)), make([]error, len(steps))
		var wg sync.WaitGroup
		for _, of := range bySlot {
			wg.Go(func() { c.executeSlot(steps, of, results, errs) })
		}
		wg.Wait()
		for i := range steps {
			if errs[i] != nil {
				c.answerAll(steps[i:i+1], errs[i])
			} else {
				c.answer(steps[i:i+1], results[i])
			}
		}
		if c.muchToSend() && !c.flush() {
			c.quit = true
			return
		}
	}
}

// executeSlot executes some of the steps, which are of one slot, as one group, or if it is
// refused, each by itself.
func (c *conn) executeSlot(steps []step, of []int, results [][]kv.Result, errs []error) {
	group := make([]step, len(of))
	for n, i := range of {
		group[n] = steps[i]
	}
	all, err := c.applyGroup(kv.Group{Ops: allOps(group)}, batchAnswer)
	for _, i := range of {
		n := len(steps[i].ops)
		switch {
		case err == nil:
			results[i], all = all[:n], all[n:]
		case refused(err):
			results[i], errs[i] = c.applyGroup(kv.Group{Ops: steps[i].ops}, maxAnswer)
		default:
			errs[i] = err
		}
	}
}

// refused reports whether a group was not applied because of what is in it.
func refused(err error) bool {
	if errors.Is(err, busy{}) { // a small command may still find memory
		return true
	}
	for _, kind := range []mayfly.Kind{mayfly.Full, mayfly.Invalid, mayfly.TooLarge, mayfly.Unsupported} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// allOps returns the operations of steps.
func allOps(steps []step) []kv.Op {
	if len(steps) == 1 {
		return steps[0].ops
	}
	var ops []kv.Op
	for i := range steps {
		ops = append(ops, steps[i].ops...)
	}
	return ops
}

// busy is the cause of the refusal of a group for whose answer there is no memory now.
// Its kind is Unavailable.
type busy struct{}

func (busy) Error() string { return "large answers take the memory: try again" }

func errBusy() error { return mayfly.Wrap(mayfly.Unavailable, busy{}, "") }

// applyGroup applies a group that answers with at most so many bytes of values. The
// memory for them and for the answer is taken from the budget before the store copies
// any: it refuses a group that answers with more than was taken, and is asked again.
func (c *conn) applyGroup(g kv.Group, most int) ([]kv.Result, error) {
	if len(g.Ops)+len(g.Watch) == 0 {
		return nil, nil
	}
	limit, held := freeAnswer, 0
	if c.budget.Take(2 * smallAnswer) {
		limit, held = smallAnswer, 2*smallAnswer
	}
	for {
		results, err := c.space.ApplyWithin(c.ctx, c.at, g, limit)
		if err == nil {
			if held > 0 {
				c.keep(results, held)
			}
			return results, nil
		}
		c.budget.Return(held)
		large := kv.LargeAnswer{}
		switch {
		case !errors.As(err, &large):
			return nil, err
		case large.Size > most || limit == most:
			return nil, mayfly.Wrap(mayfly.TooLarge, kv.LargeAnswer{Most: most, Size: large.Size}, "")
		}
		limit = min(max(2*limit, large.Size), most)
		if held = 2 * limit; !c.budget.Take(held) {
			return nil, errBusy()
		}
	}
}

// hold takes memory for an answer, until that is sent.
func (c *conn) hold(n int) bool {
	if !c.budget.Take(n) {
		return false
	}
	c.held.Add(int64(n))
	return true
}

// keep keeps as much of the memory that was taken as the results and their answer need.
func (c *conn) keep(results []kv.Result, held int) {
	size := 0
	for i := range results {
		size += results[i].Values()
	}
	c.budget.Return(held - 2*size)
	c.held.Add(int64(2 * size))
}

// answer answers steps from their results.
func (c *conn) answer(steps []step, results []kv.Result) {
	if c.held.Load() > 0 { // grown bit by bit it would take twice as much
		size := 0
		for i := range results {
			size += results[i].Values()
		}
		c.reply.buf = slices.Grow(c.reply.buf, size)
	}
	for i := range steps {
		n := len(steps[i].ops)
		steps[i].reply(&c.reply, results[:n])
		results = results[n:]
	}
}

// answerAll answers every step that has operations with an error.
func (c *conn) answerAll(steps []step, err error) {
	if errors.Is(err, mayfly.NotFound) { // the namespace was removed
		c.quit = true
	}
	for i := range steps {
		if len(steps[i].ops) == 0 {
			steps[i].reply(&c.reply, nil)
		} else {
			c.reply.Error(errorText(err))
		}
	}
}

// errorText returns an error in the words of Redis, as far as it has some.
func errorText(err error) string {
	cause := kv.CrossSlot{}
	switch {
	case errors.As(err, &cause):
		return "CROSSSLOT " + cause.Error()
	case errors.Is(err, mayfly.Full):
		text := "OOM command not allowed when used memory > 'maxmemory'."
		if full := (*mayfly.Error)(nil); errors.As(err, &full) && full.Hint != "" { // of the quota, or of the disk
			text += " (" + full.Hint + ")"
		}
		return text
	case errors.Is(err, mayfly.Unavailable), errors.Is(err, mayfly.Limited):
		return "TRYAGAIN " + err.Error()
	case errors.Is(err, mayfly.Unauthenticated), errors.Is(err, mayfly.NotFound):
		return "NOAUTH Authentication required."
	default:
		return fmt.Sprintf("ERR %v", err)
	}
}
