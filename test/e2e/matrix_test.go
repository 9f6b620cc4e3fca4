package e2e

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/httpapi"
	"github.com/mayflyhq/mayfly/test/probe"
)

// matrix checks every route against the oracle: route × role × state × audience.
type matrix struct {
	*testNode
	operations []operation // that are asked
	audiences  []string
	specimens  map[corner][]*specimen
	used       map[corner]int // specimens that a action has changed
	rows       map[string]int // how many, by operation
	equal      int            // refusals that were compared with those for ids that never were
	counts     map[string]int // LEAK, LATE, EARLY and whatever else is wrong
	quiet      bool           // what is wrong is counted, and no failure
}

// The matrix is made from the route table, so that a route of any product that has
// no rows fails.
func TestEveryRouteIsExactForEveryRoleInEveryState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMatrix(t, "everyone", "followers", "close_friends")
		defer m.close()
		deadline := m.publish()
		m.guards()
		m.live(deadline)
		m.ended(deadline)
		m.restored(deadline)
		m.verdict()
	})
}

// newMatrix returns a matrix of everything that the listeners document, of a node
// with one product more: the matrix covers it by what it declares.
func newMatrix(t *testing.T, audiences ...string) *matrix {
	t.Helper()
	cfg := nodeConfig()
	cfg.Stories.Live = 1000
	m := &matrix{testNode: openNode(t, cfg, probe.New(probe.Table()).Product(false)), audiences: audiences, specimens: map[corner][]*specimen{}, used: map[corner]int{}, rows: map[string]int{}, counts: map[string]int{}}
	m.operations = m.documents
	m.checkTable()
	return m
}

// checkTable fails unless the route table and the documents have the same
// operations: the matrix takes the routes of every product from them.
func (m *matrix) checkTable() {
	m.Helper()
	for _, rt := range m.routes {
		if !slices.ContainsFunc(m.documents, func(op operation) bool { return op.id == rt.ID && op.method == rt.Method && op.admin == rt.Admin }) {
			m.Errorf("%s (%s of %s) is not documented", rt, rt.ID, rt.Product)
		}
	}
	if len(m.routes) != len(m.documents) {
		m.Errorf("%d routes, %d documented operations", len(m.routes), len(m.documents))
	}
}

// route returns the route of an operation.
func (m *matrix) route(op operation) httpapi.Route {
	m.Helper()
	i := slices.IndexFunc(m.routes, func(rt httpapi.Route) bool { return rt.ID == op.id && rt.Admin == op.admin })
	if i < 0 {
		m.Fatalf("%s has no route", op.id)
	}
	return m.routes[i]
}

// live asks a millisecond before the deadline, and at it.
func (m *matrix) live(deadline mayfly.Instant) {
	m.sleepUntil(deadline.Add(-20 * time.Second))
	m.sign(live, due, expired, archiving, cold, restored, ended, held, heldLater, deleted, deletedDue, deletedOld)
	m.part()
	m.each(m.deletes, deleted, deletedDue, deletedOld)
	m.each(m.holds, held, heldLater)
	m.at(deadline-1, live, held, deleted, absent)
	m.views(live)
	m.at(deadline, due, deletedDue, absentDue)
	m.views(live, due)
}

// ended asks when the sweep, an archive worker and the archive have passed.
func (m *matrix) ended(deadline mayfly.Instant) {
	m.sleepUntil(deadline.Add(4 * walksLook))
	m.isInState(mayfly.ExpiredHot, expired, archiving)
	m.each(m.claims, archiving)
	m.isInState(mayfly.Archiving, archiving)
	m.at(deadline.Add(5*walksLook), expired, archiving, heldLater, deletedOld, absentOld)
	m.sleepUntil(deadline.Add(3 * time.Hour))
	m.isInState(mayfly.Cold, cold, restored, ended)
	m.at(deadline.Add(3*time.Hour), cold)
}

// restored asks a millisecond before what support said, and at it.
func (m *matrix) restored(deadline mayfly.Instant) {
	m.each(m.restores, restored, ended)
	m.sleepUntil(deadline.Add(restoredAfter - 20*time.Second))
	m.sign(restored, ended)
	m.at(deadline.Add(restoredAfter)-1, restored)
	m.views(restored)
	m.at(deadline.Add(restoredAfter), ended)
	m.views(live, due, expired, archiving, cold, restored, ended)
}

// at asks everything of everything in some states at one instant, which lasts
// for as long as that takes.
func (m *matrix) at(instant mayfly.Instant, of ...state) {
	m.Helper()
	m.sleepUntil(instant)
	for _, s := range of {
		for _, audience := range m.audiences {
			for _, op := range m.operations {
				m.operation(op, corner{s, audience})
			}
		}
	}
	if now := m.now(); now != instant {
		m.Errorf("it was to be %s all the time, and is %s", instant, now)
	}
}

// operation asks one operation of one corner as every role; those to whom an operation
// is allowed get a specimen of their own for it.
func (m *matrix) operation(op operation, c corner) {
	ask, known := m.askOf(op)
	if !known {
		return // said by verdict
	}
	for _, r := range roles() {
		item := m.specimens[c][0]
		if ask.changes(r) && !c.state.isAbsent() {
			m.used[c]++
			item = m.specimens[c][m.used[c]]
		}
		for _, row := range ask.rows(m, op, r, item) {
			m.rows[op.id]++
			m.row(op, r, item, row)
		}
	}
}

// verdict prints what was tried, and fails when a route was not.
func (m *matrix) verdict() {
	m.Helper()
	sum := 0
	for _, op := range m.documents {
		switch reason := withoutItem()[op.id]; {
		case m.rows[op.id] > 0 && reason != "":
			m.Errorf("%s has rows, and a reason to have none", op.id)
		case m.rows[op.id] == 0 && !carriesItem(m.route(op)):
			if reason != "" {
				m.Errorf("%s needs no reason in withoutItem(): %s", op.id, reason)
			}
			m.Logf("%-16s no rows: it declares no item, and its scopes are checked", op.id)
		case m.rows[op.id] == 0 && reason == "":
			m.Errorf("%s %s (%s) has no rows: teach asks() what it asks, or say in withoutItem() why it carries no item", op.method, op.path, op.id)
		case m.rows[op.id] == 0:
			m.Logf("%-16s no rows: %s", op.id, reason)
		default:
			m.Logf("%-16s %d rows", op.id, m.rows[op.id])
			sum += m.rows[op.id]
		}
	}
	m.measured()
	m.Logf("%d rows tried, %d refusals equal to those for ids that never were; LEAK %d, LATE %d, EARLY %d, other %v",
		sum, m.equal, m.counts["LEAK"], m.counts["LATE"], m.counts["EARLY"], m.counts)
	if sum < 5000 || m.equal < 2000 {
		m.Errorf("that is little")
	}
}

// servedLate is the node's own measure in its metrics when nothing
// was served late.
const servedLate = "\nmayfly_served_after_deadline_total 0\n"

// measured compares the matrix with the node's own measure of the same.
func (m *matrix) measured() {
	m.Helper()
	a := m.must(request{method: http.MethodGet, target: "/metrics", admin: true}, http.StatusOK)
	if !contains(a, servedLate) {
		m.Errorf("served_after_deadline_total is not there, or not 0")
	}
}
