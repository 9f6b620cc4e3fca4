// Package mayfly defines the vocabulary of the system: the types that every other
// package uses, and the computations that need no I/O.
//
// An Item is anything with an identity and a lifetime, such as a story. Its ID
// holds its birth, its lifetime, a trace of its owner and its shard, so that
// whether it has expired is computed and never looked up (L2). An item changes its
// State only by Advance (L1, I11). An Event tells readers of the log what happened.
// A Viewer is the user who asks to see an item. A Kind classifies an error.
//
// The package never reads a clock, a disk or a network: functions take the current
// time as an argument. docs/glossary.md defines the terms, and
// docs/requirements.md the numbers in brackets.
package mayfly
