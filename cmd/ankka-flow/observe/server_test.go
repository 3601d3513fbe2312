package observe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
	"ankka-flow/delivery/kafka"
	"ankka-flow/wire"
)

var rewrite = flag.Bool("rewrite", false, "write the table of docs/metrics.md")

// fakeSource is a run as the test has it.
type fakeSource struct {
	mu    sync.Mutex
	s     driver.Snapshot
	stuck bool // the loop does not answer
}

func (f *fakeSource) Snapshot(ctx context.Context) (driver.Snapshot, bool) {
	f.mu.Lock()
	s, stuck := f.s, f.stuck
	f.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return driver.Snapshot{}, false
	}
	return s, true
}

func (f *fakeSource) set(change func(s *driver.Snapshot)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.s)
}

var plan = &driver.Plan{
	Pipeline: "shop", Streamlet: "router",
	Inlets:  []driver.PlannedInlet{{Port: "in", Topic: "shop.in", Group: "g", ClientID: "shop.router.in"}},
	Outlets: []driver.PlannedOutlet{{Port: "out", Topic: "shop.out"}},
}

// site is a server on loopback with a source and a Watch that the test fills.
type site struct {
	t      *testing.T
	source *fakeSource
	stage  *stage
	keeper *Keeper
	url    string
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, source: &fakeSource{}, stage: newStage(t)}
	s.source.s = driver.Snapshot{
		Plan: plan, Now: time.Minute, PID: 7,
		Status: delivery.Status{
			State: delivery.Running, Conversation: 2, Ready: true, Alive: true, Batches: 4, In: 40, Out: 30, HeldBytes: 5, Stale: 3,
			Partitions: []delivery.PartitionStatus{
				{TP: delivery.TP{Inlet: "in", Partition: 0}, State: "owned", Committed: 10, Confirmed: 10, Position: 12, Since: -1},
				{TP: delivery.TP{Inlet: "in", Partition: 1}, State: "owned", Committed: 20, Confirmed: 20, Position: 30, InFlight: 10, Since: 18 * time.Second, Attempts: 3, LastError: "no <total>", Why: "process"},
				{TP: delivery.TP{Inlet: "in", Partition: 2}, State: "lost", Owed: true, Since: -1},
			},
		},
		Ends: map[string]map[int32]kafka.End{"in": {0: {HighWatermark: 10, LastStable: 10}, 1: {HighWatermark: 99, LastStable: 50}}},
	}
	s.keeper = NewKeeper(KeeperConfig{Watch: s.stage.watch, Source: s.source, Logger: quiet})
	l, err := Listen(0, false, false)
	if err != nil {
		t.Fatal(err)
	}
	server := Serve(l, s.keeper, Build{Version: "1.2.3", Commit: "c0ffee", Protocol: "1.0", Go: "go1"}, Commands{Process: "python3 router.py", Connect: "-b kafka:9092"}, quiet)
	t.Cleanup(server.Close)
	s.url = fmt.Sprintf("http://127.0.0.1:%d", server.Port())
	return s
}

func (s *site) do(method, path string) (code int, body string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func (s *site) get(path string) (code int, body string) {
	s.t.Helper()
	return s.do(http.MethodGet, path)
}

// families are what the endpoint has.
func (s *site) families() (map[string]*dto.MetricFamily, string) {
	s.t.Helper()
	code, body := s.get("/metrics")
	if code != http.StatusOK {
		s.t.Fatalf("%d: %s", code, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	return families, body
}

// busy makes everything happen that a metric counts.
func (s *site) busy() {
	st := s.stage
	st.running(1)
	st.more(tp0, 3)
	report(st.watch, wire.Series{Name: "carts_total", Value: 1})
	st.emit(st.with[0])
	st.ack(st.batch())
	st.step(delivery.WriteUnknown{ID: st.writes[0]})
	st.written()
	st.commit(delivery.CommitDone)
	st.step(delivery.Exited{Process: 1, Reason: "killed by SIGSEGV", Code: 139})
}

// docs/metrics.md has the catalog's table, and the endpoint has what the table
// says: names, types, labels and help. (go test ./cmd/ankka-flow/observe -run
// Documented -rewrite writes the table.)
func TestEveryMetricIsDocumented(t *testing.T) {
	path := filepath.Join("..", "..", "..", "docs", "metrics.md")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), "| name |")
	_, after, ok2 := strings.Cut(rest, "\n\n")
	if !ok || !ok2 {
		t.Fatal("docs/metrics.md has no table with text behind it")
	}
	if want := before + table() + "\n" + after; string(text) != want {
		if !*rewrite {
			t.Fatal("docs/metrics.md is not what the catalog says; run with -rewrite")
		}
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	s := newSite(t)
	s.busy()
	families, _ := s.families()
	for _, m := range catalog {
		f := families[m.name]
		if f == nil {
			t.Errorf("%s is documented, and the endpoint does not have it", m.name)
			continue
		}
		delete(families, m.name)
		if got := strings.ToLower(f.GetType().String()); got != m.kind || f.GetHelp() != m.help {
			t.Errorf("%s is a %s (%q), documented is a %s (%q)", m.name, got, f.GetHelp(), m.kind, m.help)
		}
		for _, series := range f.GetMetric() {
			var labels []string
			for _, l := range series.GetLabel() {
				labels = append(labels, l.GetName())
			}
			want := slices.Sorted(slices.Values(m.labels))
			if slices.Sort(labels); !slices.Equal(labels, want) {
				t.Errorf("%s has the labels %q, documented are %q", m.name, labels, want)
			}
		}
	}
	for name := range families {
		if !strings.HasPrefix(name, reportPrefix) {
			t.Errorf("%s is not documented", name)
		}
	}
}

// promlint is what `promtool check metrics` runs.
func TestMetricsPassTheLinterOfPrometheus(t *testing.T) {
	s := newSite(t)
	s.busy()
	_, body := s.families()
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// value is the one series of a family with these label values.
func value(t *testing.T, families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	t.Helper()
	for _, m := range families[name].GetMetric() {
		var got []string
		for _, l := range m.GetLabel() {
			got = append(got, l.GetName()+"="+l.GetValue())
		}
		if slices.Equal(got, labels) {
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Errorf("no series %s %q", name, labels)
	return -1
}

func TestLevelsAreThoseOfTheMoment(t *testing.T) {
	s := newSite(t)
	s.stage.running(1)
	f, _ := s.families()
	lag := mLag.name
	for _, c := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{lag, []string{"client_id=shop.router.in", "partition=0", "topic=shop_in"}, 0},
		{lag, []string{"client_id=shop.router.in", "partition=1", "topic=shop_in"}, 30},
		{mLagMax.name, []string{"client_id=shop.router.in"}, 30},
		{mStalled.name, []string{"inlet=in", "partition=0"}, 0},
		{mStalled.name, []string{"inlet=in", "partition=1"}, 42},
		{mInFlight.name, []string{"inlet=in", "partition=1"}, 10},
		{mCommittedOffset.name, []string{"inlet=in", "partition=1"}, 20},
		{mEndOffset.name, []string{"inlet=in", "partition=1"}, 50},
		{mHeldBytes.name, nil, 5}, {mStaleEvents.name, nil, 3}, {mReady.name, nil, 1},
		{mSendRate.name, []string{"client_id=shop.router.out"}, 0},
	} {
		if got := value(t, f, c.name, c.labels...); got != c.want {
			t.Errorf("%s %q is %v, want %v", c.name, c.labels, got, c.want)
		}
	}
	if n := len(f[mStalled.name].GetMetric()); n != 2 {
		t.Errorf("%d partitions have a series; a lost one has none", n)
	}
	// A partition that is lost takes its series along; a start that was looked
	// up and is not committed yet is behind by what is to be read.
	s.source.set(func(s *driver.Snapshot) {
		s.Partitions = []delivery.PartitionStatus{{TP: tp0, State: "owned", Committed: -1, Confirmed: 4, Position: 4, Since: -1}}
	})
	f, _ = s.families()
	if n := len(f[lag].GetMetric()); n != 1 {
		t.Errorf("%d series of lag, want 1", n)
	}
	if got := value(t, f, lag, "client_id=shop.router.in", "partition=0", "topic=shop_in"); got != 6 {
		t.Errorf("the lag of an uncommitted start is %v, want 6", got)
	}
	// A loop that does not answer has no levels, and its counts stay.
	s.source.mu.Lock()
	s.source.stuck = true
	s.source.mu.Unlock()
	f, _ = s.families()
	if f[lag] != nil || f[mHeldBytes.name] != nil || value(t, f, mReady.name) != 0 || value(t, f, mStaleEvents.name) != 3 || value(t, f, mConversations.name) != 1 {
		t.Error("a loop that does not answer still has levels, or has no counts")
	}
}

// Two inlets may read one topic in two groups with one client id, and a topic
// may differ from another in a dot only: every scrape works all the same.
func TestPortsThatShareTheirNames(t *testing.T) {
	s := newSite(t)
	s.source.set(func(s *driver.Snapshot) {
		s.Plan = &driver.Plan{Pipeline: "shop", Streamlet: "router", Inlets: []driver.PlannedInlet{
			{Port: "a", Topic: "shop.in", Group: "a", ClientID: "one"}, {Port: "b", Topic: "shop_in", Group: "b", ClientID: "one"},
		}}
		s.Partitions = nil
		for i, inlet := range []string{"a", "b", "gone"} {
			s.Partitions = append(s.Partitions, delivery.PartitionStatus{TP: delivery.TP{Inlet: inlet}, State: "owned", Committed: int64(i), Since: -1})
			s.Ends[inlet] = map[int32]kafka.End{0: {LastStable: 9}}
		}
	})
	f, body := s.families()
	if got := value(t, f, mLag.name, "client_id=one", "partition=0", "topic=shop_in"); got != 9 {
		t.Errorf("the lag is %v, want 9", got)
	}
	for name, n := range map[string]int{mLag.name: 1, mLagMax.name: 1, mConsumedRate.name: 1, mStalled.name: 2} {
		if got := len(f[name].GetMetric()); got != n {
			t.Errorf("%d series of %s, want %d", got, name, n)
		}
	}
	if strings.Contains(body, "gone") {
		t.Error("an inlet that a reload took away has series")
	}
}

func TestReadyAndLive(t *testing.T) {
	s := newSite(t)
	expect := func(path string, want int, says string) {
		t.Helper()
		code, body := s.get(path)
		if code != want || !strings.Contains(body, says) || strings.Count(body, "\n") != 1 {
			t.Errorf("%s: %d %q, want %d and %q", path, code, body, want, says)
		}
	}
	expect("/readyz", http.StatusServiceUnavailable, "not ready: starting")
	expect("/livez", http.StatusOK, "alive")
	s.stage.running(1)
	expect("/readyz", http.StatusOK, "ready")
	s.stage.step(delivery.Exited{Process: 1, Reason: "exit 1", Code: 1})
	s.source.set(func(s *driver.Snapshot) { s.State = delivery.Down })
	s.keeper.look(t.Context())
	expect("/readyz", http.StatusServiceUnavailable, "not ready: the conversation is down")
	expect("/livez", http.StatusOK, "alive") // a process that is gone is no dead supervisor
	long := func() { s.keeper.began = s.keeper.began.Add(-2 * AliveWithin) }
	long() // the keeper has not asked, and the loop would answer
	expect("/livez", http.StatusOK, "alive")
	s.source.set(func(*driver.Snapshot) { s.source.stuck = true })
	long()
	expect("/livez", http.StatusServiceUnavailable, "not alive")
	expect("/readyz", http.StatusServiceUnavailable, "not ready: the supervisor's loop does not turn")
}

// No request changes anything, and no method but two is answered.
func TestOnlyGetAndHead(t *testing.T) {
	s := newSite(t)
	for _, path := range []string{"/", "/metrics", "/readyz", "/livez", "/status.json", "/nothing"} {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, "BREW"} {
			if code, _ := s.do(method, path); code != http.StatusMethodNotAllowed {
				t.Errorf("%s %s: %d", method, path, code)
			}
		}
		if code, body := s.do(http.MethodHead, path); code == http.StatusMethodNotAllowed || body != "" {
			t.Errorf("HEAD %s: %d %q", path, code, body)
		}
	}
	if code, _ := s.get("/nothing"); code != http.StatusNotFound {
		t.Errorf("a page that is not there: %d", code)
	}
}

func TestStatus(t *testing.T) {
	s := newSite(t)
	s.busy()
	code, body := s.get("/status.json")
	var st Status
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&st); err != nil || code != http.StatusOK {
		t.Fatalf("%d %v: %s", code, err, body)
	}
	if st.Pipeline != "shop" || st.Streamlet != "router" || st.Command != "python3 router.py" || st.State != "running" || st.Conversation != 2 || !st.Alive || st.Ready {
		t.Errorf("%+v", st)
	}
	if st.Process.Starts != 1 || st.Process.PID != 7 || st.Process.LastExit == nil || st.Process.LastExit.Code != 139 || st.Process.LastExit.Reason != "killed by SIGSEGV" {
		t.Errorf("process %+v %+v", st.Process, st.Process.LastExit)
	}
	if st.Batches.Committed != 4 || st.Batches.P99Seconds == nil || st.HeldBytes != 5 || st.Behind == nil || *st.Behind != 30 {
		t.Errorf("batches %+v, held %d, behind %v", st.Batches, st.HeldBytes, st.Behind)
	}
	row := st.Partitions[0] // stuck ones first
	if row.Partition != 1 || row.Committed != 20 || *row.End != 50 || *row.Lag != 30 || row.StalledSeconds != 42 || row.Attempts != 3 ||
		row.LastError != "no <total>" || row.Why != "process" || row.Show != "ankka-flow consume -b kafka:9092 shop.in -p 1 -o 20 -n 1" {
		t.Errorf("the first row is %+v", row)
	}
	if len(st.Partitions) != 3 || st.Partitions[1].Show != "" {
		t.Errorf("rows %+v", st.Partitions)
	}
	var kinds []string
	for _, e := range st.Events {
		kinds = append(kinds, e.Kind)
	}
	if got := strings.Join(kinds, " "); got != "failure exit rebalance start" {
		t.Errorf("events %s", got)
	}
	code, page := s.get("/")
	for _, part := range []string{"router", "shop.in/1", "no &lt;total&gt;", "ankka-flow consume -b kafka:9092 shop.in -p 1 -o 20 -n 1", "killed by SIGSEGV", "30 behind"} {
		if code != http.StatusOK || !strings.Contains(page, part) {
			t.Errorf("%d: %q is not on the page", code, part)
		}
	}
	if bytes.Contains([]byte(page), []byte("<script")) || strings.Contains(page, "%!") || !strings.HasSuffix(page, "</html>\n") {
		t.Errorf("the page: %s", page)
	}
}

// Every field of the status is in docs/metrics.md.
func TestEveryFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## /status.json\n")
	if !ok {
		t.Fatal("docs/metrics.md has no section on /status.json")
	}
	n := 0
	var look func(of reflect.Type)
	look = func(of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || of == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if n++; !strings.Contains(section, "`"+name+"`") {
				t.Errorf("%s.%s is not documented", of.Name(), name)
			}
			look(of.Field(i).Type)
		}
	}
	look(reflect.TypeFor[Status]())
	if n < 40 {
		t.Errorf("only %d fields were looked at", n)
	}
}

func TestHistoryIsBounded(t *testing.T) {
	var h history
	for i := range 3 * maxHappenings {
		h.add("failure", fmt.Sprint(i)+strings.Repeat("x", 2*maxText))
	}
	for i := range 3 * latencySamples {
		h.batch(time.Duration(i))
	}
	if len(h.last) != maxHappenings || !strings.HasPrefix(h.last[maxHappenings-1].Text, "59x") || len(h.last[0].Text) != maxText {
		t.Errorf("%d happenings, the last %.10q", len(h.last), h.last[len(h.last)-1].Text)
	}
	if p50, p99, _ := h.quantiles(); p50 != 2*latencySamples+latencySamples/2-1 || p99 != 3*latencySamples-11 {
		t.Errorf("p50 %d p99 %d", p50, p99)
	}
}

func TestRates(t *testing.T) {
	var r rate
	at := time.Now()
	r.sample(at, 0)
	if got := r.at(at.Add(100*time.Millisecond), 10); got != 10 {
		t.Errorf("within the first second: %v, want 10", got)
	}
	for i := 1; i <= 100; i++ {
		at = at.Add(time.Second)
		r.sample(at, uint64(100*i))
	}
	if got := r.at(at, 10000); got != 100 {
		t.Errorf("steady: %v, want 100", got)
	}
	if len(r.samples) > 33 {
		t.Errorf("%d samples are kept", len(r.samples))
	}
	if got := r.at(at.Add(15*time.Second), 10000); got <= 45 || got >= 55 {
		t.Errorf("15 s after the last record: %v, want about 50", got)
	}
	if got := r.at(at.Add(30*time.Second), 10000); got != 0 {
		t.Errorf("30 s after the last record: %v, want 0", got)
	}
}

func TestTheNextFreePort(t *testing.T) {
	first, err := Listen(0, false, false)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	taken := first.Addr().(*net.TCPAddr).Port
	if _, err := Listen(taken, false, false); err == nil || !strings.Contains(err.Error(), fmt.Sprint(taken)) {
		t.Errorf("a port that is taken: %v", err)
	}
	second, err := Listen(taken, false, true)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if at := second.Addr().(*net.TCPAddr); at.Port == taken || !at.IP.IsLoopback() {
		t.Errorf("listens at %v", at)
	}
	var opErr *net.OpError
	if _, err := Listen(70000, false, true); !errors.As(err, &opErr) {
		t.Errorf("a port that is none: %v", err)
	}
}

// endsOf has the end of partition 0 as a fetch told it.
func endsOf(end int64) map[string]map[int32]kafka.End {
	return map[string]map[int32]kafka.End{"in": {0: {HighWatermark: end + 7, LastStable: end}}}
}
