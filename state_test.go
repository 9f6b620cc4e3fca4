package mayfly_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

// The life of an item as SPEC L1 and L16 tell it, written down a second time in
// words: nothing here asks the code what is allowed.
const spec = `
	active       -> expired_hot : at or after its end
	active       -> deleted     : delete
	expired_hot  -> archiving   : any time
	expired_hot  -> active      : restore
	expired_hot  -> deleted     : delete
	archiving    -> archiving   : any time
	archiving    -> cold        : any time
	archiving    -> active      : restore
	archiving    -> deleted     : delete
	cold         -> active      : restore
	cold         -> deleted     : delete
`

func states() []mayfly.State {
	return []mayfly.State{mayfly.Active, mayfly.ExpiredHot, mayfly.Archiving, mayfly.Cold, mayfly.Deleted}
}

func causes() []mayfly.Cause {
	return []mayfly.Cause{
		mayfly.NoCause, mayfly.ByExpiry, mayfly.ByUser, mayfly.ByAccount, mayfly.ByRetention, mayfly.BySupport, mayfly.ByArchive, mayfly.ByReader,
	}
}

type attempt struct {
	from, to mayfly.State
	hold     mayfly.Holding
	held     bool
	cause    mayfly.Cause
	ended    bool // the change is made at or after the item's end
	serves   bool // it says until when the item serves
}

// allowed reports whether the words above allow a.
func (a attempt) allowed(edges map[[2]string]string) bool {
	rule, edge := edges[[2]string{a.from.String(), a.to.String()}]
	onlyHold := a.hold != mayfly.KeepHold && a.from == a.to
	if a.from == mayfly.Deleted { // a tombstone is not held unless it was before
		onlyHold = onlyHold && a.held
	}
	scheduled := a.cause == mayfly.ByExpiry || a.cause == mayfly.ByRetention
	switch {
	case onlyHold:
		return !a.serves
	case !edge:
		return false
	case rule == "restore":
		return a.serves
	case a.serves:
		return false
	case rule == "at or after its end":
		return a.ended
	case rule == "any time":
		return !a.held // what is held stays where it is
	case rule == "delete":
		return (!a.held || a.cause == mayfly.ByUser) && (a.ended || !scheduled)
	}
	return true
}

func TestOnlySpecifiedTransitionsAreAllowed(t *testing.T) {
	edges := readSpec(t)
	allowed, tried := 0, 0
	for _, from := range states() {
		for _, to := range append(states(), 0, mayfly.Deleted+1) {
			for hold := range mayfly.ReleaseHold + 1 {
				for _, cause := range causes() {
					for bits := range 8 {
						a := attempt{from, to, hold, bits&1 != 0, cause, bits&2 != 0, bits&4 != 0}
						tried++
						if try(t, a, a.allowed(edges)) {
							allowed++
						}
					}
				}
			}
		}
	}
	t.Logf("%d attempts, %d allowed", tried, allowed)
	if tried != 5*7*3*8*8 || allowed == 0 {
		t.Errorf("%d attempts, %d allowed", tried, allowed)
	}
}

func readSpec(t *testing.T) map[[2]string]string {
	t.Helper()
	edges := map[[2]string]string{}
	for _, line := range lines(spec) {
		from, rest := cut(t, line, "->")
		to, rule := cut(t, rest, ":")
		edges[[2]string{from, to}] = rule
	}
	if len(edges) != 11 {
		t.Fatalf("%d edges", len(edges))
	}
	return edges
}

// try makes the change and holds the row after it to the promise of Advance.
func try(t *testing.T, a attempt, want bool) bool {
	t.Helper()
	item := born(t, "24h", mayfly.UserOf("i", "ana"))
	item.State, item.Generation, item.Held, item.Run, item.Cause = a.from, 7, a.held, 3, mayfly.ByExpiry
	item.Keys, item.Moved = mayfly.Keys{Hot: 3, Cold: 4}, mayfly.Stamp{Generation: 5, At: noon + 5}
	if a.held {
		item.Hold = mayfly.Stamp{Generation: 7, At: noon + 7}
	}
	c := mayfly.Change{
		ID: item.ID, From: a.from, Generation: 7, To: a.to, Nonce: 99, Run: 5, Cause: a.cause, Hold: a.hold, At: item.ID.Deadline(),
	}
	if !a.ended {
		c.At--
	}
	if a.serves {
		c.ServesUntil = c.At + 1
	}
	next, err := mayfly.Advance(item, c)
	if (err == nil) != want {
		t.Errorf("%+v: %v, want allowed: %t", a, err, want)
		return false
	}
	if err != nil {
		if !errors.Is(err, mayfly.Conflict) || next != item {
			t.Errorf("%+v: refused with %v, and the row is %+v", a, err, next)
		}
		return false
	}
	expected := item
	expected.Generation, expected.Nonce, expected.Changed = 8, 99, c.At
	if onlyHold := a.hold != mayfly.KeepHold && a.from == a.to; !onlyHold { // a hold leaves the record of what ended the item
		expected.State, expected.Run, expected.Cause, expected.Moved = a.to, 5, a.cause, mayfly.Stamp{Generation: 8, At: c.At}
	}
	expected.ServesUntil = c.ServesUntil
	switch a.hold {
	case mayfly.SetHold:
		expected.Held, expected.Hold = true, mayfly.Stamp{Generation: 8, At: c.At}
	case mayfly.ReleaseHold:
		expected.Held, expected.Hold = false, mayfly.Stamp{}
	}
	if next != expected {
		t.Errorf("%+v\n got %+v\nwant %+v", a, next, expected)
	}
	return true
}

func TestMayBecomeFollowsTheSpecification(t *testing.T) {
	edges := readSpec(t)
	for _, from := range append(states(), 0, 6) {
		for _, to := range append(states(), 0, 6) {
			if _, want := edges[[2]string{from.String(), to.String()}]; from.MayBecome(to) != want {
				t.Errorf("%s → %s: %t", from, to, !want)
			}
		}
	}
}

func TestAChangeOfAnotherRowStateOrGenerationIsRefused(t *testing.T) {
	item := born(t, "24h", mayfly.UserOf("i", "ana"))
	good := mayfly.Change{ID: item.ID, From: mayfly.Active, Generation: 1, To: mayfly.Deleted, Nonce: 1, Cause: mayfly.ByUser, At: item.Changed}
	if _, err := mayfly.Advance(item, good); err != nil || !good.Matches(item) {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*mayfly.Change){
		"another id":         func(c *mayfly.Change) { c.ID[15]++ },
		"another state":      func(c *mayfly.Change) { c.From = mayfly.ExpiredHot },
		"an older one":       func(c *mayfly.Change) { c.Generation = 0 },
		"a newer one":        func(c *mayfly.Change) { c.Generation = 2 },
		"no nonce":           func(c *mayfly.Change) { c.Nonce = 0 },
		"no state to become": func(c *mayfly.Change) { c.To = 0 },
	} {
		c := good
		spoil(&c)
		if next, err := mayfly.Advance(item, c); !errors.Is(err, mayfly.Conflict) || next != item {
			t.Errorf("%s: %v\n%+v", name, err, next)
		}
	}
}

func TestARowAlwaysHasACopyOfItsMedia(t *testing.T) {
	base := born(t, "24h", mayfly.UserOf("i", "ana"))
	base.State, base.Keys = mayfly.Archiving, mayfly.Keys{Hot: 1}
	change := mayfly.Change{ID: base.ID, From: mayfly.Archiving, Generation: 1, Nonce: 9, Cause: mayfly.ByArchive, At: base.ID.Deadline()}
	for _, c := range []struct {
		name  string
		to    mayfly.State
		media uint8
		keys  *mayfly.Keys
		ok    bool
	}{
		{"cold without a cold copy", mayfly.Cold, 1, nil, false},
		{"cold with only a hot copy", mayfly.Cold, 1, &mayfly.Keys{Hot: 2}, false},
		{"cold with no copy", mayfly.Cold, 1, &mayfly.Keys{}, false},
		{"cold with a cold copy", mayfly.Cold, 1, &mayfly.Keys{Cold: 2}, true},
		{"cold with both", mayfly.Cold, 1, &mayfly.Keys{Hot: 1, Cold: 2}, true},
		{"cold without media", mayfly.Cold, 0, &mayfly.Keys{}, true},
		{"archiving with no copy", mayfly.Archiving, 1, &mayfly.Keys{}, false},
		{"archiving with both", mayfly.Archiving, 1, &mayfly.Keys{Hot: 1, Cold: 2}, true},
		{"deleted with no copy", mayfly.Deleted, 1, &mayfly.Keys{}, true},
	} {
		item, change := base, change
		item.Media = c.media
		change.To, change.Keys = c.to, c.keys
		next, err := mayfly.Advance(item, change)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err != nil && (!errors.Is(err, mayfly.Conflict) || next != item) {
			t.Errorf("%s: refused with %v, and the row is %+v", c.name, err, next)
		}
		if err == nil && c.keys != nil && next.Keys != *c.keys {
			t.Errorf("%s: keys %+v", c.name, next.Keys)
		}
	}
}

func TestARestoredItemExpiresAgainAtServesUntilAndNotBefore(t *testing.T) {
	item := born(t, "24h", mayfly.UserOf("i", "ana"))
	item.State = mayfly.ExpiredHot
	until := item.ID.Deadline().Add(time.Hour)
	item, err := mayfly.Advance(item, mayfly.Change{
		ID: item.ID, From: mayfly.ExpiredHot, Generation: 1, To: mayfly.Active, Nonce: 2, Cause: mayfly.BySupport,
		At: item.ID.Deadline().Add(time.Minute), ServesUntil: until,
	})
	if err != nil {
		t.Fatal(err)
	}
	expire := mayfly.Change{ID: item.ID, From: mayfly.Active, Generation: 2, To: mayfly.ExpiredHot, Nonce: 3, Cause: mayfly.ByExpiry, At: until - 1}
	if _, err := mayfly.Advance(item, expire); !errors.Is(err, mayfly.Conflict) {
		t.Errorf("one millisecond early: %v", err)
	}
	expire.At++
	if _, err := mayfly.Advance(item, expire); err != nil {
		t.Errorf("at serves_until: %v", err)
	}
}

// A request that waited composes its change by the instant of its arrival, which
// may be before a change that was applied meanwhile.
func TestAChangeThatWasComposedEarlierDoesNotTurnTheTimeBack(t *testing.T) {
	item := born(t, "24h", mayfly.UserOf("i", "ana"))
	deadline := item.ID.Deadline()
	expired, err := mayfly.Advance(item, mayfly.Change{
		ID: item.ID, From: mayfly.Active, Generation: 1, To: mayfly.ExpiredHot, Nonce: 2, Cause: mayfly.ByExpiry, At: deadline,
	})
	if err != nil {
		t.Fatal(err)
	}
	held, err := mayfly.Advance(expired, mayfly.Change{
		ID: item.ID, From: mayfly.ExpiredHot, Generation: 2, To: mayfly.ExpiredHot, Nonce: 3, Cause: mayfly.BySupport, At: deadline - 32, Hold: mayfly.SetHold,
	})
	if err != nil || !held.Held || held.Changed != deadline {
		t.Errorf("held at %s, want %s: %v", held.Changed, deadline, err)
	}
}

func TestStatesAndCausesHaveNames(t *testing.T) {
	words := map[string]bool{}
	for _, s := range states() {
		words[s.String()] = true
	}
	for _, c := range causes() {
		words[c.String()] = true
	}
	if len(words) != 13 || words["state(0)"] || words["cause(0)"] || mayfly.State(9).String() != "state(9)" || mayfly.Cause(9).String() != "cause(9)" {
		t.Errorf("words %v", words)
	}
}

func lines(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

func cut(t *testing.T, text, at string) (string, string) {
	t.Helper()
	before, after, found := strings.Cut(text, at)
	if !found {
		t.Fatalf("%q has no %q", text, at)
	}
	return strings.TrimSpace(before), strings.TrimSpace(after)
}
