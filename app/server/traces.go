package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/mayflyhq/mayfly"
	"github.com/mayflyhq/mayfly/app/config"
)

// traces sends spans to a collector, if one is configured.
type traces struct {
	tracer   trace.Tracer // nil: no traces
	provider *sdktrace.TracerProvider
	log      *slog.Logger
}

func newTraces(ctx context.Context, c config.Config, log *slog.Logger) (*traces, error) {
	if c.Traces.Endpoint == "" {
		return &traces{}, nil
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Debug("cannot send traces", "error", err) }))
	out, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.Traces.Endpoint))
	if err != nil {
		return nil, mayfly.Wrap(mayfly.Invalid, fmt.Errorf("traces: %w", err), "check traces.endpoint")
	}
	t := &traces{log: log, provider: sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(out),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.Traces.Share))),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "mayfly"), attribute.String("service.version", Version), attribute.String("service.instance.id", c.Node))),
	)}
	t.tracer = t.provider.Tracer("github.com/mayflyhq/mayfly")
	return t, nil
}

// close sends the remaining spans. A collector that is down does not prevent the
// server from stopping.
func (t *traces) close() error {
	if t.provider == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.log.Warn("cannot send the last traces", "error", err)
	}
	return nil
}
