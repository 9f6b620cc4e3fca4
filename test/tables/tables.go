// Package tables lists every declared table for tests that open a store. A test of
// app/node checks that it is the list of a node.
package tables

import (
	"slices"

	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/accounterase"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/edge"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/product/feed"
	"github.com/mayflyhq/mayfly/product/kv"
	"github.com/mayflyhq/mayfly/product/paste"
	"github.com/mayflyhq/mayfly/product/story"
	"github.com/mayflyhq/mayfly/store"
)

// All returns every declared table.
func All() []store.Table {
	return slices.Concat(engine.Tables(), accounterase.Tables(), walk.Tables(), remind.Tables(), clock.Tables(), audit.Tables(), intake.Tables(), logread.Tables(), edge.Tables(), upload.Tables(), account.Tables(), story.Tables(), paste.Tables(), kv.Tables(), feed.Tables())
}
