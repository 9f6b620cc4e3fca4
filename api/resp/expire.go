package resp

import (
	"fmt"
	"math"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/kv"
)

func expire(c *conn, args [][]byte) step { return expireAt("expire", args, int64(c.at.Now), 1000) }

func pexpire(c *conn, args [][]byte) step { return expireAt("pexpire", args, int64(c.at.Now), 1) }

func expireat(_ *conn, args [][]byte) step { return expireAt("expireat", args, 0, 1000) }

func pexpireat(_ *conn, args [][]byte) step { return expireAt("pexpireat", args, 0, 1) }

// expireAt sets the expiry of an entry to base plus the argument, in units of so many
// milliseconds. One in the past deletes the entry.
func expireAt(name string, args [][]byte, base, unit int64) step {
	condition, problem := expireCondition(args[3:])
	if problem != "" {
		return failed(problem)
	}
	n, good := parseInt(args[2])
	switch {
	case !good:
		return failed(errInteger)
	case n > math.MaxInt64/unit || n < math.MinInt64/unit || n*unit > math.MaxInt64-base:
		return failed(fmt.Sprintf("ERR invalid expire time in '%s' command", name))
	}
	at := max(n*unit+base, 1) // 0 would be never
	return write(kv.Op{Key: string(args[1]), Action: kv.Touch, If: condition, Expiry: mayfly.Instant(at)}, done)
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
