package sim

import (
	"crypto/sha256"
	"fmt"
	"slices"
)

// digest tells states apart: of ledger, bodies, tables, log and blobs.
func (inv *inventory) digest() [32]byte {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for id, item := range inv.rows {
		add("row %x %v", id, item)
	}
	for id, body := range inv.bodies {
		add("body %x %v", id, body)
	}
	for upload, id := range inv.uploads {
		add("upload %x %x", upload, id)
	}
	for key := range inv.owned {
		add("owned %x", key)
	}
	for key, value := range inv.claims {
		add("claim %x %x", key, value)
	}
	for key, sum := range inv.blobs {
		add("blob %s %x", key, sum)
	}
	for _, e := range inv.events {
		add("event %v", e)
	}
	add("%v", inv.reminders)
	add("%v", inv.marks)
	slices.Sort(lines)
	h := sha256.New()
	for _, line := range lines {
		fmt.Fprintln(h, line)
	}
	return [32]byte(h.Sum(nil))
}
