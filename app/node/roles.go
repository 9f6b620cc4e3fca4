package node

import (
	"slices"

	"github.com/mayflyhq/mayfly"
)

// Role is a part of the work that a node may do, so that one binary can be many
// nodes (O6).
type Role string

// The roles.
const (
	API  Role = "api"  // serves users; walks nothing
	Walk Role = "walk" // walks shards and does the upkeep; serves no users
	All  Role = "all"  // both
)

// ParseRoles reads the names of roles; none is all.
func ParseRoles(names []string) ([]Role, error) {
	var roles []Role
	for _, name := range names {
		switch r := Role(name); r {
		case API, Walk, All:
			roles = append(roles, r)
		default:
			return nil, mayfly.Errorf(mayfly.Invalid, "%.40q is no role", name).WithHint("the roles are api, walk and all")
		}
	}
	return roles, nil
}

// rolesOf are the roles of a configuration, which has been validated.
func rolesOf(names []string) []Role {
	roles := make([]Role, len(names))
	for i, name := range names {
		roles[i] = Role(name)
	}
	return roles
}

// does says whether a node with these options has a role.
func (o Options) does(r Role) bool {
	return len(o.Roles) == 0 || slices.Contains(o.Roles, All) || slices.Contains(o.Roles, r)
}
