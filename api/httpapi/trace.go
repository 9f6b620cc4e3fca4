package httpapi

import (
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// trace begins the span of a request, if there are traces, and answers what ends
// it. No attribute names a user or an item.
func (c *call) trace() (end func()) {
	if c.o.Tracer == nil {
		return func() {}
	}
	ctx := propagation.TraceContext{}.Extract(c.r.Context(), propagation.HeaderCarrier(c.r.Header))
	ctx, span := c.o.Tracer.Start(ctx, c.route.method+" "+c.route.pattern, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", c.r.Method), attribute.String("http.route", c.route.pattern), attribute.String("mayfly.request", c.id),
	))
	c.r = c.r.WithContext(ctx)
	return func() {
		span.SetAttributes(attribute.Int("http.response.status_code", c.w.status))
		if c.w.status >= 500 {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}
