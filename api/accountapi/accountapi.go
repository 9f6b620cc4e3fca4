// Package accountapi serves accounts over HTTP: tokens, the relations between users,
// and profiles. It returns its routes to package httpapi.
//
// It keeps no state: product/account decides who may get a token and stores
// relations.
package accountapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

// Product is the name of the product in metrics.
const Product = "account"

const smallBody = 16 << 10

type handlers struct{ accounts *account.Accounts }

// Routes returns the routes of accounts.
func Routes(accounts *account.Accounts) []httpapi.Route {
	h := &handlers{accounts}
	routes := []httpapi.Route{{
		Method: "POST", Pattern: "/v1/token", ID: "getToken", Tag: "tokens", Limit: httpapi.ReadLimit, MaxBody: smallBody,
		Summary: "Get tokens, with a refresh token or as a service for a user",
		About:   "A refresh token can be used once; the answer contains the next one. Using it again revokes all tokens that came from it.",
		Body:    httpapi.JSONOf[wire.TokenRequest](), Answers: httpapi.Answers[wire.Tokens](http.StatusOK, "The tokens."),
		Example: `-H 'Content-Type: application/json' -d '{"refresh_token":"…"}'`, Handle: h.getToken,
	}, {
		Method: "POST", Pattern: "/v1/token/revoke", ID: "revokeToken", Tag: "tokens", Limit: httpapi.ReadLimit, MaxBody: smallBody,
		Summary: "Sign out: revoke a refresh token and all tokens that replace it, and an access token",
		About: "Any refresh token of the login will do. The answer is the same for a token that is unknown. Of the access tokens only the one that is sent is revoked; " +
			"others are valid until they expire.",
		Body: httpapi.JSONOf[wire.Revocation](), Answers: []httpapi.Answer{{Status: http.StatusNoContent, About: "None of these tokens is accepted."}},
		Example: `-H 'Content-Type: application/json' -d '{"refresh_token":"…","access_token":"…"}'`, Handle: h.revokeToken,
	}}
	routes = append(routes, h.listRoutes(mayfly.CloseFriend, "/v1/me/close-friends", "CloseFriend", "my close friends")...)
	routes = append(routes, h.listRoutes(mayfly.Blocked, "/v1/me/blocks", "Block", "the users whom I block")...)
	routes = append(routes, h.followerRoutes()...)
	routes = append(routes, h.graphRoutes()...)
	for i := range routes {
		routes[i].Product = Product
	}
	return routes
}

// getToken is POST /v1/token.
func (h *handlers) getToken(c *httpapi.Call) error {
	var in wire.TokenRequest
	if err := c.ReadJSON(&in); err != nil {
		return err
	}
	switch {
	case in.RefreshToken != "" && in.User != "":
		return mayfly.Errorf(mayfly.Invalid, "the request has both a refresh token and a user").WithHint("send one of them")
	case in.RefreshToken != "":
		access, next, user, err := h.accounts.Refresh(c.Context(), in.RefreshToken, c.Now)
		if err != nil {
			return err
		}
		return h.sendTokens(c, access, next, user)
	case in.User == "":
		return mayfly.Errorf(mayfly.Invalid, "the request has neither a refresh token nor a user").WithHint("send refresh_token; a service may send user")
	case !c.HasToken():
		return mayfly.Errorf(mayfly.Unauthenticated, "only a service gets tokens for a user")
	case !c.Caller.Has(account.Service) || c.Caller.For:
		return mayfly.Errorf(mayfly.Denied, "only a service gets tokens for a user").WithHint("send a token of the scope service, without Mayfly-User")
	}
	user, err := h.accounts.UserNamed(in.User)
	if err != nil {
		return err
	}
	access, refresh, err := h.accounts.Issue(c.Context(), user, "", c.Now)
	if errors.Is(err, mayfly.Unauthenticated) { // the service is authenticated; its user was erased
		return mayfly.Errorf(mayfly.Denied, "the account is erased").WithHint("it stays erased: a user who returns needs another subject")
	}
	if err != nil {
		return err
	}
	return h.sendTokens(c, access, refresh, user)
}

// revokeToken is POST /v1/token/revoke.
func (h *handlers) revokeToken(c *httpapi.Call) error {
	var in wire.Revocation
	if err := c.ReadJSON(&in); err != nil {
		return err
	}
	if in.RefreshToken == "" && in.AccessToken == "" {
		return mayfly.Errorf(mayfly.Invalid, "the request has no token").WithHint("send refresh_token, access_token or both")
	}
	if in.RefreshToken != "" {
		if err := h.accounts.SignOut(c.Context(), in.RefreshToken, c.Now); err != nil {
			return err
		}
	}
	if in.AccessToken != "" {
		if err := h.accounts.Revoke(c.Context(), in.AccessToken, c.Now); err != nil {
			return err
		}
	}
	return c.NoContent()
}

func (h *handlers) sendTokens(c *httpapi.Call, access, refresh account.Token, user mayfly.UserID) error {
	return c.JSON(http.StatusOK, wire.Tokens{
		AccessToken: string(access), TokenType: "Bearer", ExpiresIn: int(h.accounts.AccessLifetime() / time.Second), RefreshToken: string(refresh), User: user,
	})
}

// changed is the answer of routes that change a relation.
func changed() []httpapi.Answer {
	return []httpapi.Answer{{Status: http.StatusNoContent, About: "It applies from the next read on."}}
}

// listRoutes returns the routes of a list of users that a user keeps (ST10).
func (h *handlers) listRoutes(relation mayfly.Relation, path, name, list string) []httpapi.Route {
	user := []account.Scope{account.User}
	return []httpapi.Route{
		{
			Method: "GET", Pattern: path, ID: "list" + name + "s", Tag: "relations", Scopes: user, Limit: httpapi.ReadLimit, Params: httpapi.Paging(),
			Summary: "List " + list, Answers: httpapi.Answers[wire.Users](http.StatusOK, "A page of users."),
			Handle: func(c *httpapi.Call) error { return h.list(c, relation) },
		},
		{
			Method: "PUT", Pattern: path + "/{user}", ID: "add" + name, Tag: "relations", Scopes: user, Limit: httpapi.WriteLimit, Problems: []int{http.StatusNotFound},
			Summary: "Add to " + list, Answers: changed(),
			Handle: func(c *httpapi.Call) error { return h.relate(c, c.Caller.User, "user", relation, 0) },
		},
		{
			Method: "DELETE", Pattern: path + "/{user}", ID: "remove" + name, Tag: "relations", Scopes: user, Limit: httpapi.WriteLimit,
			Summary: "Remove from " + list, Answers: changed(),
			Handle: func(c *httpapi.Call) error { return h.relate(c, c.Caller.User, "user", 0, relation) },
		},
	}
}

// followerRoutes returns the routes by which the embedding product says who
// follows whom.
func (h *handlers) followerRoutes() []httpapi.Route {
	route := func(method, id, summary string, set, unset mayfly.Relation, problems ...int) httpapi.Route {
		return httpapi.Route{
			Method: method, Pattern: "/v1/users/{user}/followers/{follower}", ID: id, Tag: "relations", Scopes: []account.Scope{account.Service}, Limit: httpapi.WriteLimit,
			Summary: summary, Answers: changed(), Problems: problems,
			Params: []httpapi.Param{httpapi.PathParam("follower", "A user: a UUID, or ~ and the name that the home issuer uses for them.", httpapi.UserPattern)},
			Handle: func(c *httpapi.Call) error {
				user, err := c.User("user")
				if err != nil {
					return err
				}
				return h.relate(c, user, "follower", set, unset)
			},
		}
	}
	return []httpapi.Route{
		route("PUT", "addFollower", "Record that a user follows another", mayfly.Follower, 0, http.StatusNotFound),
		route("DELETE", "removeFollower", "Record that a user no longer follows another", 0, mayfly.Follower),
	}
}

func (h *handlers) list(c *httpapi.Call, relation mayfly.Relation) error {
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	users, next, err := h.accounts.List(c.Context(), c.Caller.User, relation, cursor, limit)
	if err != nil {
		return err
	}
	if users == nil {
		users = []mayfly.UserID{}
	}
	return c.JSON(http.StatusOK, wire.Users{Users: users, Next: next})
}

// relate changes what the user that the path has under a name is to user.
func (h *handlers) relate(c *httpapi.Call, user mayfly.UserID, name string, set, unset mayfly.Relation) error {
	other, err := c.User(name)
	if err != nil {
		return err
	}
	if err := h.accounts.Relate(c.Context(), user, other, set, unset, c.Now); err != nil {
		return err
	}
	return c.NoContent()
}
