package s3store

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

func TestAPresignedURLIsValidForWholeSecondsUpToALimit(t *testing.T) {
	s := connect(t, fakeServer(t))
	hot := tier(t, s, TierOptions{Bucket: "hot", Longest: time.Minute})
	cold := tier(t, s, TierOptions{Bucket: "cold"})
	const read = 0
	for _, c := range []struct {
		tier   *Store
		length int64 // to be put, or read
		lasts  time.Duration
		want   string // empty: refused
	}{
		{hot, read, time.Minute, "60"},
		{hot, read, 1999 * time.Millisecond, "1"}, // never past the deadline (ST3)
		{hot, read, 999 * time.Millisecond, ""},
		{hot, read, 0, ""},
		{hot, read, 61 * time.Second, ""},
		{hot, 1000, time.Hour, "3600"},
		{cold, read, time.Hour, "3600"},
		{cold, read, time.Hour + time.Second, ""},
		{cold, 1000, 2 * time.Hour, ""},
		{cold, -1, time.Minute, ""},
	} {
		address, err := c.tier.PresignGet(t.Context(), "00/upload/0-0", c.lasts)
		if c.length != read {
			address, err = c.tier.PresignPut(t.Context(), "00/upload/0-0", c.length, c.lasts)
		}
		if c.want == "" {
			wantKind(t, mayfly.Invalid, err)
			continue
		}
		u, parseErr := url.Parse(address)
		if err != nil || parseErr != nil || u.Query().Get("X-Amz-Expires") != c.want {
			t.Errorf("%v: %s, %v", c.lasts, address, err)
		}
		if signed := u.Query().Get("X-Amz-SignedHeaders"); (signed == "content-length;host") != (c.length > 0) {
			t.Errorf("%d bytes: %s are signed", c.length, signed)
		}
		if strings.Contains(address, "anas-own-secret") {
			t.Error("the secret is in the address")
		}
	}
	_, err := hot.PresignGet(t.Context(), "../x", time.Minute)
	wantKind(t, mayfly.Invalid, err)
}

func TestAPresignedURLUsesThePublicAddress(t *testing.T) {
	o := fakeServer(t)
	o.Public = "https://media.example"
	hot := tier(t, connect(t, o), TierOptions{Bucket: "hot"})
	address, err := hot.PresignGet(t.Context(), "00/upload/0-0", time.Minute)
	if u, _ := url.Parse(address); err != nil || u.Scheme != "https" || !strings.HasSuffix(u.Host, "media.example") {
		t.Errorf("%s, %v", address, err)
	}
}
