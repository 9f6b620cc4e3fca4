package httpapi

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/mayflyhq/mayfly"
)

// metrics are what the doors measure (O3). No label is an item, a user or
// anything else that callers choose.
type metrics struct {
	requests            *prometheus.CounterVec
	durations           *prometheus.HistogramVec
	underway            prometheus.Gauge
	verdicts            *prometheus.CounterVec
	births              prometheus.Counter
	views               prometheus.Counter
	mediaBytes          *prometheus.CounterVec
	limited             *prometheus.CounterVec
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
		requests: counters("http_requests_total", "Answers, by route, method and status.", "route", "method", "status"),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "mayfly", Name: "http_request_seconds", Help: "How long answers took, by route.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"route"}),
		underway:            prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "mayfly", Name: "http_requests_underway", Help: "Requests that are being answered."}),
		verdicts:            counters("verdicts_total", "What the gate said to those who asked for one item, by verdict.", "verdict"),
		births:              counter("births_total", "Stories published through the API."),
		views:               counter("views_total", "Views that were counted."),
		mediaBytes:          counters("media_bytes_total", "Bytes of media, by direction.", "direction"),
		limited:             counters("limited_total", "Requests over a rate, by kind.", "kind"),
		servedAfterDeadline: counter("served_after_deadline_total", "Answers that carried an item past its end to somebody who is neither its author nor a moderator. Any is a fault (I4)."),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.durations, m.underway, m.verdicts, m.births, m.views, m.mediaBytes, m.limited, m.servedAfterDeadline} {
		errs = append(errs, r.Register(c))
	}
	return m, errors.Join(errs...)
}

// meter is what is measured of one route, looked up once.
type meter struct {
	route, method string
	requests      *prometheus.CounterVec
	duration      prometheus.Observer
}

func (m *metrics) of(r route) meter {
	return meter{r.pattern, r.method, m.requests, m.durations.WithLabelValues(r.pattern)}
}

func (m meter) answered(status int, took time.Duration) {
	m.requests.WithLabelValues(m.route, m.method, strconv.Itoa(status)).Inc()
	m.duration.Observe(took.Seconds())
}

// verdict counts what became of somebody's wish to see one item.
func (m *metrics) verdict(shown string, err error) {
	switch {
	case err == nil:
		m.verdicts.WithLabelValues(shown).Inc()
	case errors.Is(err, mayfly.Gone):
		m.verdicts.WithLabelValues("gone").Inc()
	case errors.Is(err, mayfly.NotFound):
		m.verdicts.WithLabelValues("hidden").Inc()
	}
}
