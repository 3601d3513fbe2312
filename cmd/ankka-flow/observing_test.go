package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/cmd/ankka-flow/observe"
)

// within is how soon the lag must be right.
const within = time.Second

// statusOf is the address on the line ready.
func statusOf(p *program) string {
	p.t.Helper()
	return p.await(`ready +status (http://127\.0\.0\.1:\d+)`)[1]
}

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// metrics are the counters and gauges at an address: name{label="value",...}, as
// Prometheus writes them.
func metrics(t *testing.T, url string) map[string]float64 {
	t.Helper()
	code, body := get(t, url+"/metrics")
	if code != http.StatusOK {
		t.Fatalf("/metrics: %d: %s", code, body)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for name, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			series := name
			if len(labels) > 0 {
				series += "{" + strings.Join(labels, ",") + "}"
			}
			out[series] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return out
}

// The series of the cases' partition.
const (
	seriesLag     = `kafka_consumer_consumer_fetch_manager_metrics_records_lag{client_id="case.case.in",partition="%d",topic="case_in"}`
	seriesStalled = `ankka_flow_sidecar_stalled_seconds{inlet="in",partition="0"}`
)

// lagIs waits until the lag of a partition is exactly n, at most a second from
// when it became so.
func (b *caseBroker) lagIs(url string, partition int32, n float64) {
	b.t.Helper()
	lagWithin(b.t, url, fmt.Sprintf(seriesLag, partition), n)
}

// lagWithin is lagIs for any series.
func lagWithin(t *testing.T, url, series string, n float64) {
	t.Helper()
	limit := time.NewTimer(within)
	defer limit.Stop()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		got, ok := metrics(t, url)[series]
		if ok && got == n {
			return
		}
		select {
		case <-ticker.C:
		case <-limit.C:
			t.Fatalf("%s is %v (%v) after %v, want %v", series, got, ok, within, n)
		}
	}
}

// A stall is seen: the lag grows while nothing is fetched, the age of the oldest
// uncommitted batch rises through a restart of the process, and both are exactly
// 0 when it has committed. Counters survive the process.
func TestStalledPartitionInTheMetrics(t *testing.T) {
	t.Parallel()
	b, h := newCaseBroker(t), newHeld(t)
	p := b.runCase([]string{"FLOW_STALL_WARNING_AFTER=1s"}, nil, misbehaves(t, "hold", "--until", h.path))
	url := statusOf(p)
	pid := p.await(`process +pid (\d+):`)[1]
	b.lagIs(url, 0, 0)
	b.putN(3)
	p.await(`holding batch 1`)
	b.lagIs(url, 0, 3)
	if m := metrics(t, url); m[seriesStalled] <= 0 || m[`ankka_flow_sidecar_in_flight{inlet="in",partition="0"}`] == 0 {
		t.Errorf("with a batch that is held: stalled %v", m[seriesStalled])
	}
	big := func(n int) { // more than a partition's buffer holds, so that nothing more is fetched
		for range n {
			value := make([]byte, 30<<10)
			_, _ = rand.Read(value) // the client compresses; it never fails
			b.put(&kgo.Record{Value: value})
		}
	}
	big(100)
	b.lagIs(url, 0, 103)
	big(100)
	b.lagIs(url, 0, 203)

	at := p.count()
	kill(t, pid)
	p.awaitFrom(at, `ready +conversation 2 runs`)
	p.awaitFrom(at, `holding batch`)
	eventually(t, "a stall of 2 s, through the restart", func() bool { return metrics(t, url)[seriesStalled] > 2 })
	p.await(`WRN stalled .*case.in/0@0 is not committed for 1.* warning=PartitionStalled pipeline=case streamlet=case inlet=in topic=case.in partition=0 offset=0 tries=\d`)
	big(100)
	b.lagIs(url, 0, 303)
	h.all()
	b.awaitCommit(303)
	b.lagIs(url, 0, 0)
	m := metrics(t, url)
	for series, want := range map[string]float64{
		seriesStalled: 0,
		`ankka_flow_sidecar_in_flight{inlet="in",partition="0"}`:                                  0,
		`ankka_flow_committed_offset{inlet="in",partition="0"}`:                                   303,
		`ankka_flow_end_offset{inlet="in",partition="0"}`:                                         303,
		`ankka_flow_committed_records_total{inlet="in"}`:                                          303,
		`ankka_flow_emitted_records_total{outlet="out"}`:                                          303,
		`ankka_flow_starts_total`:                                                                 2,
		`ankka_flow_exits_total{code="137"}`:                                                      1,
		`ankka_flow_conversations_total`:                                                          2,
		`ankka_flow_stream_failures_total{reason="exit"}`:                                         1,
		`ankka_flow_ready`:                                                                        1,
		`kafka_consumer_consumer_fetch_manager_metrics_records_lag_max{client_id="case.case.in"}`: 0,
	} {
		if got, ok := m[series]; !ok || got != want {
			t.Errorf("%s is %v (%v), want %v", series, got, ok, want)
		}
	}
	if got := m[`ankka_flow_consumed_records_total{inlet="in"}`]; got <= 303 {
		t.Errorf("%v records were handed over, more than 303 were: some twice", got)
	}
	for _, rate := range []string{
		`kafka_consumer_consumer_fetch_manager_metrics_records_consumed_rate{client_id="case.case.in"}`,
		`kafka_producer_producer_metrics_record_send_rate{client_id="case.case.out"}`,
	} {
		if m[rate] <= 0 {
			t.Errorf("%s is %v", rate, m[rate])
		}
	}
	p.survivesTheProcess(url, at, 3)
	p.stopsWell()
	p.says("PartitionStalled")
}

// survivesTheProcess kills the newest process that line at or a later one names, and
// checks that nothing that only rises is less in the conversation that follows.
func (p *program) survivesTheProcess(url string, at, conversation int) {
	p.t.Helper()
	pid := p.awaitFrom(at, `process +pid (\d+):`)[1]
	before := metrics(p.t, url)
	kill(p.t, pid)
	p.awaitFrom(at, fmt.Sprintf(`ready +conversation %d runs`, conversation))
	after, rising := metrics(p.t, url), 0
	for series, was := range before {
		name, _, _ := strings.Cut(series, "{")
		if !strings.HasSuffix(name, "_total") && !strings.HasSuffix(name, "_count") && !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_bucket") {
			continue
		}
		if was > 0 {
			rising++
		}
		if now, ok := after[series]; !ok || now < was {
			p.t.Errorf("%s was %v, and is %v (%v) after the process", series, was, now, ok)
		}
	}
	if rising < 10 {
		p.t.Errorf("only %d series have counted anything", rising)
	}
}

// A record that fails for ever is a stall of its partition alone, seen three ways: its
// lag, the age of its oldest uncommitted batch, and one warning with the record's offset
// and the last error, however often it is tried. Meanwhile the supervisor is ready and
// alive. The record committed, all three are over, and the next stall is another one.
func TestStallOfAConvict(t *testing.T) {
	t.Parallel()
	b := newBrokerWith(t, 2)
	bad := filepath.Join(t.TempDir(), "bad")
	mend := func(mended bool) {
		t.Helper()
		err := os.WriteFile(bad, nil, 0o600)
		if mended {
			err = os.Remove(bad)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mend(false)
	poison := func(partition int32) *kgo.Record { return &kgo.Record{Partition: partition, Value: []byte("bad")} }
	b.put(&kgo.Record{Value: []byte("v")}, &kgo.Record{Value: []byte("v")}, poison(0), &kgo.Record{Value: []byte("v")})
	p := b.jsonLog([]string{"FLOW_STALL_WARNING_AFTER=3s"}, nil, sdkStreamlet(t, "import os", fmt.Sprintf(
		"        if record.value == b'bad' and os.path.exists(%q):\n            raise KeyError('no total')\n        return self.out.emit(record)", bad)))
	url := p.await(`status (http://127\.0\.0\.1:\d+)`)[1]
	b.awaitCommit(2)
	p.awaitSaid(1, "stalled", "WARN", "is not committed for")
	m := metrics(t, url)
	if got := m[fmt.Sprintf(seriesLag, 0)]; got != 2 || m[seriesStalled] < 3 {
		t.Errorf("lag %v, stalled for %v", got, m[seriesStalled])
	}
	for i := range 4 { // the others carry on
		b.put(&kgo.Record{Partition: 1, Value: []byte("v")})
		eventually(t, "partition 1 is committed", func() bool { return b.committed(1) == int64(i+1) })
		if m := metrics(t, url); m[strings.Replace(seriesStalled, `"0"`, `"1"`, 1)] > m[seriesStalled] {
			t.Errorf("partition 1 is stalled for longer than 0: %v", m)
		}
	}
	tries := p.said("failed", "WARN", "case.in/0@2")
	p.awaitSaid(tries+2, "failed", "WARN", "case.in/0@2")
	for _, what := range []string{"ready", "live"} {
		eventually(t, what+" with a convict", func() bool { // ready again half a second after each failure
			code, _, _ := runProgram(t, programOptions{dir: b.dir}, "probe", what)
			return code == 0
		})
	}
	b.lagSoon(url, 0, 2)
	mend(true)
	b.awaitCommit(4)
	b.lagIs(url, 0, 0)
	eventually(t, "no stall is shown", func() bool { return metrics(t, url)[seriesStalled] == 0 })
	mend(false)
	b.put(poison(0))
	p.awaitSaid(2, "stalled", "WARN", "is not committed for")
	mend(true)
	b.awaitCommit(5)
	p.stopsWell()
	offset := 2.0
	for _, line := range p.logged() {
		if !line.is("stalled", "WARN") {
			continue
		}
		text, lastError := fmt.Sprint(line["msg"]), fmt.Sprint(line["error"])
		if line["warning"] != "PartitionStalled" || line["pipeline"] != "case" || line["streamlet"] != "case" || line["inlet"] != "in" || line["topic"] != "case.in" ||
			line["partition"] != 0.0 || line["offset"] != offset || !strings.Contains(lastError, "no total") || !strings.Contains(text, fmt.Sprintf("case.in/0@%v ", offset)) ||
			!strings.Contains(text, "what stands there has failed ") || !strings.Contains(text, lastError) {
			t.Errorf("the warning of offset %v: %v", offset, line)
		}
		offset += 2
	}
	if n := p.said("stalled", "WARN", ""); n != 2 {
		t.Errorf("warned %d times of two stalls", n)
	}
	p.isDocumented()
}

// kill ends a process of ours at once.
func kill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// Records of a transaction that is open are not behind: nobody can read them.
// Its end is, until it is committed over, and so is an abort's.
func TestLagWithTransactions(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	p := b.runCase(nil, nil, misbehaves(t, "good"))
	url := statusOf(p)
	b.lagIs(url, 0, 0)
	for i, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(b.address()), kgo.TransactionalID(fmt.Sprint("t", i)), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if err := client.ProduceSync(b.ctx, &kgo.Record{Topic: caseIn, Value: []byte("v")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		b.lagIs(url, 0, 0)
		if err := client.EndTransaction(b.ctx, commit); err != nil {
			t.Fatal(err)
		}
		b.awaitCommit(int64(6 * (i + 1))) // 5 records and a marker
		b.lagIs(url, 0, 0)
	}
	if got := metrics(t, url)[`ankka_flow_committed_records_total{inlet="in"}`]; got != 5 {
		t.Errorf("%v records were committed, want the 5 of the transaction that was", got)
	}
	p.stopsWell()
}

// What compaction took away is passed over and not behind any more; in the end
// the lag is exactly 0.
func TestLagWithCompaction(t *testing.T) {
	t.Parallel()
	b, h := newCaseBroker(t), newHeld(t)
	policy := "compact"
	if _, err := b.admin.AlterTopicConfigs(b.ctx, []kadm.AlterConfig{{Name: "cleanup.policy", Value: &policy}}, caseIn); err != nil {
		t.Fatal(err)
	}
	for i := range 30 { // a batch each
		b.put(&kgo.Record{Key: []byte(fmt.Sprint(i % 3)), Value: []byte("v")})
	}
	b.cluster.Compact()
	p := b.runCase(nil, nil, misbehaves(t, "hold", "--until", h.path))
	url := statusOf(p)
	p.await(`holding batch`)
	eventually(t, "what compaction left is behind", func() bool {
		at := b.committed(0)
		return at > 20 && metrics(t, url)[fmt.Sprintf(seriesLag, 0)] == float64(30-at)
	})
	h.all()
	b.awaitCommit(30)
	b.lagIs(url, 0, 0)
	if got := metrics(t, url)[`ankka_flow_committed_records_total{inlet="in"}`]; got < 3 || got > 6 {
		t.Errorf("%v records were committed; compaction left one of each key", got)
	}
	p.stopsWell()
}

// A partition that goes to another supervisor takes its series along, and comes
// with its lag.
func TestSeriesOfARebalance(t *testing.T) {
	t.Parallel()
	b := newBrokerWith(t, 2)
	h := newHeld(t)
	command := misbehaves(t, "hold", "--until", h.path)
	first := b.runCase(nil, nil, command)
	one := statusOf(first)
	for partition := range int32(2) {
		b.put(&kgo.Record{Partition: partition}, &kgo.Record{Partition: partition})
	}
	b.lagIs(one, 0, 2)
	b.lagIs(one, 1, 2)
	second := b.runCase(nil, nil, command)
	two := statusOf(second)
	if one == two {
		t.Fatalf("both answer at %s", one)
	}
	has := func(url string) (partitions string) {
		m := metrics(t, url)
		for partition := range int32(2) {
			if _, ok := m[fmt.Sprintf(seriesLag, partition)]; ok {
				partitions += fmt.Sprint(partition)
			}
		}
		return partitions
	}
	eventually(t, "each has one partition", func() bool { return len(has(one)) == 1 && len(has(two)) == 1 && has(one) != has(two) })
	theirs, err := strconv.Atoi(has(two))
	if err != nil {
		t.Fatal(err)
	}
	b.lagIs(two, int32(theirs), 2)
	for i := range 3 {
		b.put(&kgo.Record{Partition: int32(theirs)})
		b.lagIs(two, int32(theirs), float64(3+i))
	}
	h.all()
	b.lagSoon(one, int32(1-theirs), 0)
	b.lagSoon(two, int32(theirs), 0)
	second.stopsWell()
	eventually(t, "the first has both again", func() bool { return has(one) == "01" })
	b.lagIs(one, 0, 0)
	b.lagIs(one, 1, 0)
	if got := metrics(t, one)[`ankka_flow_rebalances_total{inlet="in"}`]; got < 3 {
		t.Errorf("%v rebalances, want 3 at least", got)
	}
	first.stopsWell()
}

// lagSoon waits for a lag that takes its time to become so.
func (b *caseBroker) lagSoon(url string, partition int32, n float64) {
	b.t.Helper()
	series := fmt.Sprintf(seriesLag, partition)
	eventually(b.t, fmt.Sprintf("the lag of partition %d is %v", partition, n), func() bool {
		got, ok := metrics(b.t, url)[series]
		return ok && got == n
	})
}

// What the process reports with a batch counts when the batch commits, once,
// though it is reported twice; and survives the process.
func TestReportsOfTheProcess(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	script, err := filepath.Abs("testdata/report.py")
	if err != nil {
		t.Fatal(err)
	}
	p := b.runCase(nil, nil, []string{"python3", "-B", script})
	url := statusOf(p)
	pid := p.await(`process +pid (\d+):`)[1]
	b.put(&kgo.Record{Value: []byte("fail")}, &kgo.Record{Value: []byte("v")})
	b.awaitCommit(2)
	const seen = `ankka_flow_process_records_total{kind="seen"}`
	eventually(t, "the reported 2 records", func() bool { return metrics(t, url)[seen] == 2 })
	at := p.count()
	kill(t, pid)
	p.awaitFrom(at, `ready +conversation`)
	b.put(&kgo.Record{Value: []byte("v")})
	b.awaitCommit(3)
	eventually(t, "the reported 3 records", func() bool { return metrics(t, url)[seen] == 3 })
	if got := metrics(t, url)["ankka_flow_process_batches"]; got != 1 {
		t.Errorf("the gauge of the new process is %v, want 1", got)
	}
	p.stopsWell()
}

// Ready from the running conversation to the failure, alive all the time, over
// HTTP, as files and by the command; nothing when it is over, or killed.
func TestProbes(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	o := programOptions{dir: b.dir}
	probe := func(want int, args ...string) {
		t.Helper()
		code, stdout, stderr := runProgram(t, o, append([]string{"probe"}, args...)...)
		if code != want || stdout != "" || (stderr == "") != (want == 0) {
			t.Errorf("probe %q: %d %q %q, want %d", args, code, stdout, stderr, want)
		}
	}
	probe(1, "ready")
	probe(1, "live")
	probe(2, "alive")
	probe(2)
	p := b.runCase([]string{"FLOW_RECONNECT_MAX_BACKOFF=30s"}, []string{"--watch", "--watch-path", b.dir}, misbehaves(t, "exit-in-batch", "--code", "3"))
	url := statusOf(p)
	eventually(t, "ready as a file", func() bool {
		code, _, _ := runProgram(t, o, "probe", "ready")
		return code == 0
	})
	probe(0, "live")
	if code, body := get(t, url+"/readyz"); code != http.StatusOK || body != "ready\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	b.putN(1)
	p.await(`waiting +for the next save`)
	if code, body := get(t, url+"/readyz"); code != http.StatusServiceUnavailable || !strings.HasPrefix(body, "not ready: ") {
		t.Errorf("/readyz after the failure: %d %q", code, body)
	}
	if code, body := get(t, url+"/livez"); code != http.StatusOK || body != "alive\n" {
		t.Errorf("/livez after the failure: %d %q", code, body)
	}
	probe(1, "ready")
	probe(0, "live")
	stale := filepath.Join(b.dir, runDir, "killed")
	if err := os.MkdirAll(stale, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(stale, observe.AliveFile), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	probe(2, "live") // which of the two?
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(stale, observe.AliveFile), long, long); err != nil {
		t.Fatal(err)
	}
	probe(0, "live") // the other was killed
	p.stopsWell()
	probe(1, "ready")
	probe(1, "live")

	dir := t.TempDir()
	p = b.runCase([]string{"FLOW_STATE_DIR=" + dir}, nil, misbehaves(t, "good"))
	statusOf(p)
	eventually(t, "ready in FLOW_STATE_DIR", func() bool {
		code, _, _ := runProgram(t, o, "probe", "ready", "--state-dir", dir)
		return code == 0
	})
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	old := time.Now().Add(-2 * observe.AliveWithin) // as it is some time later
	if err := os.Chtimes(filepath.Join(dir, observe.AliveFile), old, old); err != nil {
		t.Fatal(err)
	}
	probe(1, "ready", "--state-dir", dir)
	probe(1, "live", "--state-dir", dir)
}

// A supervisor whose loop does not turn is neither alive nor ready, in seconds; when it
// turns again it is both.
func TestAFrozenSupervisorIsNotAlive(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	p := b.runCase(nil, nil, misbehaves(t, "good"))
	statusOf(p)
	probes := func(code int, says string) {
		t.Helper()
		for _, what := range []string{"live", "ready"} {
			eventually(t, fmt.Sprintf("probe %s gives %d", what, code), func() bool {
				got, _, stderr := runProgram(t, programOptions{dir: b.dir}, "probe", what)
				return got == code && strings.Contains(stderr, says)
			})
		}
	}
	probes(0, "")
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	probes(1, "loop has not turned for")
	if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	probes(0, "")
	p.stopsWell()
}

// Nothing that can be asked for has a record's key, value or header.
func TestNothingShowsAValue(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.put(&kgo.Record{Key: []byte("pl4nted-key"), Value: []byte("pl4nted-value"), Headers: []kgo.RecordHeader{{Key: "pl4nted", Value: []byte("pl4nted")}}})
	p := b.runCase([]string{"SOME_PASSWORD=pl4nted"}, nil, misbehaves(t, "fail-first"))
	url := statusOf(p)
	b.awaitCommit(1)
	for _, path := range []string{"/", "/metrics", "/status.json", "/readyz", "/livez"} {
		if _, body := get(t, url+path); strings.Contains(body, "pl4nted") {
			t.Errorf("%s shows what was planted: %s", path, body)
		}
	}
	var st observe.Status
	_, body := get(t, url+"/status.json")
	if err := json.Unmarshal([]byte(body), &st); err != nil {
		t.Fatal(err)
	}
	if st.Streamlet != "case" || st.Batches.CommittedRecordsIn != 1 || st.Failures != 1 || len(st.Partitions) != 1 || *st.Partitions[0].Lag != 0 {
		t.Errorf("%+v", st)
	}
	var kinds []string
	for _, e := range st.Events {
		kinds = append(kinds, e.Kind)
	}
	if got := strings.Join(kinds, " "); got != "failure rebalance start" {
		t.Errorf("what happened: %s", got)
	}
	p.stopsWell()
}

// Outside containers only this machine can ask; in Kubernetes everybody can, at
// the one port that is configured.
func TestMetricsPort(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	outside, err := openObserving(port, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("a port that is taken, outside containers: %v", err)
	}
	if at := outside.listener.Addr().(*net.TCPAddr); at.Port == port || !at.IP.IsLoopback() {
		t.Errorf("outside containers it listens at %v", at)
	}
	outside.close()
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
	if _, err := openObserving(port, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a port that is taken, in Kubernetes, is no error")
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	inside, err := openObserving(port, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if at := inside.listener.Addr().(*net.TCPAddr); at.Port != port || !at.IP.IsUnspecified() {
		t.Errorf("in Kubernetes it listens at %v", at)
	}
	inside.close()
	for _, bad := range []int{-1, 65536} {
		if _, err := openObserving(bad, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("port %d is taken as one", bad)
		}
	}
}

// --metrics-port 0 answers nobody, and the line ready says the conversation.
func TestMetricsPortZero(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	p := b.runCase([]string{"FLOW_METRICS_PORT=0"}, nil, misbehaves(t, "good"))
	p.await(`ready +conversation 1 runs$`)
	p.stopsWell()
	if re := regexp.MustCompile(`http://`); re.MatchString(p.stderr()) {
		t.Errorf("an address is named: %s", p.stderr())
	}
}
