package cassandrastore

import (
	"testing"

	"github.com/mayflyhq/mayfly"
)

func TestRowsTellWhetherABatchHasLanded(t *testing.T) {
	ours := func(i byte, from, to mayfly.Generation) write {
		id := mayfly.ID{15: i}
		return write{before: mayfly.Item{ID: id, Generation: from, Nonce: 1}, after: mayfly.Item{ID: id, Generation: to, Nonce: 77}}
	}
	theirs := func(i byte, g mayfly.Generation) mayfly.Item {
		return mayfly.Item{ID: mayfly.ID{15: i}, Generation: g, Nonce: 5}
	}
	one, two := ours(1, 3, 4), ours(2, 6, 8)
	for name, c := range map[string]struct {
		now  []mayfly.Item
		want settled
	}{
		"both show our nonce":                        {[]mayfly.Item{one.after, two.after}, landed},
		"one shows it, the other has moved on":       {[]mayfly.Item{theirs(1, 9), two.after}, landed},
		"one shows it, the other is gone":            {[]mayfly.Item{one.after}, landed},
		"one shows it, of an earlier call":           {[]mayfly.Item{one.after, two.before}, notLanded},
		"the other shows it, of an earlier call":     {[]mayfly.Item{one.before, two.after}, notLanded},
		"both are as they were":                      {[]mayfly.Item{one.before, two.before}, notLanded},
		"another caller took our generation":         {[]mayfly.Item{theirs(1, 4), theirs(2, 20)}, notLanded},
		"another caller is between our two":          {[]mayfly.Item{theirs(1, 20), theirs(2, 7)}, notLanded},
		"both have moved on past ours":               {[]mayfly.Item{theirs(1, 5), theirs(2, 9)}, inDoubt},
		"one has moved on past ours, the other gone": {[]mayfly.Item{theirs(1, 5)}, inDoubt},
		"both are gone":                              {nil, inDoubt},
	} {
		now := map[mayfly.ID]mayfly.Item{}
		for _, item := range c.now {
			now[item.ID] = item
		}
		if got := settle([]write{one, two}, now); got != c.want {
			t.Errorf("%s: settled as %d, want %d", name, got, c.want)
		}
	}
}
