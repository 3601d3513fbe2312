package observe

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"ankka-flow/wire"
)

// reportPrefix stands before the names of what the process reports.
const reportPrefix = "ankka_flow_process_"

// The bounds of what a process may report; what is over them is not shown.
const (
	maxSeries     = wire.MaxSeries // in the supervisor's life
	maxNameBytes  = 200
	maxLabels     = 16
	maxLabelBytes = 256 // of a name or a value, which is cut
)

// series is one series of the process. Its identity is fixed; value belongs to
// reports.
type series struct {
	name   string
	gauge  bool
	names  []string // of labels, sorted
	values []string
	value  float64
	shown  bool // it has counted once
}

// reports is what the process reported. Counters survive the process: they are
// increments. A gauge stays until it is reported again.
type reports struct {
	log     *slog.Logger
	mu      sync.Mutex
	series  map[string]*series
	kinds   map[string]bool // name to gauge
	dropped uint64
}

func newReports(log *slog.Logger) *reports {
	return &reports{log: log, series: map[string]*series{}, kinds: map[string]bool{}}
}

// admit finds the series of a number, made where it is new; nil where it is not
// shown.
func (r *reports) admit(s *wire.Series) *series {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := sanitize(s.Name)
	if gauge, ok := r.kinds[name]; name == "" || len(name) > maxNameBytes || len(s.Labels) > maxLabels || ok && gauge != s.Gauge {
		r.drop(s.Name, "its name is empty or long, it has many labels, or it is shown as another kind already")
		return nil
	}
	names, values := labelsOf(s.Labels)
	key := name + "\x00" + strings.Join(names, "\x00") + "\x00" + strings.Join(values, "\x00")
	if known := r.series[key]; known != nil {
		return known
	}
	if len(r.series) >= maxSeries {
		r.drop(s.Name, "there are as many series as there may be")
		return nil
	}
	made := &series{name: reportPrefix + name, gauge: s.Gauge, names: names, values: values}
	r.series[key], r.kinds[name] = made, s.Gauge
	return made
}

// drop counts what is not shown, and says so the first time. The caller holds
// mu.
func (r *reports) drop(name, why string) {
	if r.dropped == 0 {
		r.log.Warn("a number that the process reported is not shown, and no more is said of others (ankka_flow_report_series_dropped_total counts them): "+why,
			"event", "report", "metric", cut(name, maxNameBytes))
	}
	r.dropped++
}

func (r *reports) count(s *series, value float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.shown = true
	if s.gauge {
		s.value = value
	} else {
		s.value += value
	}
}

// collect gives every series that has counted, and how many numbers were
// dropped.
func (r *reports) collect(ch chan<- prometheus.Metric) (dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.series {
		if !s.shown {
			continue
		}
		kind := prometheus.CounterValue
		if s.gauge {
			kind = prometheus.GaugeValue
		}
		ch <- prometheus.MustNewConstMetric(prometheus.NewDesc(s.name, "Reported by the process.", s.names, nil), kind, s.value, s.values...)
	}
	return r.dropped
}

// labelsOf makes labels that Prometheus takes of any text. Of two names that
// become one, the one that sorts first is kept. An empty value is no label, to
// Prometheus.
func labelsOf(labels map[string]string) (names, values []string) {
	for _, raw := range slices.Sorted(maps.Keys(labels)) {
		name := cut(strings.ReplaceAll(sanitize(raw), ":", "_"), maxLabelBytes)
		for strings.HasPrefix(name, "__") { // Prometheus keeps these to itself
			name = name[1:]
		}
		if name == "" || labels[raw] == "" || slices.Contains(names, name) {
			continue
		}
		names = append(names, name)
		values = append(values, cut(labels[raw], maxLabelBytes))
	}
	return names, values
}

// sanitize makes a name of letters, digits, underscores and colons.
func sanitize(name string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == ':':
			return r
		}
		return '_'
	}, name)
	if clean != "" && '0' <= clean[0] && clean[0] <= '9' {
		clean = "_" + clean
	}
	return clean
}

// cut makes a text UTF-8 and shortens it to at most n bytes, at a character's
// boundary.
func cut(text string, n int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
