// Package mayfly is in charge of the vocabulary: the words that every other
// package speaks, and the arithmetic that needs no I/O.
//
// An item is anything with an identity and a lifetime. Its ID tells the time
// (L2): birth, lifetime, deadline, pigeonhole and shard are read from the id by
// arithmetic that is the same in every process and language. An item moves
// along the edges of one table (L1, Advance) and along no other (I11).
//
// The package never reads a clock, a disk or a network.
package mayfly
