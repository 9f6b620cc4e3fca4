package node

import (
	"slices"

	"github.com/mayflyhq/mayfly/engine"
	"github.com/mayflyhq/mayfly/engine/audit"
	"github.com/mayflyhq/mayfly/engine/clock"
	"github.com/mayflyhq/mayfly/engine/intake"
	"github.com/mayflyhq/mayfly/engine/logread"
	"github.com/mayflyhq/mayfly/engine/remind"
	"github.com/mayflyhq/mayfly/engine/upload"
	"github.com/mayflyhq/mayfly/engine/walk"
	"github.com/mayflyhq/mayfly/product/account"
	"github.com/mayflyhq/mayfly/store"
)

// Tables returns every table of the engine, of accounts and of the products, also
// of those that are off: a store is opened with them. Without products it takes
// those of Products.
func Tables(products ...Product) []store.Table {
	if len(products) == 0 {
		products = Products()
	}
	all := slices.Concat(engine.Tables(), walk.Tables(), remind.Tables(), clock.Tables(), audit.Tables(), intake.Tables(), logread.Tables(), upload.Tables(), account.Tables())
	for _, p := range products {
		all = append(all, p.Tables...)
	}
	return all
}
