package kv

import "github.com/mayflyhq/mayfly/store"

// CrossSlot is the cause of the refusal of keys that are in several slots of a cluster.
type CrossSlot = store.KVCrossSlot

// LargeAnswer is the cause of the refusal of a group that answers with too many bytes.
type LargeAnswer = store.KVLargeAnswer

// Slot returns the slot of a key on a cluster.
func Slot(key string) uint16 { return store.KVSlot(key) }

// OneSlot returns an error of kind Unsupported with the cause CrossSlot if the namespace
// is on a cluster and the keys are in several slots.
func (s *Space) OneSlot(keys ...string) error {
	if !s.kv.o.Cluster {
		return nil
	}
	_, err := store.KVOneSlot(keys...)
	return err
}

// groups divides operations into those that can be one group: on a cluster those of one
// slot that follow each other, as a scan returns them.
func (s *Space) groups(ops []Op) (groups [][]Op) {
	for len(ops) > 0 {
		n := len(ops)
		if s.kv.o.Cluster {
			for n = 1; n < len(ops) && Slot(ops[n].Key) == Slot(ops[0].Key); n++ {
			}
		}
		groups, ops = append(groups, ops[:n]), ops[n:]
	}
	return groups
}
