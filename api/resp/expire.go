package resp

import (
	"fmt"
	"math"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/kv"
)

func expire(c *conn, args [][]byte) step { return c.expireAt("expire", args, c.at.Now, 1000) }

func pexpire(c *conn, args [][]byte) step { return c.expireAt("pexpire", args, c.at.Now, 1) }

func expireat(c *conn, args [][]byte) step { return c.expireAt("expireat", args, 0, 1000) }

func pexpireat(c *conn, args [][]byte) step { return c.expireAt("pexpireat", args, 0, 1) }

// expireAt sets the expiry of an entry to base plus the argument, in units of so many
// milliseconds. One in the past deletes the entry.
func (c *conn) expireAt(name string, args [][]byte, base mayfly.Instant, unit int64) step {
	condition, problem := expireCondition(args[3:])
	if problem != "" {
		return failed(problem)
	}
	n, good := parseInt(args[2])
	if !good {
		return failed(errInteger)
	}
	fits := n <= (math.MaxInt64-int64(base))/unit && n >= math.MinInt64/unit
	at := mayfly.Instant(n*unit) + base
	if !fits || kv.CheckExpiry(at, c.at.Now) != nil {
		return failed(fmt.Sprintf("ERR invalid expire time in '%s' command", name))
	}
	return write(kv.Op{Key: string(args[1]), Action: kv.Touch, If: condition, Expiry: max(at, 1)}, done) // 0 would be never
}

// expireCondition reads the options of EXPIRE.
func expireCondition(args [][]byte) (kv.Condition, string) {
	var nx, xx, gt, lt bool
	for _, arg := range args {
		switch {
		case is(arg, "nx"):
			nx = true
		case is(arg, "xx"):
			xx = true
		case is(arg, "gt"):
			gt = true
		case is(arg, "lt"):
			lt = true
		default:
			return 0, fmt.Sprintf("ERR Unsupported option %s", arg)
		}
	}
	switch {
	case nx && (xx || gt || lt):
		return 0, "ERR NX and XX, GT or LT options at the same time are not compatible"
	case gt && lt:
		return 0, "ERR GT and LT options at the same time are not compatible"
	case xx && lt:
		return 0, "ERR XX and LT options at the same time are not supported"
	case nx:
		return kv.IfNoExpiry, ""
	case gt: // never is later than any: such an entry is left alone, with XX and without
		return kv.IfLater, ""
	case xx:
		return kv.IfHasExpiry, ""
	case lt:
		return kv.IfSooner, ""
	}
	return kv.Always, ""
}

func persist(_ *conn, args [][]byte) step {
	return write(kv.Op{Key: string(args[1]), Action: kv.Touch, If: kv.IfHasExpiry}, done)
}

func ttl(c *conn, args [][]byte) step { return timeLeft(args[1], c.at.Now, 1000) }

func pttl(c *conn, args [][]byte) step { return timeLeft(args[1], c.at.Now, 1) }

func expiretime(_ *conn, args [][]byte) step { return timeLeft(args[1], 0, 1000) }

func pexpiretime(_ *conn, args [][]byte) step { return timeLeft(args[1], 0, 1) }

// timeLeft answers with the time from an instant to the expiry, rounded to units of so
// many milliseconds.
func timeLeft(key []byte, from mayfly.Instant, unit int64) step {
	return read(key, func(w *Reply, e kv.Entry) {
		switch {
		case !e.Found:
			w.Int(-2)
		case e.Expiry == 0:
			w.Int(-1)
		default:
			left := int64(e.Expiry - from)
			w.Int(left/unit + (left%unit+unit/2)/unit)
		}
	})
}
