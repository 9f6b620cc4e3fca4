package httpapi

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// authorize finds out who calls, and refuses what they may not do now.
func (c *Call) authorize() error {
	if !c.route.Admin && !c.route.WhileClosed {
		if err := c.api.o.Open(); err != nil {
			return err // with a wrong clock not even a token can be checked (L7)
		}
	}
	if err := checkPath(c.Request); err != nil {
		return err
	}
	if err := checkQuery(c.Request); err != nil {
		return err
	}
	c.Address = c.api.proxies.clientOf(c.Request)
	if err := c.authenticate(); err != nil {
		return c.limitFailedAuth(err)
	}
	if err := c.checkScope(); err != nil {
		return err
	}
	if err := c.checkOrigin(); err != nil {
		return err
	}
	if err := c.takeRateLimit(); err != nil {
		return err
	}
	if notify := c.api.o.Authenticated; notify != nil && !c.Caller.User.IsZero() && !c.route.Admin {
		notify(c.Context(), c.Caller.User, c.Now)
	}
	return c.checkBody()
}

// HasToken reports whether the request has a token, good or bad.
func (c *Call) HasToken() bool { return len(c.Request.Header["Authorization"]) > 0 }

// authenticate finds out who calls; a request without a token is anonymous (C1).
func (c *Call) authenticate() (err error) {
	headers := c.Request.Header["Authorization"]
	if len(headers) > 1 {
		return mayfly.Errorf(mayfly.Unauthenticated, "there are two Authorization headers").WithHint("send one")
	}
	if len(headers) == 1 {
		scheme, bearer, ok := strings.Cut(headers[0], " ")
		if !ok || !strings.EqualFold(scheme, "Bearer") {
			return mayfly.Errorf(mayfly.Unauthenticated, "the Authorization header has no Bearer token").WithHint("send Authorization: Bearer with a token")
		}
		bearer = strings.TrimSpace(bearer)
		if prefix := c.route.KeyPrefix; prefix != "" && strings.HasPrefix(bearer, prefix) {
			c.Key = mayfly.Secret(bearer)
		} else if c.Caller, err = c.api.accounts.Verify(c.Context(), bearer, c.Now); err != nil {
			return err
		}
	}
	users := c.Request.Header["Mayfly-User"]
	switch {
	case len(users) == 0:
		return nil
	case len(users) > 1:
		return mayfly.Errorf(mayfly.Invalid, "there are two Mayfly-User headers").WithHint("send one")
	case len(headers) == 0:
		return mayfly.Errorf(mayfly.Unauthenticated, "Mayfly-User needs a service token").WithHint("send Authorization: Bearer with a token of scope service")
	}
	caller, err := c.api.accounts.ActFor(c.Context(), c.Caller, users[0])
	if err != nil {
		return err
	}
	c.Caller = caller
	return nil
}

// limitFailedAuth counts a bad token against the address that it came from, so
// that trying tokens is limited like everything else (C3).
func (c *Call) limitFailedAuth(err error) error {
	if !errors.Is(err, mayfly.Unauthenticated) {
		return err
	}
	if limited := c.api.accounts.TakeRead(c.Context(), account.Principal{}, c.Address, c.Now); limited != nil {
		return limited
	}
	return err
}

// checkScope refuses a token that has no scope for this route.
func (c *Call) checkScope() error {
	switch needed := c.route.Scopes; {
	case len(needed) == 0 || c.Key != "" || slices.ContainsFunc(needed, c.Caller.Has):
		return nil
	case !c.HasToken():
		return mayfly.Errorf(mayfly.Unauthenticated, "a token is required")
	case c.Caller.Has(account.Service) && slices.Contains(needed, account.User):
		return mayfly.Errorf(mayfly.Denied, "the token names no user").WithHint("a service names the user for whom it acts in the header Mayfly-User")
	default:
		return mayfly.Errorf(mayfly.Denied, "the token has no scope for this").WithHint("it needs the scope " + scopeList(needed))
	}
}

// checkOrigin refuses a request of a page of another site, where the route asks for
// that. A page cannot send a token that it does not have.
func (c *Call) checkOrigin() error {
	if !c.route.SameOrigin || c.HasToken() || c.api.crossSite.Check(c.Request) == nil {
		return nil
	}
	return mayfly.Errorf(mayfly.Denied, "a page of another site has sent this request").WithHint("send it from a page of this server, or with a token")
}

func scopeList(scopes []account.Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, " or ")
}

// takeRateLimit counts the request against the caller's rate (C3).
func (c *Call) takeRateLimit() error {
	switch {
	case c.route.Rate.Count > 0:
		return c.countLimited("route", c.api.accounts.TakeFrom(c.Context(), c.route.ID, c.route.Rate, 1, c.Caller, c.Address, c.Now))
	case c.route.Limit == WriteLimit:
		c.Body.charge = c.takeWrite
		return c.takeWrite()
	case c.route.Limit == ReadLimit:
		return c.TakeRead()
	}
	return nil
}

func (c *Call) takeWrite() error {
	return c.countLimited(WriteLimit, c.api.accounts.TakeWrite(c.Context(), c.Caller, c.Address, c.Now))
}

// TakeRead counts a read against the caller's rate, for routes that decide
// themselves what counts.
func (c *Call) TakeRead() error {
	return c.countLimited(ReadLimit, c.api.accounts.TakeRead(c.Context(), c.Caller, c.Address, c.Now))
}

// TakeFrom counts cost against a rate of its own, in the bucket of that name.
func (c *Call) TakeFrom(bucket string, rate account.Rate, cost int) error {
	return c.countLimited("route", c.api.accounts.TakeFrom(c.Context(), bucket, rate, cost, c.Caller, c.Address, c.Now))
}

func (c *Call) countLimited(kind Limit, err error) error {
	if errors.Is(err, mayfly.Limited) {
		c.api.metrics.limited.WithLabelValues(c.route.Product, string(kind)).Inc()
	}
	return err
}

// Proxies are the networks whose X-Forwarded-For is trusted.
type Proxies []netip.Prefix

// ParseProxies parses networks and addresses.
func ParseProxies(texts []string) (Proxies, error) {
	var all Proxies
	for _, text := range texts {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			addr, one := netip.ParseAddr(text)
			if one != nil {
				return nil, mayfly.Errorf(mayfly.Invalid, "proxies: %w", err).WithHint("write a network such as 10.0.0.0/8, or an address")
			}
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
		all = append(all, prefix.Masked())
	}
	return all, nil
}

// Trust reports whether addr is in one of the networks.
func (p Proxies) Trust(addr netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// maxHops is how many proxies in a row are looked through.
const maxHops = 16

// clientOf returns the address of the client: the peer, or, where the peer is a
// trusted proxy, the first address from the right that no trusted proxy has. The
// addresses left of that could have been written by the client.
func (p Proxies) clientOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := peer.Addr().Unmap()
	if len(p) == 0 || !p.Trust(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && len(hops)-i <= maxHops; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return addr
		}
		addr = hop.Unmap().WithZone("")
		if !p.Trust(addr) {
			return addr
		}
	}
	return addr
}
