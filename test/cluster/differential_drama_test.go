//go:build servers

package cluster

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/product/account"
)

// drama is a sequence of random requests, sent to both sides of a pair.
type drama struct {
	*pair
	seed     uint64
	rng      *rand.Rand
	stories  []*tale
	uploads  []*room
	guest    int // guests come one after the other: an account that is erased stays erased
	births   int
	done     map[string]int
	status   map[int]int
	last     []string
	requests int
	waited   time.Duration // for what the loops do
}

// tale is a story as the drama knows it.
type tale struct {
	name, author string
	media        int
	end          mayfly.Instant // its deadline, or until when it was put back
	restored     bool
	held, dead   bool
	swept        bool // both sides have said that it has expired
	cold         bool // both sides have said that it is archived
	sent         question
}

// room is an upload.
type room struct {
	name, author string
	media, put   int
}

// people are the users of a drama; the last is the guest.
func (d *drama) people() []string {
	all := []string{"ana", "ben", "user-3", "user-4", "user-5", fmt.Sprintf("guest-%d", d.guest)}
	for i := range all {
		all[i] += fmt.Sprintf("-of-%d", d.seed) // no user is in two dramas
	}
	return all
}

func (d *drama) anyUser() string { return d.people()[d.rng.IntN(len(d.people()))] }

func userPath(name string) string { return mayfly.HomeUserOf(issuer, name).String() }

// some is a story: mostly one of the last, so that requests meet.
func (d *drama) some() *tale {
	if len(d.stories) == 0 {
		return nil
	}
	if n := len(d.stories); n > 12 && d.rng.IntN(5) > 0 {
		return d.stories[n-1-d.rng.IntN(12)]
	}
	return d.stories[d.rng.IntN(len(d.stories))]
}

// next sends one request of a kind and returns what differs; "" if nothing does.
func (d *drama) next(k kind) (string, error) {
	d.pass(time.Duration(1+d.rng.IntN(30)) * time.Millisecond)
	if different := d.settle(); different != "" {
		return different, nil
	}
	q, after := k.ask(d)
	if q.method == "" {
		return "", nil // not possible yet
	}
	q.kind, q.node = k.name, d.rng.IntN(2)
	got, different, err := d.ask(q)
	if err != nil {
		return "", err
	}
	d.requests++
	d.done[k.name]++
	d.status[got.status]++
	d.remember(fmt.Sprintf("%s %s -> %d", d.now, q, got.status))
	if different != "" {
		return different, nil
	}
	if after != nil {
		after(got)
	}
	if got.status >= http.StatusInternalServerError {
		return "", fmt.Errorf("both failed: %s\n\t%s", q, got)
	}
	return "", nil
}

func (d *drama) remember(text string) {
	if d.last = append(d.last, text); len(d.last) > 25 {
		d.last = d.last[1:]
	}
}

// due says whether the loops have work with a story that an answer would show.
func (d *drama) due(s *tale) bool {
	after := pairWindow
	if s.restored {
		after = max(after, pairRemind)
	}
	switch {
	case s.dead, d.now < s.end:
		return false
	case !s.swept:
		return true
	default:
		return !s.cold && !s.held && d.now >= s.end.Add(after)
	}
}

// settledWithin is how long both sides may take for what is due; longer where other
// pairs play beside this one.
var settledWithin = pick(40*time.Second, 3*time.Minute)

var stated = regexp.MustCompile(`"state":"([a-z_]+)"`)

// settle waits until the loops of both sides have done what is due, so that what
// is asked next does not depend on who was faster. Time passes meanwhile, a little.
// If one of them never has, that is a difference too.
func (d *drama) settle() string {
	began := time.Now()
	defer func() { d.waited += time.Since(began) }()
	for round := 0; ; round++ {
		waiting := ""
		for _, s := range d.stories {
			if d.due(s) {
				if why := d.look(s); d.due(s) {
					waiting = why
				}
			}
		}
		if waiting == "" {
			return ""
		}
		if time.Since(began) > settledWithin {
			return fmt.Sprintf("after %s still not done: %s", settledWithin, waiting)
		}
		time.Sleep(30 * time.Millisecond)
		d.pass(30 * time.Millisecond)
		if round > 8 { // a reminder may be what it waits for
			d.pass(pairRemind / 10)
		}
	}
}

// look asks both sides how far a story is.
func (d *drama) look(s *tale) string {
	q := question{kind: "settle", method: http.MethodGet, target: "/v1/stories/{id:" + s.name + "}", who: "moderator", scope: account.Moderator}
	swept, cold, dead, said := true, true, true, s.name
	for _, side := range []*side{d.embedded, d.cluster} {
		a, err := side.ask(q, d.now)
		if err != nil {
			return err.Error()
		}
		state := fmt.Sprint(a.status)
		if found := stated.FindStringSubmatch(a.body); found != nil {
			state = found[1]
		}
		said += ", " + side.name + ": " + state
		dead = dead && a.status != http.StatusOK
		cold = cold && state == "cold"
		swept = swept && (state == "cold" || state == "expired_hot")
	}
	s.swept, s.cold, s.dead = swept, cold, dead
	return said
}

// mark is the next instant at which a story ends.
func (d *drama) mark() (mayfly.Instant, bool) {
	var next mayfly.Instant
	for _, s := range d.stories {
		if !s.dead && s.end > d.now && (next == 0 || s.end < next) {
			next = s.end
		}
	}
	return next, next != 0
}

func (d *drama) count() string {
	var text strings.Builder
	for _, k := range kinds() {
		fmt.Fprintf(&text, " %s %d,", k.name, d.done[k.name])
	}
	return strings.TrimSuffix(text.String(), ",")
}
