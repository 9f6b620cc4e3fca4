package kvapi

import (
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/kv"
)

// namespaceRoutes are the routes with which users and services manage namespaces of
// their own.
func (h *handlers) namespaceRoutes() []httpapi.Route {
	one := []httpapi.Param{namespaceParam()}
	absent := []int{http.StatusNotFound}
	done := func(about string) []httpapi.Answer {
		return []httpapi.Answer{{Status: http.StatusNoContent, About: about}}
	}
	return []httpapi.Route{
		{
			Method: "GET", Pattern: "/v1/me/kv", ID: "listNamespaces", Summary: "List my namespaces of the key-value store", Limit: httpapi.ReadLimit,
			Answers: httpapi.Answers[wire.KVNamespaces](http.StatusOK, "All of them."), Handle: h.list,
		},
		{
			Method: "POST", Pattern: "/v1/me/kv", ID: "createNamespace", Summary: "Make a namespace", Limit: httpapi.WriteLimit, MaxBody: 4 << 10, Body: httpapi.JSONOf[wire.NewKVNamespace](),
			Problems: []int{http.StatusConflict, http.StatusInsufficientStorage, http.StatusUnprocessableEntity},
			Answers:  httpapi.Answers[wire.KVNamespace](http.StatusCreated, "The namespace with its first key, which is shown once."),
			Example:  `-H 'Content-Type: application/json' -d '{"name":"cache","default_ttl":"1h"}'`, Handle: h.create,
		},
		{
			Method: "GET", Pattern: "/v1/me/kv/{namespace}", ID: "describeNamespace", Summary: "Describe a namespace of mine", Limit: httpapi.ReadLimit, Params: one, Problems: absent,
			Answers: httpapi.Answers[wire.KVNamespace](http.StatusOK, "The namespace, and how much is in it."), Handle: h.describe,
		},
		{
			Method: "DELETE", Pattern: "/v1/me/kv/{namespace}", ID: "dropNamespace", Summary: "Remove a namespace of mine with everything in it", Limit: httpapi.WriteLimit, Params: one,
			Problems: append(absent, http.StatusInsufficientStorage), Answers: done("It is removed, and its keys open nothing."), Handle: h.drop,
		},
		{
			Method: "POST", Pattern: "/v1/me/kv/{namespace}/credentials", ID: "addCredential", Summary: "Make another key of a namespace of mine", Limit: httpapi.WriteLimit, Params: one,
			About:    "A namespace has at most two keys, so that one can replace the other.",
			Problems: append(absent, http.StatusConflict, http.StatusInsufficientStorage),
			Answers:  httpapi.Answers[wire.KVCredential](http.StatusCreated, "The key, which is shown once."), Handle: h.addKey,
		},
		{
			Method: "DELETE", Pattern: "/v1/me/kv/{namespace}/credentials/{credential}", ID: "removeCredential", Summary: "Remove a key of a namespace of mine by its id", Limit: httpapi.WriteLimit,
			Params:   append(one, httpapi.PathParam("credential", "The id of the key.", kv.CredentialPattern)),
			Problems: append(absent, http.StatusInsufficientStorage), Answers: done("It opens nothing any more; connections that it opened end within a second."), Handle: h.removeKey,
		},
	}
}

// list is GET /v1/me/kv.
func (h *handlers) list(c *httpapi.Call) error {
	owner, err := kv.OwnerOf(c.Caller)
	if err != nil {
		return err
	}
	all, err := h.o.KV.List(c.Context(), owner)
	if err != nil {
		return err
	}
	out := wire.KVNamespaces{Namespaces: make([]wire.KVNamespace, len(all))}
	for i, n := range all {
		out.Namespaces[i] = namespaceOf(n)
	}
	return c.JSON(http.StatusOK, out)
}

// create is POST /v1/me/kv.
func (h *handlers) create(c *httpapi.Call) error {
	owner, err := kv.OwnerOf(c.Caller)
	if err != nil {
		return err
	}
	var in wire.NewKVNamespace
	if err := c.ReadJSON(&in); err != nil {
		return err
	}
	settings, err := settingsOf(in, h.o.KV.Defaults())
	if err != nil {
		return err
	}
	at := c.ReadClock()
	if !at.Confirmed {
		return at.Err
	}
	made, key, err := h.o.KV.Create(c.Context(), owner, in.Name, settings, at.Now)
	if err != nil {
		return httpapi.Impossible(err)
	}
	out := namespaceOf(made)
	out.Credentials[0].Key = key.Reveal()
	return c.JSON(http.StatusCreated, out)
}

// settingsOf returns the settings that a request asks for.
func settingsOf(in wire.NewKVNamespace, s kv.Settings) (kv.Settings, error) {
	for _, ttl := range []struct {
		text string
		to   *time.Duration
	}{{in.LongestTTL, &s.LongestTTL}, {in.DefaultTTL, &s.DefaultTTL}} {
		if ttl.text == "" {
			continue
		}
		d, err := kv.ParseTTL(ttl.text)
		if err != nil {
			return s, err
		}
		*ttl.to = d
	}
	if in.DefaultTTL == "" && s.LongestTTL > 0 {
		s.DefaultTTL = min(s.DefaultTTL, s.LongestTTL) // the server's, where the owner has chosen a shorter longest
	}
	if in.Quota != nil {
		s.Quota = *in.Quota
	}
	if in.MaxKey != nil {
		s.MaxKey = *in.MaxKey
	}
	if in.MaxValue != nil {
		s.MaxValue = *in.MaxValue
	}
	s.Events, s.LastWriteWins = in.Events, in.LastWriteWins
	return s, nil
}

func namespaceOf(n kv.Namespace) wire.KVNamespace {
	s := n.Settings
	out := wire.KVNamespace{
		Name: n.Name, Made: n.Made, Quota: s.Quota, MaxKey: s.MaxKey, MaxValue: s.MaxValue, Events: s.Events, LastWriteWins: s.LastWriteWins,
		Credentials: make([]wire.KVCredential, len(n.Keys)),
	}
	for i, k := range n.Keys {
		out.Credentials[i] = wire.KVCredential{ID: k.ID, Made: k.Made}
	}
	if s.DefaultTTL > 0 {
		out.DefaultTTL = kv.FormatTTL(s.DefaultTTL)
	}
	if s.LongestTTL > 0 {
		out.LongestTTL = kv.FormatTTL(s.LongestTTL)
	}
	return out
}

// describe is GET /v1/me/kv/{namespace}.
func (h *handlers) describe(c *httpapi.Call) error {
	owner, name, err := ownedBy(c)
	if err != nil {
		return err
	}
	n, err := h.o.KV.Describe(c.Context(), owner, name)
	if err != nil {
		return err
	}
	space, err := h.o.KV.OpenOwned(c.Context(), owner, name)
	if err != nil {
		return err
	}
	stats, err := space.Stats(c.Context(), c.ReadClock())
	if err != nil {
		return err
	}
	out := namespaceOf(n)
	out.Entries, out.Bytes = &stats.Keys, &stats.Bytes
	return c.JSON(http.StatusOK, out)
}

func ownedBy(c *httpapi.Call) (owner mayfly.UserID, name string, err error) {
	owner, err = kv.OwnerOf(c.Caller)
	return owner, c.Request.PathValue("namespace"), err
}

// drop is DELETE /v1/me/kv/{namespace}.
func (h *handlers) drop(c *httpapi.Call) error {
	owner, name, err := ownedBy(c)
	if err != nil {
		return err
	}
	if err := h.o.KV.Remove(c.Context(), owner, name); err != nil {
		return err
	}
	return c.NoContent()
}

// addKey is POST /v1/me/kv/{namespace}/credentials.
func (h *handlers) addKey(c *httpapi.Call) error {
	owner, name, err := ownedBy(c)
	if err != nil {
		return err
	}
	at := c.ReadClock()
	if !at.Confirmed {
		return at.Err
	}
	key, made, err := h.o.KV.AddKey(c.Context(), owner, name, at.Now)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusCreated, wire.KVCredential{ID: made.ID, Key: key.Reveal(), Made: made.Made})
}

// removeKey is DELETE /v1/me/kv/{namespace}/credentials/{credential}.
func (h *handlers) removeKey(c *httpapi.Call) error {
	owner, name, err := ownedBy(c)
	if err != nil {
		return err
	}
	if err := h.o.KV.RemoveKey(c.Context(), owner, name, c.Request.PathValue("credential")); err != nil {
		return err
	}
	return c.NoContent()
}
