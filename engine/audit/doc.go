// Package audit is in charge of the record of what support and operators did
// (C6): who, to what, why, and what came of it. It is append-only and chained by
// hash: a record that is changed, moved or missing is found by Verify.
//
// The protocol is two records. The intent is durable before the deed begins: no
// deed without a name and a reason. The outcome follows it (Entry.Concluded). An
// intent without an outcome says that the deed may or may not have been done: the
// row tells. An outcome that cannot be written takes no deed back.
//
// A record is never changed and never erased: ids of users in it outlive their
// accounts (store.Kept, ST14), so nothing that a user wrote belongs in it. What
// no chain can show is a store put back whole to an earlier day, or rewritten
// whole: keep the heads of a Report elsewhere and ask VerifyAgainst.
package audit
