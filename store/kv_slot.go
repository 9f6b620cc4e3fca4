package store

import (
	"strings"

	"github.com/mayflyhq/mayfly"
)

// KVSlots is into how many slots a cluster divides the keys of a namespace. A slot is
// kept together, so that a group of keys of one slot is applied as one.
const KVSlots = 16384

// KVSlot returns the slot of a key as Redis Cluster computes it: the CRC16 of the key,
// or of its hash tag, which is what stands between the first { and the next }, if it is
// not empty.
func KVSlot(key string) uint16 {
	if _, rest, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(rest, "}"); closed && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for i := range len(key) { // CRC-16/XMODEM
		crc ^= uint16(key[i]) << 8
		for range 8 {
			high := crc & 0x8000
			if crc <<= 1; high != 0 {
				crc ^= 0x1021
			}
		}
	}
	return crc % KVSlots
}

// KVCrossSlot is the cause of the refusal of keys that are in several slots, in the
// words of Redis. Its kind is Unsupported.
type KVCrossSlot struct{}

// Error implements error.
func (KVCrossSlot) Error() string { return "Keys in request don't hash to the same slot" }

// KVOneSlot returns the slot that all keys are in. Errors: Unsupported, with the cause
// KVCrossSlot.
func KVOneSlot(keys ...string) (slot uint16, err error) {
	for i, key := range keys {
		if its := KVSlot(key); i == 0 {
			slot = its
		} else if its != slot {
			return 0, mayfly.Wrap(mayfly.Unsupported, KVCrossSlot{}, "give the keys one hash tag, such as {user1}name and {user1}mail")
		}
	}
	return slot, nil
}

// Keys returns the keys of the group, each once, in the order of their first use.
func (g *KVGroup) Keys() []string {
	keys := make([]string, 0, len(g.Watch)+len(g.Ops))
	seen := make(map[string]bool, cap(keys))
	add := func(key string) {
		if !seen[key] {
			seen[key] = true
			keys = append(keys, key)
		}
	}
	for i := range g.Watch {
		add(g.Watch[i].Key)
	}
	for i := range g.Ops {
		add(g.Ops[i].Key)
	}
	return keys
}

// CheckCluster returns an error of kind Unsupported if a cluster cannot apply the group
// to the space: nodes that write without agreement can neither compare nor keep what
// another one may be replacing (trap 13).
func (g *KVGroup) CheckCluster(s *KVSpace) error {
	if s.Events {
		return mayfly.Errorf(mayfly.Unsupported, "events are not possible on a cluster").WithHint("use a namespace without events")
	}
	if !s.LastWriteWins {
		return nil
	}
	refused := func(what string) error {
		return mayfly.Errorf(mayfly.Unsupported, "the namespace is last-write-wins on a cluster, where %s is not possible", what).WithHint("use a namespace that is compare-and-set")
	}
	if len(g.Watch) > 0 {
		return refused("a watch")
	}
	for i := range g.Ops {
		switch o := &g.Ops[i]; {
		case o.If != KVAlways:
			return refused("a condition")
		case o.Action == KVTouch, o.KeepExpiry:
			return refused("keeping the value or the expiry of a key")
		case o.Action == KVUpdate:
			return refused("an update of the old value")
		case o.Old && o.Action != KVRead:
			return refused("an answer of the old value")
		}
	}
	return nil
}
