package httpapi

import (
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
)

// metrics are the metrics of the API (O3). No label is an item, a user or anything
// else that callers choose.
type metrics struct {
	requests            *prometheus.CounterVec
	durations           *prometheus.HistogramVec
	underway            prometheus.Gauge
	verdicts            *prometheus.CounterVec
	births              *prometheus.CounterVec
	mediaBytes          *prometheus.CounterVec
	limited             *prometheus.CounterVec
	streams             *prometheus.GaugeVec
	streamsEnded        *prometheus.CounterVec
	servedAfterDeadline prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "mayfly", Name: name, Help: help})
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "mayfly", Name: name, Help: help}, labels)
	}
	m := &metrics{
		requests: counters("http_requests_total", "Answers, by product, route, method and status.", "product", "route", "method", "status"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "mayfly", Name: "http_request_seconds", Help: "How long answers took, by product and route.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"product", "route"}),
		underway:            prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "mayfly", Name: "http_requests_underway", Help: "Requests being answered."}),
		verdicts:            counters("verdicts_total", "Verdicts of the gate on requests for one item, by product and verdict.", "product", "verdict"),
		births:              counters("births_total", "Items published through the API, by product.", "product"),
		mediaBytes:          counters("media_bytes_total", "Bytes of media, by product and direction.", "product", "direction"),
		limited:             counters("limited_total", "Requests over a rate limit, by product and kind.", "product", "kind"),
		streams:             prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "mayfly", Name: "http_streams", Help: "Open streams of events, by product."}, []string{"product"}),
		streamsEnded:        counters("http_streams_ended_total", "Streams of events that have ended, by product and reason.", "product", "reason"),
		servedAfterDeadline: counter("served_after_deadline_total", "Answers that contained an item past its end, for a caller who is neither its author nor a moderator. Must stay 0 (I4)."),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.durations, m.underway, m.verdicts, m.births, m.mediaBytes, m.limited, m.streams, m.streamsEnded, m.servedAfterDeadline} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// meter measures one route. Its label values are looked up once, when there is
// something to count.
type meter struct {
	requests func(status string) prometheus.Counter
	verdicts func(verdict string) prometheus.Counter
	mediaOut func() prometheus.Counter
	duration prometheus.Observer
}

func (m *metrics) of(rt Route) *meter {
	return &meter{
		requests: lookedUpOnce(func(status string) prometheus.Counter {
			return m.requests.WithLabelValues(rt.Product, rt.Pattern, rt.Method, status)
		}),
		verdicts: lookedUpOnce(func(verdict string) prometheus.Counter { return m.verdicts.WithLabelValues(rt.Product, verdict) }),
		mediaOut: sync.OnceValue(func() prometheus.Counter { return m.mediaBytes.WithLabelValues(rt.Product, "out") }),
		duration: m.durations.WithLabelValues(rt.Product, rt.Pattern),
	}
}

// lookedUpOnce remembers the counter of each label value.
func lookedUpOnce(lookUp func(label string) prometheus.Counter) func(label string) prometheus.Counter {
	var known sync.Map
	return func(label string) prometheus.Counter {
		if c, ok := known.Load(label); ok {
			return c.(prometheus.Counter)
		}
		c := lookUp(label)
		known.Store(label, c)
		return c
	}
}

func (m *meter) answered(status int, took time.Duration) {
	m.requests(strconv.Itoa(status)).Inc()
	m.duration.Observe(took.Seconds())
}

// CountVerdict counts the verdict of the gate on a request for one item: shown,
// or what err says.
func (c *Call) CountVerdict(shown string, err error) {
	verdict := shown
	switch {
	case err == nil:
	case errors.Is(err, mayfly.Gone):
		verdict = "gone"
	case errors.Is(err, mayfly.NotFound):
		verdict = "hidden"
	default:
		return
	}
	c.meter.verdicts(verdict).Inc()
}

// CountBirth counts an item that was published.
func (c *Call) CountBirth() { c.api.metrics.births.WithLabelValues(c.route.Product).Inc() }

// CountMediaIn counts the bytes of the body as media that were received.
func (c *Call) CountMediaIn() {
	c.api.metrics.mediaBytes.WithLabelValues(c.route.Product, "in").Add(float64(c.Body.BytesRead()))
}
