package kill

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mayflyhq/mayfly"
)

// The expected state counts answers that must not happen, and no others.
func TestEveryAnswerOfAWorkerIsChecked(t *testing.T) {
	const birth mayfly.Instant = 1_800_000_000_000
	lifetime, err := mayfly.LifetimeOf(2 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	id, err := mayfly.NewID(birth, lifetime, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	other, err := mayfly.NewID(birth, lifetime, 0, 2)
	if err != nil {
		t.Fatal(err)
	}
	draft := workerDraft{Text: "a", Seconds: 2, Key: "k", Seed: 7, Sizes: []int{3}}
	purged := draft
	purged.Purge = true
	alive, ended, retired := birth+1_000, birth+3_000, birth.Add(2*time.Second+workerRetire)

	type step struct {
		in     workerIntent
		answer *workerAnswer // nil: killed meanwhile
	}
	ok := func(at mayfly.Instant) *workerAnswer { return &workerAnswer{At: at} }
	no := func(kind mayfly.Kind, at mayfly.Instant) *workerAnswer {
		return &workerAnswer{At: at, Kind: kind.String(), Error: kind.String()}
	}
	publish := func(d workerDraft, as mayfly.ID) step {
		return step{workerIntent{Verb: workerPublish, At: birth, Draft: &d}, &workerAnswer{At: birth, ID: as}}
	}
	do := func(verb string, at mayfly.Instant, a *workerAnswer) step {
		return step{workerIntent{Verb: verb, At: at, ID: id, Until: at + 5_000}, a}
	}
	seen := func(at mayfly.Instant, stranger bool) step {
		return step{workerIntent{Verb: workerRead, At: at, ID: id, Stranger: stranger}, &workerAnswer{At: at, ID: id, Media: draft.hashes()}}
	}
	unseen := func(at mayfly.Instant, stranger bool) step {
		return step{workerIntent{Verb: workerRead, At: at, ID: id, Stranger: stranger}, no(mayfly.Gone, at)}
	}
	mangled := step{workerIntent{Verb: workerRead, At: alive, ID: id}, &workerAnswer{At: alive, ID: id, Media: []string{"00"}}}

	for name, c := range map[string]struct {
		steps []step
		want  string // the word; empty: none
	}{
		"read by its author and by strangers":       {[]step{seen(alive, false), seen(alive, true), seen(ended, false), unseen(ended, true)}, ""},
		"its author is refused":                     {[]step{unseen(ended, false)}, "LOST"},
		"its author is refused after its years":     {[]step{unseen(retired, false)}, ""},
		"other bytes":                               {[]step{mangled}, "LOST"},
		"a stranger sees it after its end":          {[]step{seen(ended, true)}, "LATE"},
		"a stranger does not see it before":         {[]step{unseen(alive, true)}, "EARLY"},
		"deleted and gone":                          {[]step{do(workerDelete, alive, ok(alive)), unseen(alive, false)}, ""},
		"deleted and seen":                          {[]step{do(workerDelete, alive, ok(alive)), seen(alive, false)}, "RESURRECTED"},
		"deleted and restored":                      {[]step{do(workerDelete, alive, ok(alive)), do(workerBringBack, ended, ok(ended))}, "RESURRECTED"},
		"killed while it was deleted, gone":         {[]step{do(workerDelete, alive, nil), unseen(alive, false)}, ""},
		"killed while it was deleted, seen":         {[]step{do(workerDelete, alive, nil), seen(alive, false)}, ""},
		"killed while it was deleted, seen, gone":   {[]step{do(workerDelete, alive, nil), seen(alive, false), unseen(alive, false)}, "LOST"},
		"held and seen":                             {[]step{do(workerHold, alive, ok(alive)), seen(alive, false)}, "LEAK"},
		"held and restored":                         {[]step{do(workerHold, ended, ok(ended)), do(workerBringBack, ended, ok(ended))}, "LEAK"},
		"held and gone after its years":             {[]step{do(workerHold, alive, ok(alive)), do(workerRelease, retired, no(mayfly.NotFound, retired))}, "LOST"},
		"held, released, refused":                   {[]step{do(workerHold, alive, ok(alive)), do(workerRelease, alive, ok(alive)), unseen(alive, false)}, "LOST"},
		"restored, and a stranger is refused":       {[]step{do(workerBringBack, ended, ok(ended)), unseen(ended+100, true)}, "EARLY"},
		"restored, and a stranger sees it too long": {[]step{do(workerBringBack, ended, ok(ended)), seen(ended+5_000, true)}, "LATE"},
		"killed while it was restored, seen":        {[]step{do(workerBringBack, ended, nil), seen(ended+100, true)}, ""},
		"a hold does not find it":                   {[]step{do(workerHold, ended, no(mayfly.Gone, ended))}, "LOST"},
		"corrupt":                                   {[]step{do(workerRead, ended, no(mayfly.Corrupt, ended))}, "LOST"},
		"published again":                           {[]step{publish(draft, id)}, ""},
		"published again as another":                {[]step{publish(draft, other)}, "DOUBLE"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newExpected()
			for n, s := range append([]step{publish(draft, id)}, c.steps...) {
				s.in.N = int64(n)
				sendLine(t, b, workerLine{Intent: &s.in})
				if s.answer == nil {
					if b.killed() != 1 {
						t.Error("nothing was in flight")
					}
					continue
				}
				s.answer.N = int64(n)
				sendLine(t, b, workerLine{Answer: s.answer})
			}
			got := strings.Join(b.count.Faults(), "\n")
			if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func sendLine(t *testing.T, b *expected, l workerLine) {
	t.Helper()
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.line(text); err != nil {
		t.Fatal(err)
	}
}
