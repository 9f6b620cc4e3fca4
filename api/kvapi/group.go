package kvapi

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/kv"
)

// batch is POST …/batch.
func (h *handlers) batch(c *httpapi.Call) error {
	space, err := h.open(c, 1)
	if err != nil {
		return err
	}
	if err := errors.Join(onlyQuery(c), c.RequireType("application/json")); err != nil {
		return err
	}
	text, give, err := h.memory.read(c, space.Owner(), maxBatchSum)
	defer give()
	if err != nil {
		return err
	}
	var in wire.KVBatch
	if err := httpapi.ParseJSON(text, &in); err != nil {
		return err
	}
	at := c.ReadClock()
	g, err := groupOf(in, space.Settings(), at.Now)
	if err != nil {
		return err
	}
	if len(g.Ops) > 1 { // the first is counted
		if err := space.Take(c.Context(), len(g.Ops)-1, c.ReadClock().Steady); err != nil {
			return err
		}
	}
	var results []kv.Result
	if g.Ops[0].Action == kv.Read {
		results, give, err = h.readAll(c.Context(), space, at, g.Ops)
		defer give()
	} else {
		results, err = space.Apply(c.Context(), at, g)
		if errors.Is(err, mayfly.Conflict) { // a watched entry has changed
			return errUnmet()
		}
	}
	if err != nil {
		return failed(err)
	}
	out := wire.KVResults{Results: make([]wire.KVResult, len(results))}
	for i, r := range results {
		out.Results[i] = resultOf(g.Ops[i].Action, r)
	}
	return c.JSON(http.StatusOK, out)
}

// groupOf makes the group of a batch. Errors: Invalid, TooLarge.
func groupOf(in wire.KVBatch, s kv.Settings, now mayfly.Instant) (g kv.Group, err error) {
	if len(in.Ops) == 0 || len(in.Ops) > maxBatch || len(in.Watch) > maxBatch {
		return g, mayfly.Errorf(mayfly.Invalid, "the batch has %d operations and watches %d entries", len(in.Ops), len(in.Watch)).WithHint("send 1 to " + strconv.Itoa(maxBatch) + " operations, and watch as many entries at most")
	}
	reads := 0
	for i, o := range in.Ops {
		op, err := operationOf(o, s, now)
		if err != nil {
			return g, inOperation(i, err)
		}
		if op.Action == kv.Read {
			reads++
		}
		g.Ops = append(g.Ops, op)
	}
	if reads > 0 && (reads < len(g.Ops) || len(in.Watch) > 0) {
		return g, mayfly.Errorf(mayfly.Invalid, "the batch reads and writes").WithHint("send get in a batch of its own, without watch")
	}
	for _, w := range in.Watch {
		key, err := either("key", w.Key, w.Key64)
		if err == nil {
			err = checkKey(key, s)
		}
		if err != nil {
			return g, err
		}
		e := kv.Entry{Key: key}
		if w.Version != "" {
			if e.Version, err = parseVersion(w.Version); err != nil {
				return g, err
			}
			e.Found = true
		}
		g.Watch = append(g.Watch, e)
	}
	return g, nil
}

// inOperation says which operation of a batch an error is about.
func inOperation(i int, err error) error {
	var known *mayfly.Error
	if !errors.As(err, &known) {
		return err
	}
	return mayfly.Errorf(known.Kind, "operation %d: %w", i, known.Err).WithHint(known.Hint)
}

// operationOf makes an operation of a group. Errors: Invalid, TooLarge.
func operationOf(o wire.KVOperation, s kv.Settings, now mayfly.Instant) (op kv.Op, err error) {
	if op.Key, err = either("key", o.Key, o.Key64); err != nil {
		return op, err
	}
	if err := checkKey(op.Key, s); err != nil {
		return op, err
	}
	has := map[string]bool{"value": o.Value != nil || o.Value64 != nil, "ttl": o.TTL != "" || o.ExpiresAt != nil, "by": o.By != nil, "if": o.If != ""}
	var takes []string
	switch o.Op {
	case "get":
		op.Action = kv.Read
	case "set":
		op.Action, takes = kv.Set, []string{"value", "ttl", "if"}
	case "delete":
		op.Action, takes = kv.Delete, []string{"if"}
	case "touch":
		op.Action, takes = kv.Touch, []string{"ttl", "if"}
	case "increment":
		op.Action, takes = kv.Update, []string{"ttl", "by", "if"}
	default:
		return op, mayfly.Errorf(mayfly.Invalid, "there is no op %.40q", o.Op).WithHint("use get, set, delete, touch or increment")
	}
	for _, name := range takes {
		delete(has, name)
	}
	for name, given := range has {
		if given {
			return op, mayfly.Errorf(mayfly.Invalid, "%s takes no %s", o.Op, name).WithHint("leave it out; see /openapi.json")
		}
	}
	switch op.Action {
	case kv.Set:
		value, err := either("value", o.Value, o.Value64)
		if err != nil {
			return op, err
		}
		op.Value = []byte(value)
	case kv.Update:
		by := int64(1)
		if o.By != nil {
			by = *o.By
		}
		op.Update, op.KeepExpiry = kv.Increment(by), true
	}
	if op.If, op.Version, err = conditionOf(o); err != nil || op.Action == kv.Read || op.Action == kv.Delete {
		return op, err
	}
	until, err := expiryIn(o)
	if err != nil {
		return op, err
	}
	return op, until.set(&op, s, now)
}

func conditionOf(o wire.KVOperation) (kv.Condition, uint64, error) {
	switch {
	case o.If != "version" && o.Version != "":
		return 0, 0, mayfly.Errorf(mayfly.Invalid, "there is a version without if version").WithHint(`send "if": "version" with it`)
	case o.If == "":
		return kv.Always, 0, nil
	case o.If == "absent":
		return kv.IfAbsent, 0, nil
	case o.If == "present":
		return kv.IfPresent, 0, nil
	case o.If == "version":
		version, err := parseVersion(o.Version)
		return kv.IfVersion, version, err
	}
	return 0, 0, mayfly.Errorf(mayfly.Invalid, "there is no condition %.40q", o.If).WithHint("use absent, present or version")
}

func expiryIn(o wire.KVOperation) (expiry, error) {
	switch {
	case o.TTL != "" && o.ExpiresAt != nil:
		return expiry{}, mayfly.Errorf(mayfly.Invalid, "there are two expiries").WithHint("send ttl or expires_at")
	case o.TTL != "":
		return parseTTL(o.TTL)
	case o.ExpiresAt != nil:
		return expiryAt(*o.ExpiresAt)
	}
	return expiry{}, nil
}

// either returns bytes that are given as a text or in base64url.
func either(name string, text, encoded *string) (string, error) {
	switch {
	case text != nil && encoded == nil:
		return *text, nil
	case text == nil && encoded != nil:
		return decode(name+"64", *encoded)
	}
	return "", mayfly.Errorf(mayfly.Invalid, "there is no %s, or two", name).WithHint("send " + name + ", or " + name + "64 in base64url")
}

// texts returns bytes as a text, or in base64url if they are not UTF-8.
func texts(b string) (text, encoded *string) {
	if utf8.ValidString(b) {
		return &b, nil
	}
	b = base64.RawURLEncoding.EncodeToString([]byte(b))
	return nil, &b
}

// readAll reads entries in parts, and gives up as soon as their values take too much. A
// part may be of one slot where all of them are not, and all are refused.
func (h *handlers) readAll(ctx context.Context, space *kv.Space, at clock.Reading, ops []kv.Op) (results []kv.Result, give func(), err error) {
	held := int64(0)
	give = func() {
		for ; held > 0; held -= maxAnswer {
			h.memory.give(space.Owner(), maxAnswer)
		}
	}
	keys := make([]string, len(ops))
	for i, op := range ops {
		keys[i] = op.Key
	}
	if err := space.OneSlot(keys...); err != nil {
		return nil, give, err
	}
	total, part := 0, 1
	for len(ops) > 0 {
		n := min(part, len(ops))
		some, err := space.Apply(ctx, at, kv.Group{Ops: ops[:n]})
		if err != nil {
			return nil, give, err
		}
		size := 0
		for i := range some {
			size += len(some[i].Old.Value)
		}
		if total += size; total > maxAnswer {
			return nil, give, mayfly.Errorf(mayfly.TooLarge, "the values have more than %d bytes", maxAnswer).WithHint("read fewer keys at once")
		}
		if total > small && held == 0 {
			if err := h.memory.take(space.Owner(), maxAnswer); err != nil {
				return nil, give, err
			}
			held = maxAnswer
		}
		results, ops = append(results, some...), ops[n:]
		part = min(max((1<<20)/(size/n+1), 1), 2*part)
	}
	return results, give, nil
}

func resultOf(action kv.Action, r kv.Result) wire.KVResult {
	e := r.New
	out := wire.KVResult{Done: r.Done && (action != kv.Read || e.Found), Version: versionOf(e), ExpiresAt: expiryOf(e)}
	if e.Found && r.Done && (action == kv.Read || action == kv.Update) {
		out.Value, out.Value64 = texts(string(e.Value))
	}
	if r.Err != nil {
		out.Error = r.Err.Error()
	}
	return out
}

const (
	macSize   = 16
	maxCursor = (macSize + kv.MaxKey + 64) * 4 / 3
)

// scan is GET …/scan.
func (h *handlers) scan(c *httpapi.Call) error {
	space, err := h.open(c, 1)
	if err != nil {
		return err
	}
	if err := onlyQuery(c, "prefix", "prefix64", "cursor", "limit"); err != nil {
		return err
	}
	q := c.Request.URL.Query()
	prefix := q.Get("prefix")
	if q.Has("prefix64") {
		if q.Has("prefix") {
			return mayfly.Errorf(mayfly.Invalid, "there are two prefixes").WithHint("send prefix, or prefix64")
		}
		if prefix, err = decode("prefix64", q.Get("prefix64")); err != nil {
			return err
		}
	}
	if err := checkKey(prefix, space.Settings()); err != nil {
		return err
	}
	limit := defaultScan
	if q.Has("limit") {
		if limit, err = strconv.Atoi(q.Get("limit")); err != nil || limit < 1 || limit > maxScan {
			return mayfly.Errorf(mayfly.Invalid, "invalid limit %.20q", q.Get("limit")).WithHint("send a number from 1 to " + strconv.Itoa(maxScan))
		}
	}
	after := ""
	if cursor := q.Get("cursor"); cursor != "" {
		if after, err = h.readCursor(space.ID(), prefix, cursor); err != nil {
			return err
		}
	}
	page, next, err := space.Scan(c.Context(), c.ReadClock(), prefix, after, limit)
	if err != nil {
		return failed(err)
	}
	out := wire.KVKeys{Keys: make([]wire.KVKey, len(page))}
	for i, e := range page {
		out.Keys[i] = wire.KVKey{Version: versionOf(e), ExpiresAt: expiryOf(e)}
		out.Keys[i].Key, out.Keys[i].Key64 = texts(e.Key)
	}
	if next != "" {
		out.Next = h.cursor(space.ID(), prefix, next)
	}
	return c.JSON(http.StatusOK, out)
}

// cursor returns a position in a scan as a text that only this scan can go on with. The
// server keeps nothing of it.
func (h *handlers) cursor(space, prefix, after string) string {
	return base64.RawURLEncoding.EncodeToString(append(h.mac(space, prefix, after), after...))
}

func (h *handlers) readCursor(space, prefix, cursor string) (string, error) {
	if b, err := base64.RawURLEncoding.Strict().DecodeString(cursor); err == nil && len(b) > macSize {
		if after := string(b[macSize:]); hmac.Equal(b[:macSize], h.mac(space, prefix, after)) {
			return after, nil
		}
	}
	return "", mayfly.Errorf(mayfly.Invalid, "the cursor is not one of this scan").WithHint("send next of the page before, unchanged and with the same prefix, or begin again without a cursor")
}

func (h *handlers) mac(texts ...string) []byte {
	sum := hmac.New(sha256.New, h.o.Secret)
	for _, text := range texts {
		_ = binary.Write(sum, binary.BigEndian, uint64(len(text)))
		_, _ = sum.Write([]byte(text))
	}
	return sum.Sum(nil)[:macSize]
}
