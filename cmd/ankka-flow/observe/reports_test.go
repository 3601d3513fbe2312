package observe

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"ankka-flow/wire"
)

// shown is what the process reported, as lines joined by "; ".
func shown(w *Watch) string {
	ch := make(chan prometheus.Metric, 2*maxSeries)
	w.reports.collect(ch)
	close(ch)
	var lines []string
	for m := range ch {
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			return err.Error()
		}
		name := strings.Split(m.Desc().String(), `"`)[1]
		labels := ""
		for _, l := range d.GetLabel() {
			labels += fmt.Sprintf("{%s=%q}", l.GetName(), l.GetValue())
		}
		value := d.GetGauge().GetValue()
		if d.GetCounter() != nil {
			value = d.GetCounter().GetValue()
		}
		lines = append(lines, fmt.Sprintf("%s%s %v", name, labels, value))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

// sumOf is the sum of a histogram over its labels.
func sumOf(t *testing.T, w *Watch, of *metric) (sum float64) {
	t.Helper()
	vecs := map[*metric]*prometheus.HistogramVec{mBatchSeconds: w.batchSeconds, mWriteSeconds: w.writeSeconds, mDeliverySeconds: w.deliverySeconds}
	ch := make(chan prometheus.Metric, 100)
	vecs[of].Collect(ch)
	close(ch)
	for m := range ch {
		var d dto.Metric
		if err := m.Write(&d); err != nil {
			t.Fatal(err)
		}
		sum += d.GetHistogram().GetSampleSum()
	}
	return sum
}

func report(w *Watch, series ...wire.Series) { w.Reported(wire.Report{Series: series}) }

func TestReportsCount(t *testing.T) {
	w := NewWatch(quiet)
	for range 2 {
		report(w,
			wire.Series{Name: "carts", Value: 2},
			wire.Series{Name: "carts", Labels: map[string]string{"kind": "big"}, Value: 3},
			wire.Series{Name: "queue", Gauge: true, Value: 7},
		)
	}
	report(w, wire.Series{Name: "queue", Gauge: true, Value: 5})
	want := `ankka_flow_process_carts 4; ankka_flow_process_carts{kind="big"} 6; ankka_flow_process_queue 5`
	if got := shown(w); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Whatever text a name or a label is, what is shown is something that
// Prometheus reads, and it has a bound.
func TestReportsOfAnyTextAreShown(t *testing.T) {
	w := NewWatch(quiet)
	report(w,
		wire.Series{Name: "größe.in bytes", Value: 1},
		wire.Series{Name: "9lives", Value: 1},
		wire.Series{Name: "a", Labels: map[string]string{"__x": "1", "a:b": "2", "a-b": "3", "empty": "", "": "v", "\xff": "\xff"}, Value: 1},
		wire.Series{Name: "long", Labels: map[string]string{"l": strings.Repeat("ä", 1000)}, Value: 1},
		wire.Series{Name: ""}, wire.Series{Name: strings.Repeat("n", maxNameBytes+1)},
	)
	want := `ankka_flow_process__9lives 1; ankka_flow_process_a{_="�"}{_x="1"}{a_b="3"} 1; ankka_flow_process_gr__e_in_bytes 1; ` +
		`ankka_flow_process_long{l="` + strings.Repeat("ä", maxLabelBytes/2) + `"} 1`
	if got := shown(w); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if w.reports.dropped != 2 {
		t.Errorf("%d dropped, want 2", w.reports.dropped)
	}
}

func TestReportsAreBounded(t *testing.T) {
	w := NewWatch(quiet)
	for i := range 2 * maxSeries {
		report(w, wire.Series{Name: "n", Labels: map[string]string{"i": fmt.Sprint(i)}, Value: 1})
	}
	report(w, wire.Series{Name: "n", Gauge: true, Labels: map[string]string{"i": "1"}, Value: 1})
	if n := strings.Count(shown(w), "ankka_flow_process_n"); n != maxSeries {
		t.Errorf("%d series, want %d", n, maxSeries)
	}
	if w.reports.dropped != maxSeries+1 {
		t.Errorf("%d dropped, want %d", w.reports.dropped, maxSeries+1)
	}
}
