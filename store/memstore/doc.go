// Package memstore is in charge of what the embedded profile keeps in memory
// alone: Limits and Signals, for one process.
//
// Its invariant: nothing here is needed for a right answer after a restart
// (I19). Its memory is bounded, however many callers there are (I17). It never reads a clock.
package memstore
