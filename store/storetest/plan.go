package storetest

import (
	"math/bits"
	"math/rand/v2"

	"github.com/mayflyhq/mayfly"
)

// Op is a kind of call that a Plan may fail.
type Op string

// The calls that write.
const (
	Commit     Op = "commit"
	Transition Op = "transition"
	Swap       Op = "swap"
	Append     Op = "append"
)

// Call is a writing call as a plan sees it.
type Call struct {
	N      int // counted from 1, over all ops
	Op     Op
	Stages []int // how many writes each stage has; calls other than Commit have one stage
}

// Fault is what becomes of a call; the zero Fault lets it pass.
type Fault struct {
	Fails   bool
	Stage   int         // stages before it are whole; len(Stages): all is written and the answer lost
	Written uint64      // which writes of that stage are written: bit i (mod 64) for write i
	Silent  bool        // the error names no stage; a Transition is one error, not outcomes in doubt
	Kind    mayfly.Kind // of the error: Unknown if zero, or Unavailable
	Halts   bool        // the process is dead from here on, until Landing.Resume
}

// Plan decides what becomes of each writing call. It is called one at a time.
type Plan func(Call) Fault

// Pass fails nothing: a first run under it tells which calls there are.
func Pass(Call) Fault { return Fault{} }

// FailNth fails the n-th call as f says.
func FailNth(n int, f Fault) Plan {
	f.Fails = true
	return func(c Call) Fault {
		if c.N == n {
			return f
		}
		return Fault{}
	}
}

// Seeded fails one call in oneIn, in any way that Faults lists.
func Seeded(seed uint64, oneIn int) Plan {
	r := rand.New(rand.NewPCG(seed, 1))
	return func(c Call) Fault {
		if r.IntN(oneIn) != 0 {
			return Fault{}
		}
		all := Faults(c)
		return all[r.IntN(len(all))]
	}
}

// subsetsUpTo is up to how many writes of a stage every subset is tried; above
// it, those with none, one, all but one and all.
const subsetsUpTo = 5

// Faults lists what may become of a call: every stage, every subset of its
// writes, with and without the stage in the error. A test that runs each of
// them has stopped the call everywhere.
func Faults(c Call) []Fault {
	var all []Fault
	for stage, writes := range c.Stages {
		for _, written := range subsets(writes) {
			for _, silent := range []bool{false, true} {
				all = append(all, Fault{Fails: true, Stage: stage, Written: written, Silent: silent, Kind: mayfly.Unknown})
			}
		}
		all = append(all, Fault{Fails: true, Stage: stage, Kind: mayfly.Unavailable})
	}
	return append(all, Fault{Fails: true, Stage: len(c.Stages), Silent: true, Kind: mayfly.Unknown})
}

func subsets(writes int) []uint64 {
	whole := uint64(1)<<min(writes, 63) - 1
	if writes >= 64 {
		whole = ^uint64(0)
	}
	var some []uint64
	if writes <= subsetsUpTo {
		for mask := range whole { // all but the whole stage, which is the next one's fault
			some = append(some, mask)
		}
		return some
	}
	some = append(some, 0)
	for i := range bits.Len64(whole) {
		some = append(some, 1<<i, whole&^(1<<i))
	}
	return some
}

func (f Fault) writes(i int) bool { return f.Written>>(i%64)&1 == 1 }

func (f Fault) err(op Op) error {
	kind := f.Kind
	if kind == 0 {
		kind = mayfly.Unknown
	}
	return mayfly.Errorf(kind, "%s: stopped by plan", op)
}
