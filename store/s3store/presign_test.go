package s3store

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

func TestAPresignedURLIsValidForWholeSecondsUpToALimit(t *testing.T) {
	s := connect(t, fakeServer(t))
	hot := tier(t, s, TierOptions{Bucket: "hot", Longest: time.Minute})
	cold := tier(t, s, TierOptions{Bucket: "cold"})
	for _, c := range []struct {
		tier  *Store
		what  store.Access
		lasts time.Duration
		want  string // empty: refused
	}{
		{hot, store.Read, time.Minute, "60"},
		{hot, store.Read, 1999 * time.Millisecond, "1"}, // never past the deadline (ST3)
		{hot, store.Read, 999 * time.Millisecond, ""},
		{hot, store.Read, 0, ""},
		{hot, store.Read, 61 * time.Second, ""},
		{hot, store.Write, time.Hour, "3600"},
		{cold, store.Read, time.Hour, "3600"},
		{cold, store.Read, time.Hour + time.Second, ""},
		{cold, store.Write, 2 * time.Hour, ""},
		{cold, 0, time.Minute, ""},
	} {
		address, err := c.tier.Presign(t.Context(), c.what, "00/upload/0-0", c.lasts)
		if c.want == "" {
			wantKind(t, mayfly.Invalid, err)
			continue
		}
		u, parseErr := url.Parse(address)
		if err != nil || parseErr != nil || u.Query().Get("X-Amz-Expires") != c.want {
			t.Errorf("%v: %s, %v", c.lasts, address, err)
		}
		if strings.Contains(address, "anas-own-secret") {
			t.Error("the secret is in the address")
		}
	}
	_, err := hot.Presign(t.Context(), store.Read, "../x", time.Minute)
	wantKind(t, mayfly.Invalid, err)
}

func TestAPresignedURLUsesThePublicAddress(t *testing.T) {
	o := fakeServer(t)
	o.Public = "https://media.example"
	hot := tier(t, connect(t, o), TierOptions{Bucket: "hot"})
	address, err := hot.Presign(t.Context(), store.Read, "00/upload/0-0", time.Minute)
	if u, _ := url.Parse(address); err != nil || u.Scheme != "https" || !strings.HasSuffix(u.Host, "media.example") {
		t.Errorf("%s, %v", address, err)
	}
}
