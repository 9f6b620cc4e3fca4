package demo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
	"github.com/mayflyhq/mayfly/app/node"
	"github.com/mayflyhq/mayfly/app/profile"
	"github.com/mayflyhq/mayfly/engine/verify"
	"github.com/mayflyhq/mayfly/test/fixture"
	"github.com/mayflyhq/mayfly/test/pace"
)

// The demonstration as scripts run it, with a server that is killed.
func TestTheDemoIsAllRight(t *testing.T) {
	pace.Slow(t, "plays the whole demo")
	var out bytes.Buffer
	d := demo{out: &out, once: true, stories: 12, child: testChild}
	if err := d.run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"killed with -9", "starts on the folder that it left: ready after", "server stops and starts again", "opens it from there in",
		"reshares it as story", "deletes it: gone at once", "held: hidden from", "restored: ", "read and verified",
		"curl --data-binary", "it burns: ", "410 first at +", "its bytes are erased",
		"SET visits 41 PX 5000 ", "INCR visits ", "PTTL visits ", "DEL draft ", `prints "42" for a request at -`, "(nil) first at +",
		"LOST 0  RESURRECTED 0  EARLY 0  LATE 0  LEAK 0  DOUBLE 0  ORPHAN 0", "verdict: all was right",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
	if _, err := os.Stat(d.folder); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its folder is left: %v", err)
	}
}

// Who has seen enough gets the verdict of what came to its end so far.
func TestTheDemoCanBeStoppedAndIsJudged(t *testing.T) {
	pace.Slow(t, "plays the demo")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out bytes.Buffer
	d := demo{out: &stopper{&out, " is first refused at ", stop}, lasts: time.Minute}
	if err := d.run(ctx); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"Try it meanwhile", "mayfly() {", "redis-cli -h 127.0.0.1 -p ", "stopped: ", "verdict: all was right"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, &out)
		}
	}
}

// stopper stops when a text is written to it.
type stopper struct {
	*bytes.Buffer
	at   string
	stop func()
}

func (s *stopper) Write(p []byte) (int, error) {
	if strings.Contains(string(p), s.at) {
		s.stop()
	}
	return s.Buffer.Write(p)
}

// The judge of the demonstration, held against answers that must not be.
func TestTheDemoTellsWrongAnswers(t *testing.T) {
	const end = 1_000_000
	friend, everybody, stranger := onlooker{permitted: true}, onlooker{permitted: true, always: true}, onlooker{}
	for name, c := range map[string]struct {
		who     onlooker
		e       exchange
		refused int64       // when it had been refused before
		want    verify.Word // Words: nothing is wrong
	}{
		"served before its end":               {friend, exchange{end - 2, end - 1, true, true}, 0, verify.Words},
		"asked before its end, served after":  {friend, exchange{end - 1, end + 1, true, true}, 0, verify.Words},
		"asked at its end and served":         {friend, exchange{end, end + 1, true, true}, 0, verify.Late},
		"served after it was refused":         {friend, exchange{end, end + 1, true, true}, end, verify.Resurrected},
		"refused before its end":              {friend, exchange{end - 3, end - 1, false, true}, 0, verify.Early},
		"asked before its end, refused after": {friend, exchange{end - 1, end, false, true}, 0, verify.Words},
		"served to a stranger":                {stranger, exchange{end - 2, end - 1, true, true}, 0, verify.Leak},
		"refused to a stranger":               {stranger, exchange{end - 2, end - 1, false, true}, 0, verify.Words},
		"refused to its author":               {everybody, exchange{end + 1, end + 2, false, true}, 0, verify.Lost},
		"served to its author after its end":  {everybody, exchange{end + 1, end + 2, true, true}, 0, verify.Words},
		"not answered":                        {friend, exchange{end - 3, end - 1, false, false}, 0, verify.Words},
	} {
		d := demo{}
		w := &window{end: end}
		w.firstRefused.Store(c.refused)
		d.judge(w, c.who, "story", c.e)
		got := verify.Words
		for w := range verify.Words {
			if d.count.Count(w) > 0 {
				got = w
			}
		}
		if got != c.want {
			t.Errorf("%s: %v", name, d.count.String())
		}
	}
}

// What is wrong in the store when the demonstration has ended is in its verdict.
func TestTheDemoFindsEveryViolation(t *testing.T) {
	for _, v := range fixture.Violations() {
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			d := demo{out: &out, once: true}
			d.table = newDemoTable(&out, d.rows)
			opened := 0
			d.host = &host{folder: t.TempDir(), open: func(cfg config.Config) (*profile.Store, error) {
				s, err := profile.Embedded(cfg, node.Tables())
				if opened++; err == nil && opened == 2 { // for the last look
					v.Plant(t, &s.Set, mayfly.InstantOf(time.Now()))
				}
				return s, err
			}}
			if _, err := d.host.start(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(d.audit(t.Context()), d.host.stop(t.Context())); err != nil {
				t.Fatal(err)
			}
			if err := d.verdict(); !errors.Is(err, ErrNotRight) || d.count.Count(v.Word) == 0 {
				t.Errorf("%v: %s", err, &out)
			}
		})
	}
}

// A paste that was served at its deadline, or refused before it, is in the verdict.
func TestTheDemoJudgesTheReadsOfPastes(t *testing.T) {
	id, err := mayfly.NewID(mayfly.InstantOf(time.Now())-20_000, demoLifetimes()[1], 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	end := id.Deadline()
	for _, c := range []struct {
		read verify.Read
		want verify.Word
	}{
		{verify.Read{ID: id, Asked: end, Answered: end + 1, Served: true}, verify.Late},
		{verify.Read{ID: id, Asked: end - 2, Answered: end - 1}, verify.Early},
	} {
		var out bytes.Buffer
		d := demo{out: &out, once: true, reads: []verify.Read{c.read}, host: &host{folder: t.TempDir()}}
		d.table = newDemoTable(&out, d.rows)
		if _, err := d.host.start(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(d.audit(t.Context()), d.host.stop(t.Context())); err != nil {
			t.Fatal(err)
		}
		if err := d.verdict(); !errors.Is(err, ErrNotRight) || d.count.Count(c.want) != 1 {
			t.Errorf("%v: %s", err, &out)
		}
	}
}

// open starts a server of a demo that says nothing.
func open(t *testing.T) *demo {
	d := &demo{out: io.Discard, once: true, host: &host{folder: t.TempDir()}}
	d.table = newDemoTable(d.out, d.rows)
	if _, err := d.host.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.host.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	var err error
	if d.people, err = d.host.meet(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// A post that is in a home too long or too briefly, or in the wrong one, is in the verdict.
func TestTheDemoTellsWrongHomes(t *testing.T) {
	d := open(t)
	p, err := d.createPosts(t.Context())
	if err != nil || !d.count.Clean() {
		t.Fatal(err, d.count.String())
	}
	for word, ids := range map[verify.Word][]mayfly.ID{verify.Leak: nil, verify.Lost: {p.ID, p.ID, p.ID, p.ID}} {
		d.count = verify.Tally{}
		if err := d.wantHome(t.Context(), d.people.follower, "in a test", ids...); err != nil || d.count.Count(word) != 1 {
			t.Error(err, d.count.String())
		}
	}
	d.count = verify.Tally{}
	late := p
	late.BornAt = d.host.now().Add(-postLasts - lookAfter/2)
	if err := d.seePost(t.Context(), late); err != nil || d.count.Count(verify.Late) == 0 {
		t.Error(err, d.count.String())
	}
	if err := d.people.ana.act.DeletePost(t.Context(), p.ID); err != nil {
		t.Fatal(err)
	}
	d.count = verify.Tally{}
	early := p
	early.BornAt = d.host.now().Add(-postLasts + 300*time.Millisecond)
	if err := d.seePost(t.Context(), early); err != nil || d.count.Count(verify.Early) == 0 {
		t.Error(err, d.count.String())
	}
}

// A key that is there too long, is gone too soon or has another value is in the verdict;
// an answer that Redis would not give ends the demo.
func TestTheDemoTellsWrongAnswersOfKeys(t *testing.T) {
	ctx, d := t.Context(), open(t)
	k, err := d.createKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c, err := d.host.dialRedis(ctx, k.secret)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := d.wantAnswer(c, "GET visits", `"41"`); err == nil {
		t.Error("a wrong answer is not an error")
	}
	if n, err := d.wantNumber(c, "PTTL visits", 1, 10); err == nil {
		t.Errorf("%d is not more than 10", n)
	}
	for _, one := range []struct {
		command string
		ends    time.Duration // after the command
		want    verify.Word
	}{
		{"SET visits 7 KEEPTTL", 300 * time.Millisecond, verify.Lost},
		{"SET visits 42 KEEPTTL", 0, verify.Late},
		{"DEL visits", 300 * time.Millisecond, verify.Early},
	} {
		if _, err := c.do(one.command); err != nil {
			t.Fatal(err)
		}
		k.end, d.count = d.host.now().Add(one.ends), verify.Tally{}
		if err := d.seeKey(ctx, k); err != nil {
			t.Fatal(err)
		}
		if d.count.Count(one.want) == 0 {
			t.Errorf("%s: %s", one.command, d.count.String())
		}
	}
}

func TestTheDemoRefusesWhatItCannotShow(t *testing.T) {
	for _, d := range []*demo{{once: true}, {once: true, stories: 201}, {lasts: time.Second}, {lasts: 25 * time.Hour}} {
		d.out = io.Discard
		if err := d.run(t.Context()); !errors.Is(err, mayfly.Invalid) {
			t.Error(err)
		}
	}
}

func TestTheDemoSaysWhatIsNotRight(t *testing.T) {
	var out bytes.Buffer
	d := demo{out: &out}
	d.table = newDemoTable(&out, d.rows)
	d.count.Add(verify.Late, "ben saw a story %d ms after its deadline", 3)
	if err := d.verdict(); !errors.Is(err, ErrNotRight) {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "LATE 1") || !strings.Contains(out.String(), "ben saw a story 3 ms") {
		t.Errorf("%s", &out)
	}
}
