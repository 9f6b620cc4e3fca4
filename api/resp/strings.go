package resp

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/kv"
)

func get(_ *conn, args [][]byte) step { return read(args[1], value) }

func mget(_ *conn, args [][]byte) step {
	return step{ops: eachKey(args[1:], kv.Op{}), reply: func(w *Reply, r []kv.Result) {
		w.Array(len(r))
		for i := range r {
			value(w, r[i].Old)
		}
	}}
}

// eachKey returns the same operation for every key.
func eachKey(keys [][]byte, op kv.Op) []kv.Op {
	ops := make([]kv.Op, len(keys))
	for i, key := range keys {
		ops[i] = op
		ops[i].Key = string(key)
	}
	return ops
}

// setOptions are the options of SET and GETEX.
type setOptions struct {
	nx, xx, get, keep, persist bool
	unit                       string // ex, px, exat, pxat; "" without an expiry
	amount                     []byte
}

// parseSetOptions reads the options; false is a syntax error.
func parseSetOptions(args [][]byte, getex bool) (o setOptions, ok bool) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		unit := ""
		for _, u := range []string{"ex", "px", "exat", "pxat"} {
			if is(arg, u) {
				unit = u
			}
		}
		switch {
		case is(arg, "nx") && !o.xx && !getex:
			o.nx = true
		case is(arg, "xx") && !o.nx && !getex:
			o.xx = true
		case is(arg, "get") && !getex:
			o.get = true
		case is(arg, "keepttl") && !o.persist && o.unit == "" && !getex:
			o.keep = true
		case is(arg, "persist") && !o.keep && o.unit == "" && getex:
			o.persist = true
		case unit != "" && !o.keep && !o.persist && (o.unit == "" || o.unit == unit) && i+1 < len(args):
			i++
			o.unit, o.amount = unit, args[i]
		default:
			return o, false
		}
	}
	return o, true
}

// expiry returns the instant that the options of a command name, or an error.
func (c *conn) expiry(name, unit string, amount []byte) (mayfly.Instant, string) {
	invalid := fmt.Sprintf("ERR invalid expire time in '%s' command", name)
	n, ok := parseInt(amount)
	switch {
	case !ok:
		return 0, errInteger
	case n <= 0, strings.HasPrefix(unit, "ex") && n > math.MaxInt64/1000:
		return 0, invalid
	}
	if strings.HasPrefix(unit, "ex") {
		n *= 1000
	}
	if !strings.HasSuffix(unit, "at") {
		if n > math.MaxInt64-int64(c.at.Now) {
			return 0, invalid
		}
		n += int64(c.at.Now)
	}
	if kv.CheckExpiry(mayfly.Instant(n), c.at.Now) != nil {
		return 0, invalid
	}
	return mayfly.Instant(n), ""
}

func set(c *conn, args [][]byte) step {
	o, good := parseSetOptions(args[3:], false)
	if !good {
		return failed(errSyntax)
	}
	op := kv.Op{Key: string(args[1]), Action: kv.Set, Value: args[2], KeepExpiry: o.keep, Old: o.get}
	if o.unit != "" {
		var problem string
		if op.Expiry, problem = c.expiry("set", o.unit, o.amount); problem != "" {
			return failed(problem)
		}
	}
	switch {
	case o.nx:
		op.If = kv.IfAbsent
	case o.xx:
		op.If = kv.IfPresent
	}
	return write(op, func(w *Reply, r kv.Result) {
		switch {
		case o.get:
			value(w, r.Old)
		case r.Done:
			w.Simple(okText)
		default:
			w.Null()
		}
	})
}

func setex(c *conn, args [][]byte) step { return setFor(c, "setex", "ex", args) }

func psetex(c *conn, args [][]byte) step { return setFor(c, "psetex", "px", args) }

func setFor(c *conn, name, unit string, args [][]byte) step {
	at, problem := c.expiry(name, unit, args[2])
	if problem != "" {
		return failed(problem)
	}
	return write(kv.Op{Key: string(args[1]), Action: kv.Set, Value: args[3], Expiry: at}, ok)
}

func setnx(_ *conn, args [][]byte) step {
	return write(kv.Op{Key: string(args[1]), Action: kv.Set, If: kv.IfAbsent, Value: args[2]}, done)
}

// done answers 1 if the operation was done.
func done(w *Reply, r kv.Result) { w.Bool(r.Done) }

func old(w *Reply, r kv.Result) { value(w, r.Old) }

func getset(_ *conn, args [][]byte) step {
	return write(kv.Op{Key: string(args[1]), Action: kv.Set, Value: args[2], Old: true}, old)
}

func getdel(_ *conn, args [][]byte) step {
	return write(kv.Op{Key: string(args[1]), Action: kv.Delete, Old: true}, old)
}

func getex(c *conn, args [][]byte) step {
	o, good := parseSetOptions(args[2:], true)
	switch {
	case !good:
		return failed(errSyntax)
	case o.persist:
		return write(kv.Op{Key: string(args[1]), Action: kv.Touch, Old: true}, old)
	case o.unit == "":
		return read(args[1], value)
	}
	at, problem := c.expiry("getex", o.unit, o.amount)
	if problem != "" { // Redis looks for the entry first
		return read(args[1], func(w *Reply, e kv.Entry) {
			if e.Found {
				w.Error(problem)
			} else {
				w.Null()
			}
		})
	}
	return write(kv.Op{Key: string(args[1]), Action: kv.Touch, Expiry: at, Old: true}, old)
}

func mset(_ *conn, args [][]byte) step {
	if len(args)%2 == 0 {
		return failed(wrongNumber("mset"))
	}
	ops := make([]kv.Op, 0, len(args)/2)
	for i := 1; i < len(args); i += 2 {
		ops = append(ops, kv.Op{Key: string(args[i]), Action: kv.Set, Value: args[i+1]})
	}
	return step{ops: ops, reply: func(w *Reply, _ []kv.Result) { w.Simple(okText) }}
}

// update returns a step that changes a value and keeps its expiry. An error of change
// is the answer.
func update(key []byte, change func(old kv.Entry) ([]byte, error), reply func(w *Reply, value []byte)) step {
	return write(kv.Op{Key: string(key), Action: kv.Update, KeepExpiry: true, Update: change}, func(w *Reply, r kv.Result) {
		if r.Err != nil {
			w.Error(r.Err.Error())
		} else {
			reply(w, r.New.Value)
		}
	})
}

func appendTo(c *conn, args [][]byte) step {
	most := c.space.Settings().MaxValue
	return update(args[1], func(old kv.Entry) ([]byte, error) {
		if len(old.Value)+len(args[2]) > most {
			return nil, errors.New("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
		}
		return append(old.Value[:len(old.Value):len(old.Value)], args[2]...), nil
	}, func(w *Reply, value []byte) { w.Int(int64(len(value))) })
}

func strlen(_ *conn, args [][]byte) step {
	return read(args[1], func(w *Reply, e kv.Entry) { w.Int(int64(len(e.Value))) })
}

func incr(_ *conn, args [][]byte) step { return addTo(args[1], 1) }

func decr(_ *conn, args [][]byte) step { return addTo(args[1], -1) }

func incrby(_ *conn, args [][]byte) step {
	n, good := parseInt(args[2])
	if !good {
		return failed(errInteger)
	}
	return addTo(args[1], n)
}

func decrby(_ *conn, args [][]byte) step {
	n, good := parseInt(args[2])
	switch {
	case !good:
		return failed(errInteger)
	case n == math.MinInt64:
		return failed("ERR decrement would overflow")
	}
	return addTo(args[1], -n)
}

func addTo(key []byte, by int64) step {
	return update(key, func(old kv.Entry) ([]byte, error) {
		n, good := parseInt(old.Value)
		switch {
		case !old.Found:
			n = 0
		case !good:
			return nil, errors.New(errInteger)
		}
		if by > 0 && n > math.MaxInt64-by || by < 0 && n < math.MinInt64-by {
			return nil, errors.New("ERR increment or decrement would overflow")
		}
		return strconv.AppendInt(nil, n+by, 10), nil
	}, func(w *Reply, value []byte) { w.number(':', mustInt(value)) })
}

// mustInt reads a number that addTo has written.
func mustInt(b []byte) int64 {
	n, _ := parseInt(b)
	return n
}

// floatBits is the precision of the numbers that Redis adds: a long double of 80 bits.
const (
	floatBits     = 64
	floatExponent = 16384
)

func incrbyfloat(_ *conn, args [][]byte) step {
	return update(args[1], func(old kv.Entry) ([]byte, error) {
		n, good := new(big.Float).SetPrec(floatBits), true
		if old.Found {
			n, good = parseFloat(old.Value)
		}
		by, goodBy := parseFloat(args[2])
		if !good || !goodBy {
			return nil, errors.New(errFloat)
		}
		if n.IsInf() || by.IsInf() || n.Add(n, by).MantExp(nil) > floatExponent {
			return nil, errors.New("ERR increment would produce NaN or Infinity")
		}
		return formatFloat(n), nil
	}, func(w *Reply, value []byte) { w.Bulk(value) })
}

// parseFloat reads a decimal number, or inf.
func parseFloat(b []byte) (*big.Float, bool) {
	s := strings.ToLower(string(b[:min(len(b), 5000)]))
	switch strings.TrimLeft(s, "+-") {
	case "inf", "infinity":
	default:
		if strings.Trim(s, "0123456789+-.e") != "" {
			return nil, false
		}
		if _, exponent, found := strings.Cut(s, "e"); found {
			if n, err := strconv.Atoi(exponent); err != nil || n > 5000 || n < -5000 {
				return nil, false
			}
		}
	}
	s = strings.Replace(s, "infinity", "inf", 1)
	f, _, err := big.ParseFloat(s, 10, floatBits, big.ToNearestEven)
	if err != nil || !f.IsInf() && f.MantExp(nil) > floatExponent {
		return nil, false
	}
	return f, true
}

// formatFloat writes a number with 17 digits behind the point at most.
func formatFloat(f *big.Float) []byte {
	s := strings.TrimRight(strings.TrimRight(f.Text('f', 17), "0"), ".")
	if s == "-0" || s == "" {
		s = "0"
	}
	return []byte(s)
}
