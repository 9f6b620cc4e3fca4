// Package kvapi serves the key-value store over HTTP: entries, batches and scans for
// programs with a key of a namespace, and namespaces for their owners.
//
// It decides nothing about expiry: product/kv does, by the node's clock. A value is
// bytes of any meaning, and is sent as such: never as something that a browser shows. A namespace that does not exist, one of another owner and a wrong key
// are refused by the same answer.
package kvapi

import (
	"context"
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/kv"
)

// Product is the name of the product in metrics.
const Product = "kv"

// Options are the settings of the routes. KV and Secret are required.
type Options struct {
	KV     *kv.KV
	Secret []byte // signs the cursors of scans
	Memory int64  // bytes of values that requests hold at once; default 256 MiB
}

// handlers are the handlers of the routes.
type handlers struct {
	o      Options
	memory *memory
}

const (
	bytesType = "application/octet-stream"

	maxBatch    = 1000     // operations of a batch
	maxBatchSum = 8 << 20  // bytes of its body
	maxAnswer   = 16 << 20 // bytes of values that a batch answers with
	maxScan     = 1000     // entries of a page
	defaultScan = 100
)

// Routes returns the routes of the key-value store.
func Routes(o Options) ([]httpapi.Route, error) {
	if o.KV == nil || len(o.Secret) == 0 {
		return nil, mayfly.Errorf(mayfly.Invalid, "kvapi: the key-value store and a secret are required")
	}
	if o.Memory == 0 {
		o.Memory = 256 << 20
	}
	h := &handlers{o: o, memory: newMemory(o.Memory)}
	all := append(append(h.entryRoutes(), h.groupRoutes()...), h.eventRoute())
	for i := range all {
		all[i].KeyPrefix = kv.KeyPrefix
		all[i].Params = append(all[i].Params, namespaceParam())
		all[i].Problems = append(all[i].Problems, http.StatusTooManyRequests, http.StatusUnprocessableEntity) // the second: what a cluster cannot do
	}
	all = append(all, h.namespaceRoutes()...)
	for i := range all {
		all[i].Product, all[i].Tag, all[i].Scopes = Product, "kv", []account.Scope{account.User, account.Service}
	}
	return all, nil
}

func namespaceParam() httpapi.Param {
	return httpapi.PathParam("namespace", "The name of the namespace.", kv.NamePattern)
}

const (
	keyAbout = "The caller is the owner of the namespace, by a token, or sends a key of the namespace in the place of the token: Authorization: Bearer mfkv_…. " +
		"A namespace that does not exist, one of another owner and a wrong key get the same answer, 403. Requests count against the rate of the namespace. "
	writeAbout = "Without Mayfly-TTL and Mayfly-Expires-At the entry gets the default time to live of the namespace. An expiry in the past deletes the entry, as Redis does. "
)

// entryRoutes are the routes about one entry, by the key in the path and by the key in
// base64url, for keys that a path cannot carry.
func (h *handlers) entryRoutes() (all []httpapi.Route) {
	expiry := []httpapi.Param{
		httpapi.Header("Mayfly-TTL", "How long the entry is served: a number and a unit of ms, s, m, h, d or w, or a sum such as 1h30m. keep: an entry that is there keeps its expiry. never: of PATCH."),
		httpapi.Header("Mayfly-Expires-At", "When it stops being served, instead of Mayfly-TTL: 2026-01-31T18:00:00.000Z."),
	}
	match := httpapi.Header("If-Match", "The ETag that the entry must have; * if it only must be there. Otherwise nothing is done, and the answer is 412.")
	unmatched := httpapi.Header("If-None-Match", "*: only if there is no entry. Otherwise nothing is done, and the answer is 412.")
	written := []string{"ETag", "Mayfly-TTL", "Mayfly-Expires-At"}
	content := httpapi.Content{{Type: bytesType}}
	get := httpapi.Route{
		Method: "GET", ID: "getKey", Summary: "Read a value", About: keyAbout,
		Params: []httpapi.Param{httpapi.IfNoneMatch()}, Problems: []int{http.StatusNotFound, http.StatusRequestEntityTooLarge},
		Answers: []httpapi.Answer{
			{Status: http.StatusOK, About: "The value. The ETag is the version of the entry.", Content: content, Headers: written},
			{Status: http.StatusNotModified, About: "What you have is current.", Headers: written},
		},
		Handle: h.get,
	}
	entries := []httpapi.Route{
		get, get.WithoutBody("headKey", "Does an entry exist, and until when?"),
		{
			Method: "PUT", ID: "putKey", Summary: "Write a value", About: keyAbout + writeAbout, MaxBody: int64(h.o.KV.Defaults().MaxValue), Body: content, BodyOptional: true,
			Params: append([]httpapi.Param{match, unmatched}, expiry...), Problems: []int{http.StatusPreconditionFailed, http.StatusInsufficientStorage},
			Answers: []httpapi.Answer{{Status: http.StatusNoContent, About: "It is written, and durable.", Headers: written}},
			Example: `-H 'Mayfly-TTL: 60s' --data-binary hello`, Handle: h.put,
		},
		{
			Method: "DELETE", ID: "deleteKey", Summary: "Delete an entry", About: keyAbout, Params: []httpapi.Param{match},
			Problems: []int{http.StatusPreconditionFailed, http.StatusInsufficientStorage, http.StatusRequestEntityTooLarge},
			Answers:  []httpapi.Answer{{Status: http.StatusNoContent, About: "It is absent, whether it was there or not."}}, Handle: h.remove,
		},
		{
			Method: "PATCH", ID: "patchKey", Summary: "Change the expiry of an entry, or add to its number",
			About:  keyAbout + "Without increment the expiry changes to that of Mayfly-TTL or Mayfly-Expires-At. With increment an entry that is there keeps its expiry, and a new one gets it.",
			Params: append([]httpapi.Param{match}, expiry...), MaxBody: 4 << 10, Body: httpapi.JSONOf[wire.KVPatch](), BodyOptional: true,
			Problems: []int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusInsufficientStorage},
			Answers: append(httpapi.Answers[wire.KVEntry](http.StatusOK, "The entry as it is now.", written...),
				httpapi.Answer{Status: http.StatusNoContent, About: "The expiry was in the past, and the entry is deleted."}),
			Example: `-H 'Content-Type: application/json' -d '{"increment":1}'`, Handle: h.patch,
		},
	}
	key := httpapi.PathParam("key", "The key. Slashes are part of it; a key with an empty segment, a backslash, a percent or a control character comes as key64.", ".+")
	key64 := httpapi.Query("key64", "The key in base64url without padding.", httpapi.Schema{"type": "string", "pattern": "^[0-9A-Za-z_-]*$"})
	key64.Required = true
	for _, rt := range entries {
		params := rt.Params
		rt.Pattern, rt.Params = "/v1/kv/{namespace}/keys/{key...}", append(params[:len(params):len(params)], key)
		all = append(all, rt)
		rt.ID, rt.Summary = rt.ID+"64", rt.Summary+"; the key is in base64url"
		rt.Pattern, rt.Params = "/v1/kv/{namespace}/keys", append(params[:len(params):len(params)], key64)
		all = append(all, rt)
	}
	return all
}

func (h *handlers) groupRoutes() []httpapi.Route {
	text := httpapi.Schema{"type": "string"}
	return []httpapi.Route{
		{
			Method: "POST", Pattern: "/v1/kv/{namespace}/batch", ID: "batchKeys", Summary: "Read or write several entries", MaxBody: maxBatchSum, Body: httpapi.JSONOf[wire.KVBatch](),
			About: keyAbout + "Operations that write are one group: others see all of it or nothing, and one that cannot be stored stores none. An operation whose condition does not hold is not done, and the others are; " +
				"watch makes all of them depend on entries. Operations that read answer with 16 MiB of values at most. On a cluster all keys are in one slot, which a hash tag gives them: {user1}name and {user1}mail; otherwise the answer is 422.",
			Problems: []int{http.StatusPreconditionFailed, http.StatusInsufficientStorage},
			Answers:  httpapi.Answers[wire.KVResults](http.StatusOK, "One result for each operation, in order."),
			Example:  `-H 'Content-Type: application/json' -d '{"ops":[{"op":"set","key":"a","value":"1","ttl":"60s"},{"op":"delete","key":"b"}]}'`, Handle: h.batch,
		},
		{
			Method: "GET", Pattern: "/v1/kv/{namespace}/scan", ID: "scanKeys", Summary: "List entries, without their values",
			About: keyAbout + "An entry that exists from the first page to the last is listed once. A page may be empty although more follow.",
			Params: []httpapi.Param{
				httpapi.Query("prefix", "What the keys begin with.", text), httpapi.Query("prefix64", "The same in base64url.", text),
				httpapi.Query("cursor", "Where the page begins: next of the page before.", httpapi.Schema{"type": "string", "maxLength": maxCursor}),
				httpapi.Query("limit", "How many entries at most.", httpapi.Schema{"type": "integer", "minimum": 1, "maximum": maxScan, "default": defaultScan}),
			},
			Problems: []int{http.StatusRequestEntityTooLarge},
			Answers:  httpapi.Answers[wire.KVKeys](http.StatusOK, "A page of entries."), Handle: h.scan,
		},
	}
}

// errRefused is the answer to who may not use a namespace, or names none.
func errRefused() error {
	return mayfly.Errorf(mayfly.Denied, "there is no such namespace, or the token or key is not good for it").WithHint("check the name of the namespace, and send a token of its owner or one of its keys")
}

// open opens the namespace of the path for the caller, and counts operations against
// its rate. Errors: Denied, Limited, Unavailable, those of Rows.
func (h *handlers) open(c *httpapi.Call, operations int) (*kv.Space, error) {
	space, _, err := h.openAs(c, operations)
	return space, err
}

// openAs is open, and returns the id of the key that opened the namespace; "" for its
// owner.
func (h *handlers) openAs(c *httpapi.Call, operations int) (*kv.Space, string, error) {
	space, id, err := h.space(c)
	switch httpapi.KindOf(err) {
	case mayfly.NotFound, mayfly.Unauthenticated, mayfly.Denied:
		if limited := c.TakeRead(); limited != nil { // so that trying keys is limited (C3)
			return nil, "", limited
		}
		return nil, "", errRefused()
	}
	if err != nil {
		return nil, "", err
	}
	return space, id, space.Take(c.Context(), operations, c.ReadClock().Steady)
}

func (h *handlers) space(c *httpapi.Call) (*kv.Space, string, error) {
	name := c.Request.PathValue("namespace")
	if c.Key != "" {
		return h.o.KV.Open(c.Context(), name, c.Key.Reveal())
	}
	owner, err := kv.OwnerOf(c.Caller)
	if err != nil {
		return nil, "", err
	}
	space, err := h.o.KV.OpenOwned(c.Context(), owner, name)
	return space, "", err
}

// apply applies one operation. Errors: those of kv.Space, and of the operation.
func apply(ctx context.Context, s *kv.Space, at clock.Reading, op kv.Op) (kv.Result, error) {
	results, err := s.Apply(ctx, at, kv.Group{Ops: []kv.Op{op}})
	if err != nil {
		return kv.Result{}, failed(err)
	}
	return results[0], results[0].Err
}

// failed returns the answer to an error of the store: for a namespace that was removed
// meanwhile the refusal, and for what a cluster cannot do 422.
func failed(err error) error {
	if httpapi.KindOf(err) == mayfly.NotFound {
		return errRefused()
	}
	return httpapi.Impossible(err)
}
