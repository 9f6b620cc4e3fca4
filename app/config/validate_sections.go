package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
)

// check checks the listeners.
func (l Listen) check() []error {
	errs := spans([]span{
		{"listen.header_timeout", l.HeaderWithin, 100 * time.Millisecond, 5 * time.Minute},
		{"listen.body_timeout", l.BodyWithin, 100 * time.Millisecond, time.Hour},
		{"listen.idle_timeout", l.IdleWithin, time.Second, time.Hour},
		{"listen.drain_after", l.DrainAfter, 0, 10 * time.Minute},
		{"listen.drain_timeout", l.DrainWithin, 0, time.Hour},
	})
	errs = append(errs, counts([]count{
		{"listen.max_connections", int64(l.Connections), 1, 1 << 20},
		{"listen.max_connections_per_address", int64(l.PerAddress), 1, 1 << 20},
	})...)
	type named struct{ name, text string }
	addresses := []named{{"listen.api", l.API}, {"listen.admin", l.Admin}, {"listen.kv", l.KV}}
	for _, at := range addresses {
		if !isAddress(at.text) && (at.text != "" || at.name == "listen.api") {
			errs = append(errs, invalid("write a host and a port, such as 127.0.0.1:7420 or :7420", "%s is %q", at.name, at.text))
		}
	}
	for i, at := range addresses[1:] {
		if slices.ContainsFunc(addresses[:i+1], func(other named) bool { return other.text == at.text }) && at.text != "" && !strings.HasSuffix(at.text, ":0") {
			errs = append(errs, invalid("choose another port for one of them", "two of listen.api, listen.admin and listen.kv are %q", at.text))
		}
	}
	if l.Public != "" && !isURL(l.Public, "http", "https") {
		errs = append(errs, invalid("write a URL such as https://stories.example.org", "listen.public is %q", withoutSecret(l.Public)))
	}
	if (l.Cert == "") != (l.Key == "") {
		errs = append(errs, invalid("set both, or neither for plain HTTP", "one of listen.cert_file and listen.key_file is empty"))
	}
	if l.Cert != "" && len(l.ACME) > 0 {
		errs = append(errs, invalid("set one of them", "listen.cert_file and listen.acme_domains are both set"))
	}
	for _, domain := range l.ACME {
		if !strings.Contains(domain, ".") || strings.ContainsAny(domain, ":/ *") {
			errs = append(errs, invalid("write a domain, such as stories.example.org", "listen.acme_domains has %q", domain))
		}
	}
	if l.Authority != "" && !isURL(l.Authority, "https") {
		errs = append(errs, invalid("write the https URL of its directory", "listen.acme_directory is %q", withoutSecret(l.Authority)))
	}
	for _, origin := range l.Origins {
		if u, err := url.Parse(origin); origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.Path != "" || u.RawQuery != "" || u.User != nil) {
			errs = append(errs, invalid("write scheme and host, such as https://app.example.org, or *", "listen.origins has %q", withoutSecret(origin)))
		}
	}
	for _, network := range l.Proxies {
		_, noPrefix := netip.ParsePrefix(network)
		_, noAddress := netip.ParseAddr(network)
		if noPrefix != nil && noAddress != nil {
			errs = append(errs, invalid("write a network, such as 10.0.0.0/8, or an address", "listen.proxies has %q", network))
		}
	}
	return errs
}

// check checks the tokens.
func (t Tokens) check() []error {
	errs := spans([]span{
		{"tokens.access", t.Access, time.Second, 24 * time.Hour},
		{"tokens.refresh", t.Refresh, time.Minute, 2 * year},
		{"tokens.jwks_interval", t.JWKSEvery, time.Second, 24 * time.Hour},
	})
	for _, name := range []struct{ key, value string }{{"tokens.issuer", t.Issuer}, {"tokens.audience", t.Audience}} {
		if name.value == "" || len(name.value) > 255 {
			errs = append(errs, invalid("write a name or a URL of at most 255 bytes", "%s is %q", name.key, name.value))
		}
	}
	if t.Refresh < t.Access {
		errs = append(errs, invalid("make tokens.refresh longer", "tokens.refresh %s is shorter than tokens.access %s", durationText(t.Refresh), durationText(t.Access)))
	}
	keys := 0
	for _, place := range []string{t.JWKSFile, t.JWKSURL} {
		if place != "" {
			keys++
		}
	}
	switch {
	case t.Trusted == "" && keys > 0:
		errs = append(errs, invalid("set tokens.trusted to the issuer of these keys", "tokens.trusted is empty, but tokens.jwks_file or tokens.jwks_url is set"))
	case t.Trusted != "" && keys != 1:
		errs = append(errs, invalid("set one of tokens.jwks_file and tokens.jwks_url", "tokens.trusted has %d sources of keys", keys))
	case t.Trusted != "" && t.Trusted == t.Issuer:
		errs = append(errs, invalid("give tokens.issuer another name", "tokens.trusted and tokens.issuer are the same"))
	}
	if len(t.TrustedScopes) == 0 {
		errs = append(errs, invalid("write user, or what else the trusted issuer may grant", "tokens.trusted_scopes is empty"))
	}
	for _, scope := range t.TrustedScopes {
		if !slices.Contains([]string{"user", "service", "moderator", "admin"}, scope) {
			errs = append(errs, invalid("write some of user, service, moderator, admin", "tokens.trusted_scopes has %q", scope))
		}
	}
	if t.JWKSURL != "" && !isURL(t.JWKSURL, "https") && !isLoopback(t.JWKSURL) {
		errs = append(errs, invalid("use an https URL", "tokens.jwks_url is %q", withoutSecret(t.JWKSURL)))
	}
	return errs
}

func (r Rates) check() (errs []error) {
	for _, one := range []struct {
		name string
		rate Rate
	}{{"rates.writes", r.Writes}, {"rates.reads", r.Reads}, {"rates.follows", r.Follows}, {"rates.address_reads", r.AddressReads}, {"rates.address_writes", r.AddressWrites}} {
		errs = append(errs, checkRate(one.name, one.rate)...)
	}
	return errs
}

func checkRate(name string, r Rate) []error {
	if r.Count != 0 && (r.Count < 0 || r.Per < time.Second || r.Per > 7*24*time.Hour) {
		return []error{invalid("write a number and a duration from 1s to 7d, such as 300/3h, or 0 for no limit", "%s is %s", name, r)}
	}
	return nil
}

func (t Traces) check() (errs []error) {
	if t.Endpoint != "" && !isURL(t.Endpoint, "http", "https") {
		errs = append(errs, invalid("write a URL such as http://127.0.0.1:4318", "traces.endpoint is %q", withoutSecret(t.Endpoint)))
	}
	if t.Share < 0 || t.Share > 1 || t.Share != t.Share {
		errs = append(errs, invalid("set it from 0 to 1", "traces.sample_ratio is %g", t.Share))
	}
	return errs
}

// check checks the settings of stories and their relation to those of media.
func (s Stories) check(m Media) []error {
	errs := spans([]span{
		{"stories.urls", s.URLs, time.Second, time.Minute},
		{"stories.archive_urls", s.ArchiveURLs, time.Second, time.Hour},
	})
	errs = append(errs, counts([]count{
		{"stories.live", int64(s.Live), 1, 100_000},
		{"stories.max_image", int64(s.MaxImage), 1, int64(GiB)},
		{"stories.max_video", int64(s.MaxVideo), 1, int64(5 * GiB)},
		{"stories.max_pixels", s.MaxPixels, 1, 1 << 30},
		{"stories.thumbnail_pixels", s.ThumbnailPixels, 1, 1 << 30},
		{"stories.thumbnails", int64(s.Thumbnails), 1, 1_000},
	})...)
	if most := max(s.MaxImage, s.MaxVideo); most > m.Max {
		errs = append(errs, invalid(fmt.Sprintf("raise media.max to %s, or lower them", most), "stories.max_image or stories.max_video is over media.max %s", m.Max))
	}
	return errs
}

func isAddress(text string) bool {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == port
}

func isURL(text string, schemes ...string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return false
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme {
			return true
		}
	}
	return false
}

// isLoopback reports whether text is an http URL of this machine.
func isLoopback(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && address.IsLoopback()
}

// check checks the edge.
func (e Edge) check() []error {
	errs := spans([]span{{"edge.timeout", e.Timeout, 10 * time.Millisecond, time.Minute}})
	for _, server := range e.Varnish {
		if !isURL(server, "http", "https") {
			errs = append(errs, invalid("write a URL such as http://10.0.0.5:6081", "edge.varnish has %q", withoutSecret(server)))
		}
	}
	if len(e.Varnish) > 0 && e.Secret == "" {
		errs = append(errs, invalid("set it to MAYFLY_PURGE_SECRET of the Varnish servers", "edge.varnish is set and edge.secret is empty"))
	}
	return errs
}

// check checks the pastes.
func (p Pastes) check(m Media) (errs []error) {
	errs = counts([]count{
		{"pastes.max_size", int64(p.MaxSize), 1, int64(m.Max)},
		{"pastes.hourly_bytes", int64(p.HourlyBytes), 0, 1 << 50},
		{"pastes.page_cache", int64(p.PageCache), 0, 1 << 40},
	})
	if p.HourlyBytes != 0 && p.HourlyBytes < p.MaxSize {
		errs = append(errs, invalid("set it to at least pastes.max_size, or to 0 for no limit", "pastes.hourly_bytes %s is less than pastes.max_size %s: no paste of that size could ever be sent", p.HourlyBytes, p.MaxSize))
	}
	for _, l := range []struct {
		name     string
		lifetime mayfly.Lifetime
	}{{"pastes.lifetime", p.Lifetime}, {"pastes.shortest_lifetime", p.ShortestLifetime}, {"pastes.longest_lifetime", p.LongestLifetime}} {
		if !l.lifetime.Valid() || l.lifetime == mayfly.Never {
			errs = append(errs, invalid("write a lifetime such as 7d; pastes.never allows pastes without an end", "%s is %s", l.name, l.lifetime))
		}
	}
	if p.Lifetime.Duration() < p.ShortestLifetime.Duration() || p.Lifetime.Duration() > p.LongestLifetime.Duration() {
		errs = append(errs, invalid("choose one between them", "pastes.lifetime %s is not between pastes.shortest_lifetime %s and pastes.longest_lifetime %s", p.Lifetime, p.ShortestLifetime, p.LongestLifetime))
	}
	if p.Host != "" && (strings.ContainsAny(p.Host, ":/ *{}") || !strings.Contains(p.Host, ".")) {
		errs = append(errs, invalid("write a host name without scheme and port, such as paste.example.org", "pastes.host is %q", p.Host))
	}
	return errs
}

// check checks the feed.
func (f Feed) check() []error {
	errs := checkRate("feed.like_rate", f.LikeRate)
	for _, l := range []struct {
		name     string
		lifetime mayfly.Lifetime
	}{{"feed.shortest_lifetime", f.ShortestLifetime}, {"feed.longest_lifetime", f.LongestLifetime}} {
		if !l.lifetime.Valid() || l.lifetime == mayfly.Never {
			errs = append(errs, invalid("write a lifetime such as 7d; feed.never allows posts without an end", "%s is %s", l.name, l.lifetime))
		}
	}
	switch {
	case f.Lifetime == mayfly.Never && !f.Never:
		errs = append(errs, invalid("set feed.lifetime to one such as 7d, or feed.never to true", "feed.lifetime is never, which feed.never does not allow"))
	case f.Lifetime != mayfly.Never && (f.Lifetime.Duration() < f.ShortestLifetime.Duration() || f.Lifetime.Duration() > f.LongestLifetime.Duration()):
		errs = append(errs, invalid("choose one between them", "feed.lifetime %s is not between feed.shortest_lifetime %s and feed.longest_lifetime %s", f.Lifetime, f.ShortestLifetime, f.LongestLifetime))
	}
	return errs
}

// check checks the key-value store.
func (k KV) check() []error {
	errs := counts([]count{
		{"kv.max_namespaces", int64(k.MaxNamespaces), 1, 10_000},
		{"kv.owner_quota", int64(k.OwnerQuota), 0, 1 << 50},
		{"kv.quota", int64(k.Quota), 0, 1 << 50},
		{"kv.max_key", int64(k.MaxKey), 1, int64(4 * KiB)},
		{"kv.max_value", int64(k.MaxValue), 1, int64(16 * MiB)},
		{"kv.memory", int64(k.Memory), int64(2 * MiB), int64(64 * GiB)},
	})
	errs = append(errs, spans([]span{
		{"kv.default_ttl", k.DefaultTTL, 0, 100 * year},
		{"kv.longest_ttl", k.LongestTTL, 0, 100 * year},
		{"kv.reclaim_within", k.ReclaimWithin, 5 * time.Minute, 24 * time.Hour},
	})...)
	errs = append(errs, checkRate("kv.rate", k.Rate)...)
	if k.LongestTTL > 0 && k.DefaultTTL > k.LongestTTL {
		errs = append(errs, invalid("make kv.default_ttl shorter", "kv.default_ttl %s is longer than kv.longest_ttl %s", durationText(k.DefaultTTL), durationText(k.LongestTTL)))
	}
	if k.Sync != "always" && k.Sync != "everysec" {
		errs = append(errs, invalid("write always or everysec", "kv.sync is %q", k.Sync))
	}
	for i, name := range k.Namespaces {
		if !regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`).MatchString(name) { // as product/kv
			errs = append(errs, invalid("use 1 to 64 of a-z, 0-9, dot, dash and underscore, beginning with a letter or digit", "kv.namespaces has %.70q", name))
		} else if slices.Contains(k.Namespaces[:i], name) {
			errs = append(errs, invalid("write it once", "kv.namespaces has %s twice", name))
		}
	}
	return errs
}
