package httpapi

import (
	"net/http"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

// relationList is a list of users that a user keeps (ST10).
type relationList struct {
	relation           mayfly.Relation
	path, name, people string
}

func relationLists() []relationList {
	return []relationList{
		{mayfly.CloseFriend, "/v1/me/close-friends", "CloseFriend", "close friends"},
		{mayfly.Blocked, "/v1/me/blocks", "Block", "the users whom I block"},
	}
}

func (l relationList) routes(user []account.Scope) []route {
	done := []reply{{status: http.StatusNoContent, about: "It holds from the next read on."}}
	return []route{
		{
			method: "GET", pattern: l.path, id: "list" + l.name + "s", tag: "relations", scopes: user, limit: readLimit, params: paging(),
			summary: "List " + l.people, answers: answers[wire.Users](http.StatusOK, "A page of users."), do: l.list,
		},
		{
			method: "PUT", pattern: l.path + "/{user}", id: "add" + l.name, tag: "relations", scopes: user, limit: writeLimit, may: []int{http.StatusNotFound},
			summary: "Add to " + l.people, answers: done, do: l.change(l.relation, 0),
		},
		{
			method: "DELETE", pattern: l.path + "/{user}", id: "remove" + l.name, tag: "relations", scopes: user, limit: writeLimit,
			summary: "Remove from " + l.people, answers: done, do: l.change(0, l.relation),
		},
	}
}

func (l relationList) list(c *call) error {
	cursor, limit, err := c.page()
	if err != nil {
		return err
	}
	users, next, err := c.accounts.List(c.r.Context(), c.who.User, l.relation, cursor, limit)
	if err != nil {
		return err
	}
	if users == nil {
		users = []mayfly.UserID{}
	}
	return c.json(http.StatusOK, wire.Users{Users: users, Next: next})
}

func (l relationList) change(set, clear mayfly.Relation) func(*call) error {
	return func(c *call) error {
		other, err := c.accounts.UserNamed(c.r.PathValue("user"))
		if err != nil {
			return err
		}
		if err := c.accounts.Relate(c.r.Context(), c.who.User, other, set, clear, c.now); err != nil {
			return err
		}
		return c.noContent()
	}
}

// followerRoutes are how the embedding product says who follows whom.
func followerRoutes(service []account.Scope) []route {
	change := func(method, id, summary string, set, clear mayfly.Relation, may ...int) route {
		return route{
			method: method, pattern: "/v1/users/{user}/followers/{follower}", id: id, tag: "relations", scopes: service, limit: writeLimit, may: may,
			summary: summary, answers: []reply{{status: http.StatusNoContent, about: "It holds from the next read on."}},
			do: func(c *call) error {
				user, err := c.accounts.UserNamed(c.r.PathValue("user"))
				if err != nil {
					return err
				}
				follower, err := c.accounts.UserNamed(c.r.PathValue("follower"))
				if err != nil {
					return err
				}
				if err := c.accounts.Relate(c.r.Context(), user, follower, set, clear, c.now); err != nil {
					return err
				}
				return c.noContent()
			},
		}
	}
	return []route{
		change("PUT", "addFollower", "Say that a user follows another", mayfly.Follower, 0, http.StatusNotFound),
		change("DELETE", "removeFollower", "Say that a user follows another no longer", 0, mayfly.Follower),
	}
}
