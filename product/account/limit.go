package account

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// Limited is the error of who asked too often: errors.As finds it. Its kind is
// mayfly.Limited.
type Limited struct {
	RetryAfter time.Duration
}

// Error says when to ask again.
func (l Limited) Error() string { return fmt.Sprintf("too often: ask again in %s", l.RetryAfter) }

// Is makes errors.Is(err, mayfly.Limited) hold.
func (l Limited) Is(target error) bool { return target == mayfly.Limited }

// TakeWrite counts a write of the principal's, or answers Limited (C3).
func (a *Accounts) TakeWrite(ctx context.Context, p Principal, address netip.Addr, now mayfly.Instant) error {
	return a.take(ctx, "w:", a.o.Writes, p, address, now)
}

// TakeRead counts a read of the principal's, or answers Limited (C3).
func (a *Accounts) TakeRead(ctx context.Context, p Principal, address netip.Addr, now mayfly.Instant) error {
	return a.take(ctx, "r:", a.o.Reads, p, address, now)
}

// take counts against the user, whoever acts for them; without one against the
// address. A service, a moderator or an operator that is no user embeds the
// house or runs it: those limits are its own to keep.
func (a *Accounts) take(ctx context.Context, sort string, rate store.Rate, p Principal, address netip.Addr, now mayfly.Instant) error {
	key := sort + p.User.String()
	switch {
	case !p.User.IsZero():
	case p.Has(Service) || p.Has(Moderator) || p.Has(Admin):
		return nil
	default:
		key, rate = "a:"+network(address), a.o.Address
	}
	if rate.Count == 0 || a.o.Limits == nil {
		return nil
	}
	taken, err := a.o.Limits.Take(ctx, key, rate, 1, now)
	if err != nil || taken.OK { // counters that are away are forgotten: never an error (I19)
		return nil
	}
	return mayfly.Wrap(mayfly.Limited, Limited{RetryAfter: taken.RetryAfter}, "slow down; Retry-After says how long to wait")
}

// network is what an address counts as: of IPv6 the first 64 bits, which one
// subscriber has all of.
func network(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	if address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.Addr().String()
		}
	}
	return address.String()
}
