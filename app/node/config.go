package node

import (
	"slices"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/engine/archive"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/erase"
	"github.com/mayflyhq/mayfly/engine/gate"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/restore"
	"github.com/mayflyhq/mayfly/engine/sweep"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
)

// FromConfig returns the options of a configuration.
func FromConfig(c config.Config) Options {
	e, verify := c.Ends, archive.Bytes
	if e.Verify == "checksum" {
		verify = archive.Checksum
	}
	return Options{
		Name:         c.Node,
		Roles:        rolesOf(c.Roles),
		Cadence:      c.Walk.Cadence,
		LogKept:      c.Log.Retention,
		TrimEvery:    c.Log.TrimEvery,
		ReclaimEvery: c.Disk.ReclaimEvery,
		Clock:        clock.Options{Limit: c.Clock.Limit, Outage: c.Clock.Outage, SavePeriod: c.Clock.SavePeriod},
		Gate:         gate.Options{CacheRows: c.Memory.Rows},
		Intake: intake.Options{
			Timeout: c.Births.Timeout, KeepKeys: c.Births.KeepKeys, RemindAfter: c.Births.RemindAfter,
			MaxBody: int(c.Media.MaxBody),
		},
		Uploads: upload.Options{
			Life: c.Media.UploadLife, MaxMedium: int64(c.Media.Max), MaxMedia: c.Media.MaxCount, MaxConcurrent: c.Media.MaxConcurrent,
			MaxOpen: c.Media.MaxOpen, MaxUnpublished: int64(c.Media.MaxUnpublished), Limits: mediaLimits(c.Stories), Spool: c.Data,
		},
		Walk: walk.Options{
			Settle: c.Walk.Settle, Page: c.Walk.Page, Batch: c.Walk.Batch, Budget: c.Walk.Lateness,
			Lease: c.Walk.Lease, Timeout: c.Walk.Timeout, RemindAfter: c.Births.RemindAfter,
		},
		Sweep:     sweep.Options{Window: e.ArchiveAfter, RemindAfter: c.Births.RemindAfter},
		Reconcile: sweep.ReconcileOptions{Soon: e.Reconcile, Late: e.ReconcileLate, Window: e.ArchiveAfter, RemindAfter: c.Births.RemindAfter},
		Archive:   archive.Options{Window: e.ArchiveAfter, Workers: e.ArchiveWorkers, Verify: verify},
		Retire:    archive.RetireOptions{After: e.RetireAfter, Window: e.ArchiveAfter, Remind: c.Births.RemindAfter},
		Erase:     erase.Options{RemindAfter: c.Births.RemindAfter},
		Settle:    c.Walk.Settle + c.Births.Timeout,
		Restore: restore.Options{
			RemindAfter: c.Births.RemindAfter, Window: e.ArchiveAfter, Days: e.RestoreWithin, Retention: e.RetireAfter,
			Timeout: c.Births.RemindAfter / 2,
		},
		Remind:          remind.Options{Settle: c.Walk.Settle, Tries: uint32(c.Retry.Tries), After: c.Births.RemindAfter, Longest: c.Retry.Longest},
		Tombstones:      remind.Tombstones{Kept: e.Tombstone},
		Products:        ProductOptions{Alone: c.Profile == config.Embedded, Stories: c.Stories, Pastes: c.Pastes, KV: c.KV, Feed: c.Feed, Listen: c.Listen, Tokens: c.Tokens, Rates: c.Rates, Presign: c.Profile != config.Embedded && c.S3.Presign},
		Edge:            c.Edge,
		ArchiveLateness: e.ArchiveLateness,
		Upkeep:          Upkeep{OrphansEvery: e.OrphansEvery, OrphanAge: e.OrphanAge, ScrubBytes: int64(e.ScrubBytes), ScrubEvery: e.ScrubEvery},
	}
}

// periods sets the defaults of periods.
func (o *Options) periods() {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&o.Cadence, mayfly.DefaultCadence)
	def(&o.LogKept, mayfly.DefaultLogRetention)
	def(&o.TrimEvery, mayfly.DefaultTrimEvery)
	def(&o.ReclaimEvery, mayfly.DefaultReclaimEvery)
	def(&o.Walk.Lease, mayfly.DefaultLease)
	def(&o.Clock.SavePeriod, mayfly.DefaultSavePeriod)
	if o.Clock.Skew == 0 {
		o.Clock.Skew = 250 * time.Millisecond
	}
	def(&o.ArchiveLateness, mayfly.DefaultArchiveLateness)
	def(&o.ArchiveTimeout, 5*time.Minute)
	def(&o.AccountsEvery, 10*time.Second)
	def(&o.OrphansEvery, mayfly.DefaultOrphansEvery)
	def(&o.ScrubEvery, mayfly.DefaultScrubEvery)
	def(&o.Archive.Window, mayfly.DefaultArchiveAfter)
}

// Role is a part of the work of a node. Nodes of one binary can have different
// roles (O6).
type Role string

// The roles.
const (
	API  Role = "api"  // serves users; walks nothing
	Walk Role = "walk" // walks shards and does the upkeep; serves no users
	All  Role = "all"  // both
)

// ParseRoles reads the names of roles. No name means all roles.
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

// rolesOf returns the roles of a configuration, which has been validated.
func rolesOf(names []string) []Role {
	roles := make([]Role, len(names))
	for i, name := range names {
		roles[i] = Role(name)
	}
	return roles
}

// does reports whether a node with these options has a role.
func (o Options) does(r Role) bool {
	return len(o.Roles) == 0 || slices.Contains(o.Roles, All) || slices.Contains(o.Roles, r)
}
