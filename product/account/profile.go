package account

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/store"
)

// Profile is what a user says of themselves, and how many edges the user has. A user
// without a row has the zero Profile with the id.
type Profile struct {
	User                 mayfly.UserID
	Handle, Name, Bio    string
	Avatar               string    // an https URL
	Picture              mayfly.ID // of an Avatar; zero: none
	Private              bool      // items for everyone are for followers
	Following, Followers int
}

// ProfileChange is a change of a profile; nil leaves a field as it is, and an empty
// text takes it out.
type ProfileChange struct {
	Handle, Name, Bio, Avatar *string
	Private                   *bool

	picture mayfly.ID // of an avatar that is stored
}

// The longest texts of a profile, in characters.
const (
	MaxName   = 50
	MaxBio    = 300
	maxAvatar = 2048
)

// profile is the row of a user in Profiles: the format, a byte of flags, and JSON. The
// relations of a viewer to a thousand users read only the flags.
type profile struct {
	Number    uint64                    `json:"number"` // drawn anew by every write (trap 19)
	Handle    string                    `json:"handle,omitempty"`
	Claims    map[string]mayfly.Instant `json:"claims,omitempty"` // handles that Handles may have for the user, and when each was last claimed
	Name      string                    `json:"name,omitempty"`
	Bio       string                    `json:"bio,omitempty"`
	Avatar    string                    `json:"avatar,omitempty"`
	Picture   mayfly.ID                 `json:"picture,omitzero"` // in Avatars; then Avatar is empty
	Private   bool                      `json:"-"`                // in the flags
	Places    int                       `json:"places,omitempty"` // of followers; 0: one
	Following int                       `json:"following,omitempty"`
	Followers []int                     `json:"followers,omitempty"` // by place
}

const (
	profileFormat  = 2
	privateProfile = 1 << 0 // a flag
)

func readProfile(b []byte) (p profile, err error) {
	if b == nil {
		return p, nil
	}
	if p.Private, err = readPrivate(b); err != nil {
		return p, err
	}
	if err := json.Unmarshal(b[2:], &p); err != nil {
		return profile{}, badProfile(b)
	}
	return p, nil
}

// readPrivate reads only whether the account of a profile is private.
func readPrivate(b []byte) (bool, error) {
	switch {
	case b == nil:
		return false, nil
	case len(b) < 2 || b[0] != profileFormat || b[1]&^privateProfile != 0:
		return false, badProfile(b)
	}
	return b[1]&privateProfile != 0, nil
}

func badProfile(b []byte) error {
	return mayfly.Errorf(mayfly.Corrupt, "a profile of %d bytes cannot be read", len(b))
}

// said reports whether the user has said anything in it.
func (p profile) said() bool {
	return p.Private || p.Handle != "" || p.Name != "" || p.Bio != "" || p.Avatar != "" || !p.Picture.IsZero()
}

func (p profile) bytes() ([]byte, error) {
	var number [numberBytes]byte
	if _, err := rand.Read(number[:]); err != nil {
		return nil, err
	}
	p.Number = binary.BigEndian.Uint64(number[:])
	text, err := json.Marshal(p)
	head := []byte{profileFormat, 0}
	if p.Private {
		head[1] |= privateProfile
	}
	return append(head, text...), err
}

// placeOf returns the place of a new follower.
func (p profile) placeOf(reader mayfly.UserID) Place {
	if p.Places <= 1 {
		return 0
	}
	return 1 + Place(hashOf(string(reader[:]))%uint32(p.Places-1))
}

// places returns the places of followers.
func (p profile) places() []Place {
	all := make([]Place, max(p.Places, 1))
	for i := range all {
		all[i] = Place(i)
	}
	return all
}

func (p profile) count(place Place) int {
	if int(place) >= len(p.Followers) {
		return 0
	}
	return p.Followers[place]
}

func (p profile) public(user mayfly.UserID) Profile {
	all := Profile{User: user, Handle: p.Handle, Name: p.Name, Bio: p.Bio, Avatar: p.Avatar, Picture: p.Picture, Private: p.Private, Following: p.Following}
	for _, n := range p.Followers {
		all.Followers += n
	}
	return all
}

// profile reads the row of one user.
func (a *Accounts) profile(ctx context.Context, user mayfly.UserID) (profile, error) {
	found, err := a.o.Rows.Get(ctx, Profiles, profileKey(user))
	if err != nil {
		return profile{}, err
	}
	return readProfile(found[0])
}

// Profiles returns the profiles of users, in their order, with one read. It does not
// ask who may see them.
func (a *Accounts) Profiles(ctx context.Context, users ...mayfly.UserID) ([]Profile, error) {
	keys := make([]store.Key, len(users))
	for i, user := range users {
		keys[i] = profileKey(user)
	}
	found, err := a.o.Rows.Get(ctx, Profiles, keys...)
	if err != nil {
		return nil, fmt.Errorf("profiles of %d users: %w", len(users), err)
	}
	all := make([]Profile, len(users))
	for i, user := range users {
		p, err := readProfile(found[i])
		if err != nil {
			return nil, fmt.Errorf("profile of %s: %w", user, err)
		}
		all[i] = p.public(user)
	}
	return all, nil
}

// Change changes the profile of a user and returns it. When it returns, an account
// that became private is private for the next read anywhere. Errors: Invalid, Conflict
// (the handle is taken), Unavailable, Unknown.
func (a *Accounts) Change(ctx context.Context, user mayfly.UserID, c ProfileChange, now mayfly.Instant) (Profile, error) {
	c, err := c.checked()
	if err != nil {
		return Profile{}, err
	}
	if err := a.refuseErased(ctx, user); err != nil {
		return Profile{}, err
	}
	p, err := a.change(ctx, user, c, now)
	if err != nil {
		return Profile{}, fmt.Errorf("change a profile: %w", err)
	}
	return p.public(user), nil
}

func (a *Accounts) change(ctx context.Context, user mayfly.UserID, c ProfileChange, now mayfly.Instant) (profile, error) {
	otherAvatar := c.Avatar != nil || !c.picture.IsZero()
	if (otherAvatar || c.Private != nil && *c.Private) && a.o.Purge != nil {
		if err := a.o.Purge(ctx, user, now); err != nil {
			return profile{}, err
		}
	}
	if c.Handle != nil && *c.Handle != "" {
		if err := a.claim(ctx, user, *c.Handle, now); err != nil {
			return profile{}, err
		}
	}
	var before mayfly.ID
	p, err := a.updateProfile(ctx, user, func(p *profile) {
		before = p.Picture
		if otherAvatar {
			p.Avatar, p.Picture = "", c.picture
		}
		for field, text := range map[*string]*string{&p.Handle: c.Handle, &p.Name: c.Name, &p.Bio: c.Bio, &p.Avatar: c.Avatar} {
			if text != nil {
				*field = *text
			}
		}
		if c.Private != nil {
			p.Private = *c.Private
		}
	})
	if err != nil {
		return p, err
	}
	if otherAvatar {
		if err := a.removeAvatars(ctx, user, p.Picture, before, now); err != nil {
			return p, err
		}
	}
	if c.Handle != nil && *c.Handle != "" { // another change may have given it up before the profile showed it
		if err := a.hold(ctx, user, *c.Handle); errors.Is(err, mayfly.Conflict) {
			return p, errors.Join(err, a.disclaim(ctx, user, *c.Handle))
		} else if err != nil {
			return p, err
		}
	}
	if c.Handle != nil {
		if p, err = a.releaseOthers(ctx, user, p, now); err != nil {
			return p, err
		}
	}
	if c.Private != nil { // also when nothing changed: an earlier try may have ended before it published
		err = a.tell(ctx, user, mayfly.UserID{})
	}
	return p, err
}

// updateProfile changes the row of a user by compare-and-set.
func (a *Accounts) updateProfile(ctx context.Context, user mayfly.UserID, change func(*profile)) (p profile, err error) {
	_, err = store.Update(ctx, a.o.Rows, Profiles, profileKey(user), 0, func(old []byte) ([]byte, error) {
		if p, err = readProfile(old); err != nil {
			return nil, err
		}
		change(&p)
		return p.bytes()
	})
	return p, err
}

// reservedHandles are words that paths and signs of the product use, or that a user
// would take for the operator.
const reservedHandles = " about admin administrator api everyone followers following help home login logout mayfly me mod moderator null official root " +
	"security settings signup staff support system undefined user users verified "

// ValidHandle reports whether a text has the form of a handle.
func ValidHandle(handle string) bool {
	return len(handle) >= 3 && len(handle) <= 30 && strings.Trim(handle, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// checked returns the change with clean texts.
func (c ProfileChange) checked() (ProfileChange, error) {
	clean := func(what string, text *string, most int) (*string, error) {
		if text == nil {
			return nil, nil
		}
		s, err := mayfly.CleanText(what, *text, most)
		return &s, err
	}
	var err error
	if c.Handle != nil && *c.Handle != "" {
		switch {
		case !ValidHandle(*c.Handle):
			return c, mayfly.Errorf(mayfly.Invalid, "invalid handle %.40q", *c.Handle).WithHint("a handle has 3 to 30 of a-z, 0-9 and _")
		case strings.Contains(reservedHandles, " "+*c.Handle+" "):
			return c, mayfly.Errorf(mayfly.Conflict, "the handle %q is reserved", *c.Handle).WithHint("choose another")
		}
	}
	if c.Name, err = clean("display name", c.Name, MaxName); err != nil {
		return c, err
	}
	if c.Bio, err = clean("bio", c.Bio, MaxBio); err != nil {
		return c, err
	}
	if c.Avatar, err = clean("avatar", c.Avatar, maxAvatar); err != nil {
		return c, err
	}
	if c.Avatar != nil && *c.Avatar != "" {
		u, err := url.Parse(*c.Avatar)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
			return c, mayfly.Errorf(mayfly.Invalid, "the avatar is not an https URL").WithHint("send the address of an image, such as https://example.com/ana.jpg")
		}
	}
	return c, nil
}

// handle is the row of a handle: its user, or none for a time after it was released.
const (
	handleFormat = 1
	handleBytes  = 1 + len(mayfly.UserID{}) + numberBytes
)

func readHandle(b []byte) (user mayfly.UserID, err error) {
	switch {
	case b == nil:
		return user, nil
	case len(b) != handleBytes || b[0] != handleFormat:
		return user, mayfly.Errorf(mayfly.Corrupt, "a handle of %d bytes cannot be read", len(b))
	}
	return mayfly.UserID(b[1 : 1+len(user)]), nil
}

// claim gives the user a handle that no other user has. The profile names it before,
// so that nothing is left of it when the user is erased.
func (a *Accounts) claim(ctx context.Context, user mayfly.UserID, handle string, now mayfly.Instant) error {
	if _, err := a.updateProfile(ctx, user, func(p *profile) {
		if p.Claims == nil {
			p.Claims = map[string]mayfly.Instant{}
		}
		p.Claims[handle] = now
	}); err != nil {
		return err
	}
	err := a.hold(ctx, user, handle)
	if errors.Is(err, mayfly.Conflict) {
		err = errors.Join(err, a.disclaim(ctx, user, handle))
	}
	return err
}

// hold writes that the user has a handle. It does so also where that is written: who
// gives it up at the same time finds another row then.
func (a *Accounts) hold(ctx context.Context, user mayfly.UserID, handle string) error {
	_, err := store.Update(ctx, a.o.Rows, Handles, handleKey(handle), 0, func(old []byte) ([]byte, error) {
		holder, err := readHandle(old)
		if err != nil {
			return nil, err
		}
		if !holder.IsZero() && holder != user {
			return nil, mayfly.Errorf(mayfly.Conflict, "the handle %q is taken", handle).WithHint("choose another")
		}
		return numbered(append([]byte{handleFormat}, user[:]...)...)
	})
	return err
}

// disclaim takes a handle that another user has out of the profile. The claim fades.
func (a *Accounts) disclaim(ctx context.Context, user mayfly.UserID, handle string) error {
	_, err := a.updateProfile(ctx, user, func(p *profile) {
		if p.Handle == handle {
			p.Handle = ""
		}
	})
	return err
}

// releaseOthers gives up every handle of the user but the one that the profile shows. A
// claim stays until no write of it can land any more: another change of the user may be
// about to hold that handle, and a handle without a claim would be lost.
func (a *Accounts) releaseOthers(ctx context.Context, user mayfly.UserID, p profile, now mayfly.Instant) (profile, error) {
	faded := func(p *profile, handle string) bool {
		return handle != p.Handle && now.Sub(p.Claims[handle]).Abs() >= fades
	}
	ended := false
	for _, handle := range slices.Sorted(maps.Keys(p.Claims)) {
		if handle == p.Handle {
			continue
		}
		_, err := store.Update(ctx, a.o.Rows, Handles, handleKey(handle), now.Add(fades), func(old []byte) ([]byte, error) {
			holder, err := readHandle(old)
			if err != nil || holder != user {
				return old, err
			}
			if is, err := a.profile(ctx, user); err != nil || is.Handle == handle { // shown since
				return old, err
			}
			return numbered(append([]byte{handleFormat}, make([]byte, len(user))...)...)
		})
		if err != nil {
			return p, err
		}
		ended = ended || faded(&p, handle)
	}
	if !ended {
		return p, nil
	}
	return a.updateProfile(ctx, user, func(p *profile) {
		maps.DeleteFunc(p.Claims, func(handle string, _ mayfly.Instant) bool { return faded(p, handle) })
	})
}

// UserOfHandle returns the user with a handle. Errors: NotFound.
func (a *Accounts) UserOfHandle(ctx context.Context, handle string) (mayfly.UserID, error) {
	if !ValidHandle(handle) {
		return mayfly.UserID{}, mayfly.NotFound
	}
	found, err := a.o.Rows.Get(ctx, Handles, handleKey(handle))
	if err != nil {
		return mayfly.UserID{}, fmt.Errorf("user of a handle: %w", err)
	}
	user, err := readHandle(found[0])
	if err != nil || user.IsZero() {
		return mayfly.UserID{}, orNotFound(err)
	}
	p, err := a.profile(ctx, user)
	if err != nil || p.Handle != handle {
		return mayfly.UserID{}, orNotFound(err)
	}
	erased, err := accounterase.Tombstones(ctx, a.o.Rows, user)
	if err != nil || erased[0] {
		return mayfly.UserID{}, orNotFound(err)
	}
	return user, nil
}

// orNotFound returns err, or NotFound without one.
func orNotFound(err error) error {
	if err != nil {
		return err
	}
	return mayfly.NotFound
}
