package kafkastore

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mayflyhq/mayfly"
)

// settings are what a topic is kept by, under the names that Kafka gives them.
type settings map[string]string

const (
	retention      = "retention.ms"
	retentionBytes = "retention.bytes"
	cleanup        = "cleanup.policy"
	stampedBy      = "message.timestamp.type"
	stampedAhead   = "message.timestamp.after.max.ms"
	unclean        = "unclean.leader.election.enable"
	inSync         = "min.insync.replicas"
)

// wantedSettings are those of a topic that we make ourselves.
func wantedSettings(keep time.Duration, copies int) settings {
	return settings{
		retention: millis(keep), retentionBytes: "-1", cleanup: "delete", unclean: "false", inSync: strconv.Itoa(leastInSync(copies)),
		// A record's stamp decides how long it is kept and is what a seek begins with.
		stampedBy: "CreateTime",
		// A broker that refused an event for the instant it tells would refuse it for ever.
		stampedAhead: strconv.FormatInt(math.MaxInt64, 10),
	}
}

func leastInSync(copies int) int {
	if copies >= 3 {
		return 2
	}
	return 1
}

// judge refuses a topic that may lose an event before keep is over: the most
// dangerous way to set up a log, because nothing fails until somebody needs the
// event (L8). The hint is the command that mends it.
func judge(topic string, copies int, got settings, keep time.Duration, brokers []string) error {
	mend := settings{}
	var faults []string
	fault := func(name, better, format string, args ...any) {
		mend[name] = better
		faults = append(faults, fmt.Sprintf(format, args...))
	}
	wanted := wantedSettings(keep, copies)
	if kept, err := strconv.ParseInt(got[retention], 10, 64); err != nil || kept >= 0 && kept < keep.Milliseconds() {
		fault(retention, wanted[retention], "keeps events for %s ms, less than the %s of %s", cmp.Or(got[retention], "unknown"), wanted[retention], keep)
	}
	if got[retentionBytes] != "-1" {
		fault(retentionBytes, "-1", "forgets young events when it has %s bytes", got[retentionBytes])
	}
	if got[cleanup] != "delete" {
		fault(cleanup, "delete", "has the cleanup policy %q, which forgets events of any age", got[cleanup])
	}
	if got[stampedBy] != "CreateTime" {
		fault(stampedBy, "CreateTime", "stamps records by %q, so that a seek misses events", got[stampedBy])
	}
	if got[unclean] != "false" {
		fault(unclean, "false", "may elect a leader that lacks acknowledged events")
	}
	if n, err := strconv.Atoi(got[inSync]); err != nil || n < leastInSync(copies) {
		fault(inSync, wanted[inSync], "acknowledges what is on %s of its %d copies", got[inSync], copies)
	}
	if len(faults) == 0 {
		return nil
	}
	return mayfly.Errorf(mayfly.Invalid, "kafka: topic %s %s", topic, strings.Join(faults, "; ")).WithHint(mendCommand(topic, mend, brokers))
}

// judgeCopies refuses a topic that has fewer copies than configured: it would lose
// events with fewer brokers than the operator believes.
func judgeCopies(topic string, copies int, o Options) error {
	if copies >= o.Copies {
		return nil
	}
	return mayfly.Errorf(mayfly.Invalid, "kafka: topic %s has a partition with %d copies, fewer than the %d of the settings", topic, copies, o.Copies).
		WithHint(fmt.Sprintf("kafka-reassign-partitions.sh --bootstrap-server %s --execute --reassignment-json-file, with a file that names %d brokers as replicas of each partition of %s",
			strings.Join(o.Brokers, ","), o.Copies, topic))
}

func mendCommand(topic string, mend settings, brokers []string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(mend)) {
		pairs = append(pairs, name+"="+mend[name])
	}
	return fmt.Sprintf("kafka-configs.sh --bootstrap-server %s --alter --entity-type topics --entity-name %s --add-config %s",
		strings.Join(brokers, ","), topic, strings.Join(pairs, ","))
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
