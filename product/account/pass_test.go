package account_test

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

func aPass() account.Pass {
	return account.Pass{ID: mayfly.ID{1, 2, 3}, Object: "0-320", Viewer: ben(), Until: within(time.Minute)}
}

// moderator returns the caller of a moderator's request.
func moderator() account.Principal {
	return account.Principal{Issuer: "mayfly", Subject: "mia", Scopes: []account.Scope{account.Moderator}}
}

func TestAModeratorsPassIsGoodForThatModeratorOnly(t *testing.T) {
	k, p := newKey(t), aPass()
	p.Moderator, p.Holder = true, moderator().Holder()
	other, elsewhere, user := moderator(), moderator(), moderator()
	other.Subject, elsewhere.Issuer, user.Scopes = "max", "https://id.example.org", []account.Scope{account.User}
	for name, caller := range map[string]account.Principal{"anonymous": {}, "another moderator": other, "of another issuer": elsewhere, "no longer a moderator": user} {
		if _, err := k.CheckPass(p.ID, p.Object, query(t, k, p), caller, start); !errors.Is(err, mayfly.Denied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func query(t *testing.T, k *account.Key, p account.Pass) url.Values {
	t.Helper()
	q, err := url.ParseQuery(k.SignPass(p))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestAPassIsGoodForWhatItSaysToTheMillisecond(t *testing.T) {
	k := newKey(t)
	anonymous, withUser, withoutUser := aPass(), aPass(), aPass()
	anonymous.Viewer = mayfly.UserID{}
	withUser.Moderator, withUser.Holder = true, moderator().Holder()
	withoutUser.Viewer, withoutUser.Moderator, withoutUser.Holder = mayfly.UserID{}, true, moderator().Holder()
	for _, p := range []account.Pass{aPass(), anonymous, withUser, withoutUser} {
		got, err := k.CheckPass(p.ID, p.Object, query(t, k, p), moderator(), p.Until-1)
		if err != nil || got != p {
			t.Errorf("%+v, %v", got, err)
		}
		if got.Eyes().User() != p.Viewer || got.Eyes().Moderator() != p.Moderator {
			t.Errorf("%+v", got.Eyes())
		}
		if _, err := k.CheckPass(p.ID, p.Object, query(t, k, p), moderator(), p.Until); !errors.Is(err, mayfly.Denied) {
			t.Errorf("when it is over: %v", err)
		}
	}
}

func TestAPassForAnythingElseIsRefusedWithTheSameText(t *testing.T) {
	k, p := newKey(t), aPass()
	change := func(name string, values ...string) url.Values {
		q := query(t, k, p)
		if len(values) == 0 {
			q.Del(name)
		} else {
			q[name] = values
		}
		return q
	}
	until, viewer, sig := query(t, k, p).Get("until"), query(t, k, p).Get("viewer"), query(t, k, p).Get("sig")
	cases := map[string]func() (account.Pass, error){
		"another item": func() (account.Pass, error) {
			return k.CheckPass(mayfly.ID{9}, p.Object, query(t, k, p), moderator(), start)
		},
		"another object": func() (account.Pass, error) { return k.CheckPass(p.ID, "0", query(t, k, p), moderator(), start) },
		"another key": func() (account.Pass, error) {
			return newKey(t).CheckPass(p.ID, p.Object, query(t, k, p), moderator(), start)
		},
		"over": func() (account.Pass, error) {
			return k.CheckPass(p.ID, p.Object, query(t, k, p), moderator(), p.Until+1)
		},
		"no query":         func() (account.Pass, error) { return k.CheckPass(p.ID, p.Object, nil, moderator(), start) },
		"another spelling": func() (account.Pass, error) { return k.CheckPass(p.ID, "00-320", query(t, k, p), moderator(), start) },
		"an object too long": func() (account.Pass, error) {
			return k.CheckPass(p.ID, p.Object+"x", query(t, k, p), moderator(), start)
		},
	}
	for name, q := range map[string]url.Values{
		"a later until": change("until", "9"+until), "no until": change("until"), "until in words": change("until", "tomorrow"), "two untils": change("until", until, until),
		"another viewer": change("viewer", ana().String()), "no viewer": change("viewer"), "a viewer that is none": change("viewer", "ben"), "two viewers": change("viewer", viewer, viewer),
		"a moderator": change("moderator", "1"), "a moderator in words": change("moderator", "true"), "no moderator": change("moderator", "0"),
		"no signature": change("sig"), "a short signature": change("sig", sig[:11]), "an empty signature": change("sig", ""), "two signatures": change("sig", sig, sig),
		"a long signature": change("sig", sig+"AAAA"),
	} {
		cases[name] = func() (account.Pass, error) { return k.CheckPass(p.ID, p.Object, q, moderator(), start) }
	}
	said := ""
	for name, check := range cases {
		got, err := check()
		if !errors.Is(err, mayfly.Denied) || got != (account.Pass{}) {
			t.Errorf("%s: %+v, %v", name, got, err)
			continue
		}
		if said == "" {
			said = err.Error()
		}
		if err.Error() != said {
			t.Errorf("%s: %q tells more than %q", name, err, said)
		}
	}
}

func TestNoChangedByteOfASignatureIsTaken(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random, k, p := rand.New(rand.NewPCG(seed, 0)), newKey(t), aPass()
	for range 2_000 {
		q := query(t, k, p)
		sig := []byte(q.Get("sig"))
		at, with := random.IntN(len(sig)), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"[random.IntN(64)]
		if sig[at] == with {
			continue
		}
		sig[at] = with
		q.Set("sig", string(sig))
		if _, err := k.CheckPass(p.ID, p.Object, q, moderator(), start); err == nil {
			t.Fatalf("byte %d", at)
		}
	}
}
