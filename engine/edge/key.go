package edge

import "github.com/mayflyhq/mayfly"

// ItemKey returns the surrogate key under which the edge keeps every answer about
// an item: page, raw text, media and renditions.
func ItemKey(id mayfly.ID) string { return "i-" + id.String() }

// OwnerKey returns the surrogate key of every answer about an item of a user.
func OwnerKey(owner mayfly.UserID) string { return "o-" + owner.String() }
