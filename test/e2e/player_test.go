package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/api/wire"
)

// stage is where a golden story is played: a node in a bubble, or the real
// binary with time a thousand times faster.
type stage interface {
	// ask sends a request to a listener and reads the whole answer.
	ask(r request) (answer, error)
	// bearer is a token of the scope, of a user if one is named.
	bearer(user string, scope string) (string, error)
	// midnight is when day 1 of the script begins.
	midnight() mayfly.Instant
	// span is a time of the script on this stage.
	span(d time.Duration) time.Duration
	// lifetime is a lifetime of the script on this stage.
	lifetime(word string) string
	// urls is how long a media URL lasts at most: of a story that serves, or of the archive.
	urls(archived bool) time.Duration
	// wait lets time pass until the line that is planned for an instant, and says
	// when it is on: later than planned if the stage could not keep its schedule.
	wait(planned mayfly.Instant) mayfly.Instant
	// since is when, on this stage, a line is played that happens so long after a birth.
	since(birth mayfly.Instant, after time.Duration) mayfly.Instant
	// listens is how long events of expired keys are listened to.
	listens() time.Duration
}

// request is an HTTP request of a script.
type request struct {
	method, target string // target is path and query
	header         http.Header
	body           []byte
	admin          bool          // to the admin listener
	listen         time.Duration // read a stream for so long; 0: read to its end

	// command, if it is not empty, is sent over the Redis protocol instead, in a
	// namespace that secret opens. method says whether it only reads.
	command, namespace, secret string
}

// answer is what comes back, whole. Of a command it is the body, without a status.
type answer struct {
	status int
	header http.Header
	body   []byte
	began  mayfly.Instant // when it was asked for
	ended  mayfly.Instant // when it was there
}

// tally counts what was played.
type tally struct {
	lines, answers, twins, elsewhere, missed, waited int
}

func (t *tally) add(other tally) {
	t.lines += other.lines
	t.answers += other.answers
	t.twins += other.twins
	t.elsewhere += other.elsewhere
	t.missed += other.missed
	t.waited += other.waited
}

func (t tally) String() string {
	return fmt.Sprintf("%d lines, %d answers compared, %d of them byte by byte with those for ids that never were, %d more by another node, %d lines missed, asked again %d times until media had moved", t.lines, t.answers, t.twins, t.elsewhere, t.missed, t.waited)
}

// published is a story, a paste, a post or a key that a script is about.
type published struct {
	name   string
	post   bool
	author string
	id     mayfly.ID
	birth  mayfly.Instant           // of a key: when it was last given a lifetime
	media  []wire.Medium            // of a paste: one, of which only the hash is known
	token  string                   // that deletes a paste; of a story: empty
	got    map[string][]wire.Medium // its media as an actor got them last: with URLs of their own

	expiry mayfly.Instant    // of a key; 0: never
	tags   map[string]string // of a key: its ETag as an actor got it last; of all else nil
}

// reporter gets what does not come true; a test is one.
type reporter interface {
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// player plays one script.
type player struct {
	reporter
	stage
	script  script
	stories map[string]*published
	last    *published // it
	keys    map[string]mayfly.ID
	upload  *wire.Upload
	secret  string // the key of the namespace that was made last
	tally   tally
}

func newPlayer(r reporter, s stage, script script) *player {
	return &player{reporter: r, stage: s, script: script, stories: map[string]*published{}, keys: map[string]mayfly.ID{}}
}

// errTooLate ends a script in which something was not done because it came too late.
var errTooLate = errors.New("too late")

// play plays the script to its end, or to a line after which nothing else makes
// sense.
func (p *player) play() tally {
	for n, l := range p.script.lines {
		p.tally.lines++
		planned, err := p.planned(l)
		if err != nil {
			p.Errorf("%s: %v", l.where, err)
			return p.tally
		}
		on := p.wait(planned)
		err = p.line(l, planned, on)
		if errors.Is(err, errTooLate) {
			rest := len(p.script.lines) - n - 1
			p.tally.lines, p.tally.missed = p.tally.lines+rest, p.tally.missed+rest
			p.Logf("%s: %d lines behind it cannot be played", l.where, rest)
			return p.tally
		}
		if err != nil {
			p.Errorf("%s: %v\n\t%s", l.where, err, l.text)
			return p.tally
		}
	}
	return p.tally
}

// planned is when a line happens on this stage.
func (p *player) planned(l line) (mayfly.Instant, error) {
	if !l.at.relative() {
		return p.midnight().Add(p.span(l.at.after)), nil
	}
	return p.instant(l.at, l.action.story)
}

// instant is when w is, for a line about a story.
func (p *player) instant(w when, about string) (mayfly.Instant, error) {
	name := w.since
	if name == it && about != "" && about != neverWas {
		name = about
	}
	s, err := p.find(name)
	if err != nil {
		return 0, err
	}
	return p.since(s.birth, w.after), nil
}

func (p *player) find(name string) (*published, error) {
	if name == it || name == neverWas {
		if p.last == nil {
			return nil, fmt.Errorf("there is no story yet")
		}
		return p.last, nil
	}
	if s, ok := p.stories[name]; ok {
		return s, nil
	}
	return nil, fmt.Errorf("no story is called %q yet", name)
}

// line plays one line and holds the answer against what must come. The error is
// for what ends the script.
func (p *player) line(l line, planned, on mayfly.Instant) error {
	if err := p.become(l); err != nil {
		return err
	}
	r, err := p.request(l)
	if err != nil {
		return err
	}
	a, wrong, err := p.askUntilMoved(l, r)
	if err != nil {
		return err
	}
	if len(wrong) > 0 && p.excused(l, planned, a) {
		p.tally.missed++
		p.Logf("%s: missed: planned for %s, asked at %s, answered at %s: %v", l.where, planned, a.began, a.ended, wrong)
		if r.method != http.MethodGet {
			return errTooLate
		}
		return nil
	}
	for _, w := range wrong {
		p.Errorf("%s: at %s: %s\n\t%s\n\t%s", l.where, on, w, l.text, excerpt(a.body))
	}
	p.tally.answers++
	if a.status != l.want.status {
		if l.want.status < 300 && (l.action.with.name != "" || l.action.form == "publishes a story") {
			return fmt.Errorf("the rest of the script is about a story that is not there")
		}
		return nil
	}
	if err := p.elsewhere(l, r, planned); err != nil {
		return err
	}
	if err := p.learn(l, a); err != nil {
		return err
	}
	switch {
	case aboutKeys(l.action.form):
		return p.keyTwin(l, r, a)
	case a.status == http.StatusNotFound || a.status == http.StatusGone:
		return p.twin(l, r, a)
	}
	return nil
}

// askUntilMoved asks, and holds the answer against what must come. On a stage that
// follows the real clock it asks again while nothing is wrong but that media have not
// moved yet: what serves ends at an instant, what moves them follows.
func (p *player) askUntilMoved(l line, r request) (answer, []string, error) {
	a, err := p.ask(r)
	if err != nil {
		return a, nil, err
	}
	wrong := p.compare(l, a)
	slow, ok := p.stage.(interface{ moving() time.Duration })
	for ok && len(wrong) == 1 && strings.HasPrefix(wrong[0], notMoved) && time.Since(a.began.Time()) < slow.moving() {
		time.Sleep(50 * time.Millisecond)
		again, err := p.ask(r)
		if err != nil {
			return again, nil, err
		}
		p.tally.waited++
		if wrong = p.compare(l, again); len(wrong) == 0 {
			again.began = a.began
			a = again
		}
	}
	return a, wrong, nil
}

// notMoved begins what compare says of media that are not in cold storage.
const notMoved = "cold "

// elsewhere asks the same of the other nodes of the stage, if it has any: what one
// has acknowledged holds at all.
func (p *player) elsewhere(l line, r request, planned mayfly.Instant) error {
	stage, ok := p.stage.(interface {
		others(r request) ([]answer, error)
	})
	if !ok || r.method != http.MethodGet {
		return nil
	}
	all, err := stage.others(r)
	if err != nil {
		return err
	}
	for _, a := range all {
		p.tally.elsewhere++
		if wrong := p.compare(l, a); len(wrong) > 0 && !p.excused(l, planned, a) {
			p.Errorf("%s: at %s, another node: %v\n\t%s\n\t%s", l.where, a.began, wrong, l.text, excerpt(a.body))
		}
	}
	return nil
}

// excused says whether a line that went wrong was asked or answered so late that
// what it expects was over: only a stage in real time can be.
func (p *player) excused(l line, planned mayfly.Instant, a answer) bool {
	late, ok := p.stage.(interface {
		late(after time.Duration, planned mayfly.Instant, a answer) bool
	})
	return ok && late.late(l.at.after, planned, a)
}

func excerpt(body []byte) string {
	if len(body) > 300 {
		return fmt.Sprintf("%q …", body[:300])
	}
	return fmt.Sprintf("%q", body)
}
