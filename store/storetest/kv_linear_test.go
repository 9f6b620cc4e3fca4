package storetest

import (
	"math"
	"testing"

	"github.com/anishathalye/porcupine"
)

func TestAHistoryOfKeysThatNoRegisterGivesIsFound(t *testing.T) {
	set := func(to string) kvDid { return kvDid{key: "k", kind: "set", to: to, done: true} }
	read := func(to string) kvDid { return kvDid{key: "k", kind: "read", to: to, done: true} }
	swap := func(from, to string, done bool) kvDid {
		return kvDid{key: "k", kind: "swap", from: from, to: to, done: done}
	}
	lost := func(d kvDid) kvDid {
		d.lost = true
		return d
	}
	remove := kvDid{key: "k", kind: "delete", done: true}
	for _, c := range []struct {
		what string
		ops  []kvDid // one after the other; what is lost may happen later
		want bool
	}{
		{"a write is read", []kvDid{set("1"), read("1")}, true},
		{"an acknowledged write is lost", []kvDid{set("1"), read("")}, false},
		{"an older value is read", []kvDid{set("1"), set("2"), read("1")}, false},
		{"a deleted value is read", []kvDid{set("1"), remove, read("1")}, false},
		{"a deleted value is gone", []kvDid{set("1"), remove, read("")}, true},
		{"two swaps of one version", []kvDid{set("1"), swap("1", "2", true), swap("1", "3", true)}, false},
		{"a swap of an old version is refused", []kvDid{set("1"), swap("1", "2", true), swap("1", "3", false)}, true},
		{"a swap of the current version is refused", []kvDid{set("1"), swap("1", "2", false)}, false},
		{"a lost write is read later", []kvDid{set("1"), lost(set("2")), read("1"), read("2")}, true},
		{"a lost write is read and then not", []kvDid{set("1"), lost(set("2")), read("2"), read("1")}, false},
		{"a key is created twice", []kvDid{{key: "k", kind: "create", to: "1", done: true}, {key: "k", kind: "create", to: "2", done: true}}, false},
	} {
		var ops []porcupine.Operation
		for i, did := range c.ops {
			end := int64(2*i + 1)
			if did.lost {
				end = math.MaxInt64
			}
			ops = append(ops, porcupine.Operation{ClientId: i, Input: did, Call: int64(2 * i), Return: end})
		}
		if got := judgeKV(ops) == porcupine.Ok; got != c.want {
			t.Errorf("%s: explained %t, want %t", c.what, got, c.want)
		}
	}
}
