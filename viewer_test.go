package mayfly_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mayflyhq/mayfly"
)

const homeUser = "5b1e0c3a-7d42-4f19-8c55-0a9be2d6f731"

// Computed with another implementation of SHA-256 (see testdata/id-vectors.json).
func TestUsersAreHashedAsTheVectorsSay(t *testing.T) {
	users := readVectors(t).Users
	if len(users) < 8 {
		t.Fatalf("%d vectors", len(users))
	}
	for _, v := range users {
		if got := mayfly.UserOf(v.Issuer, v.Subject); got.String() != v.User || uint16(got.Trace()) != v.Trace {
			t.Errorf("(%q, %q) is %s with trace %d, want %s with %d", v.Issuer, v.Subject, got, got.Trace(), v.User, v.Trace)
		}
	}
}

func TestDifferentIssuersAndSubjectsGiveDifferentUsers(t *testing.T) {
	seen := map[mayfly.UserID]string{}
	text := "mayfly-user"
	for i := range len(text) + 1 { // every way to cut one text in two
		u := mayfly.UserOf(text[:i], text[i:])
		if other, taken := seen[u]; taken {
			t.Errorf("%q and %q are one user", text[:i]+"|"+text[i:], other)
		}
		seen[u] = text[:i] + "|" + text[i:]
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "issuer"), rapid.String().Draw(t, "subject")
		c, d := rapid.String().Draw(t, "other issuer"), rapid.String().Draw(t, "other subject")
		if same := mayfly.UserOf(a, b) == mayfly.UserOf(c, d); same != (a == c && b == d) {
			t.Fatalf("(%q, %q) and (%q, %q): same %t", a, b, c, d, same)
		}
	})
}

func TestOnlyUUIDsOfTheHomeIssuerAreUserIDs(t *testing.T) {
	if got := mayfly.HomeUserOf("home", homeUser); got.String() != homeUser {
		t.Errorf("home: %s", got)
	}
	if got := mayfly.UserOf("elsewhere", homeUser); got.String() == homeUser {
		t.Error("another issuer can name any user")
	}
	for _, subject := range []string{"ana", "", strings.ToUpper(homeUser), homeUser + " ", "00000000-0000-0000-0000-000000000000"} {
		if got := mayfly.HomeUserOf("home", subject); got != mayfly.UserOf("home", subject) || got.IsZero() {
			t.Errorf("%q at home is %s", subject, got)
		}
	}
}

func TestUserIDsAreParsedBack(t *testing.T) {
	u, err := mayfly.ParseUserID(homeUser)
	if err != nil || u.String() != homeUser || u.IsZero() {
		t.Fatalf("%s, %v", u, err)
	}
	text, err := json.Marshal(u)
	if err != nil || string(text) != `"`+homeUser+`"` {
		t.Fatalf("%s, %v", text, err)
	}
	var read mayfly.UserID
	if err := json.Unmarshal(text, &read); err != nil || read != u {
		t.Errorf("%s, %v", read, err)
	}
	for _, bad := range []string{"", "ana", strings.ToUpper(homeUser), homeUser[1:], "{" + homeUser[1:35] + "}", homeUser + "0"} {
		if _, err := mayfly.ParseUserID(bad); !errors.Is(err, mayfly.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := read.UnmarshalText([]byte("x")); !errors.Is(err, mayfly.Invalid) || read != u {
		t.Errorf("%s, %v", read, err)
	}
}

func TestOnlyTheAuthorWroteAnItem(t *testing.T) {
	ana, ben := mayfly.UserOf("i", "ana"), mayfly.UserOf("i", "ben")
	item := born(t, "24h", ana)
	anonymous := born(t, "24h", mayfly.UserID{})
	for name, c := range map[string]struct {
		viewer mayfly.Viewer
		item   mayfly.Item
		wrote  bool
	}{
		"the author":                         {mayfly.ViewerOf(ana), item, true},
		"the author as moderator":            {mayfly.ModeratorOf(ana), item, true},
		"another":                            {mayfly.ViewerOf(ben), item, false},
		"another as moderator":               {mayfly.ModeratorOf(ben), item, false},
		"anonymous":                          {mayfly.Viewer{}, item, false},
		"anonymous, of an anonymous item":    {mayfly.Viewer{}, anonymous, false},
		"the zero user, of an anonymous one": {mayfly.ViewerOf(mayfly.UserID{}), anonymous, false},
		"a user, of an anonymous item":       {mayfly.ViewerOf(ana), anonymous, false},
	} {
		if got := c.viewer.Wrote(c.item); got != c.wrote {
			t.Errorf("%s wrote it: %t", name, got)
		}
		if c.viewer.Wrote(c.item) && !c.viewer.MayHaveWritten(c.item.ID) {
			t.Errorf("%s wrote it, and the id says that it cannot be", name)
		}
	}
	if (mayfly.Viewer{}).MayHaveWritten(item.ID) || mayfly.ViewerOf(mayfly.UserID{}).MayHaveWritten(item.ID) {
		t.Error("an anonymous viewer may have written it")
	}
	if v := mayfly.ModeratorOf(ana); !v.Moderator() || v.User() != ana || mayfly.ViewerOf(ana).Moderator() {
		t.Error("a moderator is not what was asked for")
	}
}

// A no from the id alone is certain; a yes by chance is one in 1,024.
func TestTheTraceTellsMostViewersFromTheAuthor(t *testing.T) {
	item := born(t, "24h", mayfly.UserOf("i", "ana"))
	const viewers = 20_480
	yes := 0
	for i := range viewers {
		if mayfly.ViewerOf(mayfly.UserOf("v", string(rune(i)))).MayHaveWritten(item.ID) {
			yes++
		}
	}
	if yes > viewers/1024*3 {
		t.Errorf("%d of %d strangers may have written it", yes, viewers)
	}
}

func TestRelationsAreFlags(t *testing.T) {
	both := mayfly.Follower | mayfly.CloseFriend
	if !both.Has(mayfly.Follower) || !both.Has(mayfly.CloseFriend) || both.Has(mayfly.Blocked) || both.Has(both|mayfly.Blocked) || !both.Has(0) {
		t.Error("relations do not add up")
	}
}
