package accountapi

import (
	"bytes"
	"crypto/sha256"
	"net/http"
	"slices"
	"time"

	"github.com/mayflyhq/mayfly/engine/hydrate"
	"github.com/mayflyhq/mayfly/engine/media"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/api/wire"
	"github.com/mayflyhq/mayfly/product/account"
)

// namePattern describes a user in a path, also by handle.
const namePattern = httpapi.UserPattern + "|@[a-z0-9_]{3,30}"

func named() []httpapi.Param {
	return []httpapi.Param{httpapi.PathParam("user", "A user: a UUID, ~ and the name that the home issuer uses for them, or @ and the handle.", namePattern)}
}

// user reads the user that the path names, also by handle. Errors: Invalid, NotFound.
func (h *handlers) user(c *httpapi.Call) (mayfly.UserID, error) {
	if text := c.Request.PathValue("user"); len(text) > 1 && text[0] == '@' {
		return h.accounts.UserOfHandle(c.Context(), text[1:])
	}
	return c.User("user")
}

// graphRoutes returns the routes of follow edges, mutes and profiles.
func (h *handlers) graphRoutes() []httpapi.Route {
	user := []account.Scope{account.User}
	absent := []int{http.StatusNotFound}
	read := func(pattern, id, tag, summary string, scopes []account.Scope, answers []httpapi.Answer, params []httpapi.Param, problems []int, handle func(*httpapi.Call) error) httpapi.Route {
		return httpapi.Route{
			Method: "GET", Pattern: pattern, ID: id, Tag: tag, Summary: summary, Scopes: scopes, Limit: httpapi.ReadLimit,
			Params: params, Answers: answers, Problems: problems, Handle: handle,
		}
	}
	change := func(method, pattern, id, summary string, handle func(c *httpapi.Call, other mayfly.UserID) error) httpapi.Route {
		return httpapi.Route{
			Method: method, Pattern: pattern, ID: id, Tag: "relations", Summary: summary, Scopes: user, Limit: httpapi.WriteLimit,
			Params: named(), Answers: changed(), Problems: absent,
			Handle: func(c *httpapi.Call) error {
				other, err := h.user(c)
				if err != nil {
					return err
				}
				if err := handle(c, other); err != nil {
					return err
				}
				return c.NoContent()
			},
		}
	}
	page := httpapi.Answers[wire.Profiles](http.StatusOK, "A page of users. It may be short of the limit and have a next.")
	follow := change("PUT", "/v1/me/following/{user}", "follow", "Follow a user, or ask to if the account is private", nil)
	follow.Answers, follow.Handle = httpapi.Answers[wire.Follow](http.StatusOK, "It applies from the next read on."), h.follow
	follow.Problems = []int{http.StatusNotFound, http.StatusConflict}
	mute := change("PUT", "/v1/me/mutes/{user}", "mute", "Mute a user: posts, reposts, or both without a body", nil)
	mute.Body, mute.BodyOptional, mute.MaxBody, mute.Handle = httpapi.JSONOf[wire.Mute](), true, smallBody, h.mute
	return []httpapi.Route{
		follow,
		change("DELETE", "/v1/me/following/{user}", "unfollow", "Stop following a user, or take a request back", func(c *httpapi.Call, other mayfly.UserID) error {
			return h.accounts.Unfollow(c.Context(), c.Caller.User, other, c.Now)
		}),
		read("/v1/me/following", "listMyFollowing", "relations", "List the users whom I follow", user, page, httpapi.Paging(), nil, func(c *httpapi.Call) error {
			return h.listFollowing(c, c.Caller.User)
		}),
		change("DELETE", "/v1/me/followers/{user}", "dropFollower", "Remove a follower", func(c *httpapi.Call, other mayfly.UserID) error {
			return h.accounts.Unfollow(c.Context(), other, c.Caller.User, c.Now)
		}),
		read("/v1/me/follow-requests", "listFollowRequests", "relations", "List the users who ask to follow me", user, page, httpapi.Paging(), nil, func(c *httpapi.Call) error {
			return h.cards(c, func(cursor string, limit int) ([]mayfly.UserID, string, error) {
				return h.accounts.Requests(c.Context(), c.Caller.User, cursor, limit)
			})
		}),
		change("POST", "/v1/me/follow-requests/{user}", "acceptFollowRequest", "Accept a request to follow me", func(c *httpapi.Call, other mayfly.UserID) error {
			return h.accounts.Accept(c.Context(), c.Caller.User, other, c.Now)
		}),
		change("DELETE", "/v1/me/follow-requests/{user}", "declineFollowRequest", "Decline a request to follow me", func(c *httpapi.Call, other mayfly.UserID) error {
			return h.accounts.Decline(c.Context(), c.Caller.User, other, c.Now)
		}),
		read("/v1/me/mutes", "listMutes", "relations", "List the users whom I mute", user, httpapi.Answers[wire.Mutes](http.StatusOK, "A page of users."), httpapi.Paging(), nil, h.listMutes),
		mute,
		change("DELETE", "/v1/me/mutes/{user}", "unmute", "Stop muting a user", func(c *httpapi.Call, other mayfly.UserID) error {
			return h.accounts.Mute(c.Context(), c.Caller.User, other, 0, mayfly.MutesPosts|mayfly.MutesReposts, c.Now)
		}),
		read("/v1/me/profile", "getMyProfile", "profiles", "Get my profile", user, httpapi.Answers[wire.Profile](http.StatusOK, "The profile."), nil, nil, func(c *httpapi.Call) error {
			return h.sendProfile(c, c.Caller.User)
		}),
		{
			Method: "PATCH", Pattern: "/v1/me/profile", ID: "changeMyProfile", Tag: "profiles", Scopes: user, Limit: httpapi.WriteLimit, MaxBody: smallBody,
			Summary: "Change my profile", About: "A field that is left out stays; an empty text takes it out. A private account's items for everyone are for followers, old ones too, from the next read on.",
			Body: httpapi.JSONOf[wire.ProfileChange](), Answers: httpapi.Answers[wire.Profile](http.StatusOK, "The profile."), Problems: []int{http.StatusConflict},
			Example: `-H 'Content-Type: application/json' -d '{"handle":"ana","display_name":"Ana"}'`, Handle: h.changeProfile,
		},
		{
			Method: "PUT", Pattern: "/v1/me/avatar", ID: "setMyAvatar", Tag: "profiles", Scopes: user, Limit: httpapi.WriteLimit, MaxBody: hydrate.MaxSent,
			Summary: "Send my avatar", About: "The image is made smaller, and its metadata are removed. It takes the place of any other avatar; an avatar that is changed to an empty text is none.",
			Body: images(), Answers: httpapi.Answers[wire.Profile](http.StatusOK, "The profile."),
			Problems: []int{http.StatusUnsupportedMediaType},
			Example:  `--data-binary @ana.jpg -H 'Content-Type: image/jpeg'`, Handle: h.setAvatar,
		},
		{
			Method: "GET", Pattern: "/v1/users/{user}/avatar/{avatar}", ID: "getAvatar", Tag: "profiles", Limit: httpapi.ReadLimit, Problems: absent,
			Summary: "Get the avatar of a user", About: "The profile has its URL. The picture is at most 320 pixels wide and high.",
			Params: append(named(), httpapi.PathParam("avatar", "The id of the avatar.", httpapi.UserPattern), httpapi.IfNoneMatch()),
			Answers: []httpapi.Answer{
				{Status: http.StatusOK, About: "The picture.", Content: images(), Headers: []string{"ETag", "Cache-Control"}},
				{Status: http.StatusNotModified, About: "It is the one that the client has."},
			},
			Handle: h.getAvatar,
		},
		read("/v1/users/{user}", "getUser", "profiles", "Get the profile of a user", nil, httpapi.Answers[wire.Profile](http.StatusOK, "The profile."), named(), absent, h.getUser),
		read("/v1/users/{user}/following", "listFollowing", "relations", "List the users whom a user follows", nil, page, append(named(), httpapi.Paging()...), absent, func(c *httpapi.Call) error {
			user, err := h.shownList(c)
			if err != nil {
				return err
			}
			return h.listFollowing(c, user)
		}),
		read("/v1/users/{user}/followers", "listFollowers", "relations", "List the followers of a user", nil, page, append(named(), httpapi.Paging()...), absent, func(c *httpapi.Call) error {
			user, err := h.shownList(c)
			if err != nil {
				return err
			}
			return h.cards(c, func(cursor string, limit int) ([]mayfly.UserID, string, error) {
				return h.accounts.Followers(c.Context(), user, cursor, limit)
			})
		}),
	}
}

// follow is PUT /v1/me/following/{user}.
func (h *handlers) follow(c *httpapi.Call) error {
	author, err := h.user(c)
	if err != nil {
		return err
	}
	if err := c.TakeFrom("follows", h.accounts.FollowRate(), 1); err != nil {
		return err
	}
	state, err := h.accounts.Follow(c.Context(), c.Caller.User, author, c.Now)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, wire.Follow{State: state.String()})
}

// mute is PUT /v1/me/mutes/{user}.
func (h *handlers) mute(c *httpapi.Call) error {
	other, err := h.user(c)
	if err != nil {
		return err
	}
	in := wire.Mute{Posts: true, Reposts: true}
	if c.Request.ContentLength != 0 {
		in = wire.Mute{}
		if err := c.ReadJSON(&in); err != nil {
			return err
		}
	}
	var set mayfly.Relation
	if in.Posts {
		set |= mayfly.MutesPosts
	}
	if in.Reposts {
		set |= mayfly.MutesReposts
	}
	clear := (mayfly.MutesPosts | mayfly.MutesReposts) &^ set
	if err := h.accounts.Mute(c.Context(), c.Caller.User, other, set, clear, c.Now); err != nil {
		return err
	}
	return c.NoContent()
}

// listMutes is GET /v1/me/mutes.
func (h *handlers) listMutes(c *httpapi.Call) error {
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	muted, next, err := h.accounts.Muted(c.Context(), c.Caller.User, cursor, limit)
	if err != nil {
		return err
	}
	all := wire.Mutes{Users: []wire.Muted{}, Next: next}
	for _, e := range muted {
		all.Users = append(all.Users, wire.Muted{User: e.User, Posts: e.Muted.Has(mayfly.MutesPosts), Reposts: e.Muted.Has(mayfly.MutesReposts)})
	}
	return c.JSON(http.StatusOK, all)
}

func (h *handlers) listFollowing(c *httpapi.Call, reader mayfly.UserID) error {
	return h.cards(c, func(cursor string, limit int) ([]mayfly.UserID, string, error) {
		edges, next, err := h.accounts.Following(c.Context(), reader, cursor, limit)
		users := make([]mayfly.UserID, len(edges))
		for i, e := range edges {
			users[i] = e.User
		}
		return users, next, err
	})
}

// cards sends a page of users with their profiles.
func (h *handlers) cards(c *httpapi.Call, list func(cursor string, limit int) ([]mayfly.UserID, string, error)) error {
	cursor, limit, err := c.Page()
	if err != nil {
		return err
	}
	users, next, err := list(cursor, limit)
	if err != nil {
		return err
	}
	profiles, err := h.accounts.Profiles(c.Context(), users...)
	if err != nil {
		return err
	}
	page := wire.Profiles{Users: []wire.Profile{}, Next: next}
	for _, p := range profiles {
		page.Users = append(page.Users, wireProfile(c, p))
	}
	return c.JSON(http.StatusOK, page)
}

// shownList returns the user of the path, whose lists the caller may see. Errors:
// NotFound, with the same text whether the caller is blocked or the account private.
func (h *handlers) shownList(c *httpapi.Call) (mayfly.UserID, error) {
	user, relation, err := h.related(c)
	if err == nil && relation.Has(mayfly.Private) && !relation.Has(mayfly.Follower) {
		err = mayfly.NotFound
	}
	return user, err
}

// related returns the user of the path and how that user stands to the caller. Of a
// moderator nothing is hidden. Errors: NotFound (the user blocks the caller).
func (h *handlers) related(c *httpapi.Call) (mayfly.UserID, mayfly.Relation, error) {
	user, err := h.user(c)
	viewer := c.Caller.Viewer()
	if err != nil || viewer.Moderator() {
		return user, 0, err
	}
	relation, err := h.accounts.Relation(c.Context(), user, viewer.User())
	if err == nil && relation.Has(mayfly.Blocked) {
		err = mayfly.NotFound
	}
	return user, relation, err
}

// getUser is GET /v1/users/{user}. That an account is private hides its items and
// lists, and not the profile.
func (h *handlers) getUser(c *httpapi.Call) error {
	user, _, err := h.related(c)
	if err != nil {
		return err
	}
	return h.sendProfile(c, user)
}

func (h *handlers) sendProfile(c *httpapi.Call, user mayfly.UserID) error {
	profiles, err := h.accounts.Profiles(c.Context(), user)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, wireProfile(c, profiles[0]))
}

// changeProfile is PATCH /v1/me/profile.
func (h *handlers) changeProfile(c *httpapi.Call) error {
	var in wire.ProfileChange
	if err := c.ReadJSON(&in); err != nil {
		return err
	}
	p, err := h.accounts.Change(c.Context(), c.Caller.User, account.ProfileChange{Handle: in.Handle, Name: in.Name, Bio: in.Bio, Avatar: in.Avatar, Private: in.Private}, c.Now)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, wireProfile(c, p))
}

// images are the types of avatars.
func images() (all httpapi.Content) {
	for _, typ := range slices.DeleteFunc(media.Types(), func(typ string) bool { return !media.HasPicture(typ) }) {
		all = append(all, httpapi.Typed{Type: typ, Schema: httpapi.Schema{"type": "string", "contentMediaType": typ}})
	}
	return all
}

// setAvatar is PUT /v1/me/avatar.
func (h *handlers) setAvatar(c *httpapi.Call) error {
	p, err := h.accounts.SetAvatar(c.Context(), c.Caller.User, c.Body, c.Now)
	if err != nil {
		return c.Body.Cause(err)
	}
	return c.JSON(http.StatusOK, wireProfile(c, p))
}

// cacheAvatar is how long shared caches may keep an avatar. They are notified when its user
// changes it, or blocks another user.
const cacheAvatar = time.Hour

// getAvatar is GET /v1/users/{user}/avatar/{avatar}.
func (h *handlers) getAvatar(c *httpapi.Call) error {
	id, err := c.ItemID("avatar")
	if err != nil {
		return err
	}
	user, _, err := h.related(c)
	if err != nil {
		return err
	}
	v, err := h.accounts.Avatar(c.Context(), user, id)
	if err != nil {
		return err
	}
	return c.ServeMedia(httpapi.Media{
		ReadSeeker: bytes.NewReader(v.Bytes), Type: v.Type, Size: int64(len(v.Bytes)), SHA256: sha256.Sum256(v.Bytes),
		Cache: cacheAvatar, Keys: httpapi.CacheKeys{Owner: user},
	})
}

func wireProfile(c *httpapi.Call, p account.Profile) wire.Profile {
	return wire.Profile{User: p.User, Handle: p.Handle, Name: p.Name, Bio: p.Bio, Avatar: c.AvatarURL(p), Private: p.Private, Following: p.Following, Followers: p.Followers}
}
