package account

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/store"
)

// AvatarPixels is the longest side of an avatar that is kept here.
const AvatarPixels = mayfly.SmallRendition

// Avatar is a small picture of a user, made from an image that the user sent.
type Avatar struct {
	Type  string
	Bytes []byte
}

// An avatar never changes: another one has another id. It is shown while the profile
// names it, and only then.
const avatarFormat = 1

func avatarKey(user mayfly.UserID, id mayfly.ID) store.Key {
	return store.Key{Partition: string(user[:]), Clustering: string(id[:])}
}

func (v Avatar) bytes() []byte {
	return append(append([]byte{avatarFormat, byte(len(v.Type))}, v.Type...), v.Bytes...)
}

func readAvatar(b []byte) (Avatar, error) {
	if len(b) < 2 || b[0] != avatarFormat || len(b) < 2+int(b[1]) {
		return Avatar{}, mayfly.Errorf(mayfly.Corrupt, "an avatar of %d bytes cannot be read", len(b))
	}
	picture := 2 + int(b[1])
	return Avatar{Type: string(b[2:picture]), Bytes: b[picture:]}, nil
}

// SetAvatar makes a small picture of an image that a user sends, and the avatar of it.
// Errors: Unsupported (no image), Invalid, TooLarge, Unavailable, Unknown, and those of
// reading.
func (a *Accounts) SetAvatar(ctx context.Context, user mayfly.UserID, image io.Reader, now mayfly.Instant) (Profile, error) {
	if err := a.refuseErased(ctx, user); err != nil {
		return Profile{}, err
	}
	if a.o.Shrink == nil {
		return Profile{}, mayfly.Errorf(mayfly.Unsupported, "this node takes no images").WithHint("set the URL of an image as the avatar")
	}
	var small bytes.Buffer
	typ, err := a.o.Shrink(ctx, &small, image, AvatarPixels)
	if err != nil {
		return Profile{}, fmt.Errorf("set an avatar: %w", err)
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return Profile{}, err
	}
	id, err := mayfly.NewID(now, mayfly.Never, user.Trace(), binary.BigEndian.Uint64(random[:]))
	if err != nil {
		return Profile{}, fmt.Errorf("set an avatar: %w", err)
	}
	swapped, _, err := a.o.Rows.Swap(ctx, Avatars, avatarKey(user, id), nil, Avatar{typ, small.Bytes()}.bytes(), 0)
	if err == nil && !swapped {
		err = mayfly.Errorf(mayfly.Unavailable, "the id %s is taken", id).WithHint("try again")
	}
	if err != nil {
		return Profile{}, fmt.Errorf("set an avatar: %w", err)
	}
	p, err := a.change(ctx, user, ProfileChange{picture: id}, now)
	if err != nil {
		return Profile{}, fmt.Errorf("set an avatar: %w", err)
	}
	return p.public(user), nil
}

// removeAvatars removes the avatar that was shown before, and those that a crash has
// left: one that is young may be about to be named.
func (a *Accounts) removeAvatars(ctx context.Context, user mayfly.UserID, shown, before mayfly.ID, now mayfly.Instant) error {
	return eachRow(ctx, a.o.Rows, Avatars, string(user[:]), func(row store.Row) error {
		if len(row.Clustering) != len(mayfly.ID{}) {
			return mayfly.Errorf(mayfly.Corrupt, "an avatar with a clustering key of %d bytes", len(row.Clustering))
		}
		id := mayfly.ID([]byte(row.Clustering))
		if id == shown || id != before && now.Sub(id.Birth()) < fades {
			return nil
		}
		return removeRow(ctx, a.o.Rows, Avatars, avatarKey(user, id))
	})
}

// Avatar returns an avatar that the profile of a user names. It does not ask who may
// see it. Errors: NotFound.
func (a *Accounts) Avatar(ctx context.Context, user mayfly.UserID, id mayfly.ID) (Avatar, error) {
	found, err := a.o.Rows.Get(ctx, Avatars, avatarKey(user, id))
	if err != nil {
		return Avatar{}, fmt.Errorf("avatar: %w", err)
	}
	p, err := a.profile(ctx, user)
	if err != nil || found[0] == nil || p.Picture != id {
		return Avatar{}, orNotFound(err)
	}
	return readAvatar(found[0])
}
