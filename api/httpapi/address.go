package httpapi

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/mayflyhq/mayfly"
)

// proxies are the networks whose X-Forwarded-For is believed.
type proxies []netip.Prefix

func parseProxies(texts []string) (proxies, error) {
	var all proxies
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

func (p proxies) trust(addr netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// maxHops is how many proxies in a row are looked through.
const maxHops = 16

// clientOf is who calls: the peer, or, where the peer is a trusted proxy, the
// first address from the right that no trusted proxy has. What stands left of
// that was written by the caller.
func (p proxies) clientOf(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr := peer.Addr().Unmap()
	if len(p) == 0 || !p.trust(addr) {
		return addr
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && len(hops)-i <= maxHops; i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return addr
		}
		addr = hop.Unmap().WithZone("")
		if !p.trust(addr) {
			return addr
		}
	}
	return addr
}
