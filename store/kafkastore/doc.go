// Package kafkastore implements store.Log on Apache Kafka, with the topics births and
// ends, keyed by item.
//
// Its invariant: an event that Append acknowledged is on every in-sync replica, once
// per call, after the item's events of earlier calls. The topics retain it for at
// least 30 days; otherwise the driver does not start (L8).
//
// It never commits an offset before the reader calls Commit, uses no transactions,
// and never puts credentials into a log or an error.
package kafkastore
