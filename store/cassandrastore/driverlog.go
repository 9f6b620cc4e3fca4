package cassandrastore

import (
	"log/slog"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
)

// reconnectEvery is how often a node that is down is tried again, beside what the
// other nodes tell of it.
const reconnectEvery = 5 * time.Second

// driverLog passes on what the client library thinks the operator should know.
type driverLog struct{ to *slog.Logger }

func (l driverLog) Error(msg string, fields ...gocql.LogField) {
	l.to.Error("cassandra: "+msg, attributes(fields)...)
}

func (l driverLog) Warning(msg string, fields ...gocql.LogField) {
	l.to.Warn("cassandra: "+msg, attributes(fields)...)
}

func (l driverLog) Info(msg string, fields ...gocql.LogField) {
	l.to.Debug("cassandra: "+msg, attributes(fields)...)
}

func (driverLog) Debug(string, ...gocql.LogField) {}

func attributes(fields []gocql.LogField) []any {
	as := make([]any, len(fields))
	for i, f := range fields {
		as[i] = slog.String(f.Name, f.Value.String())
	}
	return as
}
