// Package kafkastore is in charge of the cluster's event log on Apache Kafka: the
// topics births and ends, keyed by item (L8).
//
// Its invariant: an event that Append acknowledged is on every copy in sync, once
// for each call, behind the item's events of earlier calls; and the topics keep it
// for at least 30 days, or the driver does not start.
//
// It never commits for a reader what the reader did not say has taken effect, uses
// no transactions, and lets no credentials into a log or an error.
package kafkastore
