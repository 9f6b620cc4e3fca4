package account

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Limited is the error for a caller who exceeded a rate; errors.As finds it. Its
// kind is mayfly.Limited.
type Limited struct {
	RetryAfter time.Duration
}

// Error returns when to try again.
func (l Limited) Error() string {
	return fmt.Sprintf("rate limit exceeded: try again in %s", l.RetryAfter)
}

// Is makes errors.Is(err, mayfly.Limited) hold.
func (l Limited) Is(target error) bool { return target == mayfly.Limited }

// Rate allows Count operations in any Per, in one burst if need be.
type Rate = store.Rate

// TakeWrite counts a write of the principal, or returns Limited (C3).
func (a *Accounts) TakeWrite(ctx context.Context, p Principal, address netip.Addr, now mayfly.Instant) error {
	return a.take(ctx, "w:", a.o.Writes, a.o.AddressWrites, 1, p, address, now)
}

// TakeRead counts a read of the principal, or returns Limited (C3). Reads and
// writes are counted apart, with a token and without.
func (a *Accounts) TakeRead(ctx context.Context, p Principal, address netip.Addr, now mayfly.Instant) error {
	return a.take(ctx, "r:", a.o.Reads, a.o.AddressReads, 1, p, address, now)
}

// TakeFrom counts what has a rate of its own, in the bucket of that name and with
// its cost, or returns Limited. A cost above the rate's Count takes all of it.
func (a *Accounts) TakeFrom(ctx context.Context, bucket string, rate Rate, cost int, p Principal, address netip.Addr, now mayfly.Instant) error {
	return a.take(ctx, "o:"+bucket+":", rate, rate, cost, p, address, now)
}

// take counts against the user, also when a service acts for that user, and
// without a user against the address. Services, moderators and operators without a
// user are not limited: they embed or operate the server and limit themselves.
func (a *Accounts) take(ctx context.Context, prefix string, perUser, perAddress Rate, cost int, p Principal, address netip.Addr, now mayfly.Instant) error {
	var key string
	rate := perUser
	switch {
	case !p.User.IsZero():
		key = prefix + p.User.String()
	case p.Has(Service) || p.Has(Moderator) || p.Has(Admin):
		return nil
	default:
		key, rate = "a"+prefix+network(address), perAddress
	}
	if rate.Count == 0 || a.o.Limits == nil {
		return nil
	}
	// A bucket never has more than Count: what costs more takes all of it.
	taken, err := a.o.Limits.Take(ctx, key, rate, min(cost, rate.Count), now)
	if err != nil || taken.OK { // an unreachable counter limits nothing and is no error (I19)
		return nil
	}
	return mayfly.Wrap(mayfly.Limited, Limited{RetryAfter: taken.RetryAfter}, "slow down; Retry-After says how long to wait")
}

// network returns the network that an address is counted as: for IPv6 the first 64
// bits, because one subscriber has the whole network.
func network(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.Addr().String()
		}
	}
	return address.String()
}
