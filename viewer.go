package mayfly

// Viewer is who asks. The zero Viewer is anonymous. A service that acts for a
// user is that user here; an administrator as such is anonymous: the scope
// alone shows no content (C2).
type Viewer struct {
	user      UserID
	trace     Trace
	moderator bool
}

// ViewerOf is the viewer for user. The trace is computed once here, so that a
// verdict costs no hash.
func ViewerOf(user UserID) Viewer { return Viewer{user: user, trace: user.Trace()} }

// ModeratorOf is user with a moderator's eyes.
func ModeratorOf(user UserID) Viewer {
	v := ViewerOf(user)
	v.moderator = true
	return v
}

// User is who the viewer is; zero when anonymous.
func (v Viewer) User() UserID { return v.user }

// Moderator says whether the viewer looks with a moderator's eyes.
func (v Viewer) Moderator() bool { return v.moderator }

// Wrote says whether the viewer is the author. Nobody is the author of an
// anonymous item.
func (v Viewer) Wrote(item Item) bool { return !v.user.IsZero() && v.user == item.Owner }

// MayHaveWritten says by the id alone whether the viewer could be its author: a
// no is certain, a yes is one in 1,024 by chance.
func (v Viewer) MayHaveWritten(id ID) bool { return !v.user.IsZero() && v.trace == id.Trace() }

// Relation is what the owner of an item has granted or refused a viewer.
type Relation uint8

// The relations; they add up.
const (
	Follower Relation = 1 << iota
	CloseFriend
	Blocked
)

// Has says whether r includes all of other.
func (r Relation) Has(other Relation) bool { return r&other == other }
