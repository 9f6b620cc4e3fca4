package kafkastore

import (
	"context"
	"log/slog"

	"github.com/twmb/franz-go/pkg/kgo"
)

// clientLog passes on what the client library thinks the operator should know.
type clientLog struct{ to *slog.Logger }

func (clientLog) Level() kgo.LogLevel { return kgo.LogLevelWarn }

func (l clientLog) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	as := slog.LevelWarn
	if level == kgo.LogLevelError {
		as = slog.LevelError
	}
	l.to.Log(context.Background(), as, "kafka: "+msg, keyvals...)
}
