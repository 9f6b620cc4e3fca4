// Package cluster is in charge of what must hold when several real processes of
// mayfly stand on real servers and something of that is killed, frozen, cut off or
// given the wrong time (L4, L7, I10, I13, I19).
//
// Its tests need the build tag servers and start what they need. Every one prints
// how much it has tried and the seven counts, and fails when it has tried little.
package cluster
