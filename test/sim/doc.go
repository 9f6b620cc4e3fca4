// Package sim holds the proofs that need the whole engine: seeded
// simulations on virtual time of intake, gate, walks and node, over the embedded
// store on file systems that lose power, fill up and fail.
//
// Each proof keeps a record of what was acknowledged and what might have happened,
// and an auditor compares the engine with it in seven words: LOST, RESURRECTED,
// EARLY, LATE, LEAK, DOUBLE, ORPHAN. Each prints its seed, takes it back from
// MAYFLY_SEED, says how much it has tried, and fails when that is little.
//
// It has no code outside of its tests, and never sleeps in real time.
package sim
