package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/scripts/checker"
)

const (
	advIn    = "adversary.in"
	advOut   = "adversary.out"
	advOther = "adversary.other"
	advGroup = "adversary.adversary.in"
	advKeys  = 40
)

// behaviour is what testdata/adversary_streamlet.py is told.
type behaviour struct {
	Fan          bool    `json:"fan,omitempty"`
	Asynchronous bool    `json:"asynchronous,omitempty"`
	Sleep        float64 `json:"sleep,omitempty"`
	Fail         int     `json:"fail,omitempty"`
	Crash        int     `json:"crash,omitempty"`
	Tries        int     `json:"tries,omitempty"`
	State        string  `json:"state,omitempty"`
}

// adversary is one cluster with its supervisors and what was seen of them.
type adversary struct {
	t       *testing.T
	ctx     context.Context
	random  *rand.Rand
	net     *flaky
	cluster *kfake.Cluster
	does    behaviour
	env     []string
	mark    string // in the environment of everything we start
	writer  *kgo.Client
	reader  *kgo.Client
	admin   *kadm.Client
	inputs  []proofInput
	commits *commitWatch
	members []*member
	faults  []*kfake.FaultHandle
}

// adversarySeed is printed, and given by ADVERSARY_SEED to choose the same
// moments again.
func adversarySeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("ADVERSARY_SEED"); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("ADVERSARY_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("ADVERSARY_SEED=%d", seed)
	return seed
}

// startAdversary makes a cluster of three brokers and 8 partitions an inlet.
func startAdversary(t *testing.T, does behaviour, env ...string) *adversary {
	t.Helper()
	seed := adversarySeed(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute+adversaryTime())
	t.Cleanup(cancel)
	does.State = t.TempDir()
	a := &adversary{
		t: t, ctx: ctx, random: rand.New(rand.NewPCG(seed, 1)), net: newFlaky(), does: does, env: env,
		mark: fmt.Sprintf("ADVERSARY_MARK=%s-%d", t.Name(), seed),
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(3), kfake.ListenFn(a.net.listen), kfake.GroupMinSessionTimeout(time.Second),
		kfake.SeedTopics(8, advIn, advOther), kfake.SeedTopics(3, advOut), kfake.SleepOutOfOrder())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	a.cluster = cluster
	stream := checker.Stream{Group: advGroup, Inlet: advIn, Outlets: []checker.Outlet{
		outlet(advOut, 3, func(in *kgo.Record) *kgo.Record { return in }),
	}}
	if does.Fan {
		stream.Outlets = append(stream.Outlets, outlet(advOther, 8, func(in *kgo.Record) *kgo.Record {
			return &kgo.Record{Key: in.Key, Value: append(slices.Clone(in.Value), "|copy"...), Headers: in.Headers}
		}))
	}
	a.commits = watchCommits(cluster, []checker.Stream{stream})
	brokers := kgo.SeedBrokers(cluster.ListenAddrs()...)
	if a.writer, err = kgo.NewClient(brokers, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), kgo.MetadataMinAge(50*time.Millisecond), kgo.MaxProduceRequestsInflightPerBroker(1)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.writer.Close)
	if a.reader, err = kgo.NewClient(brokers); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.reader.Close)
	a.admin = kadm.NewClient(a.reader)
	return a
}

// feed writes n records, a few at a time.
func (a *adversary) feed(n int) {
	a.t.Helper()
	for end := len(a.inputs) + n; len(a.inputs) < end; {
		var records []*kgo.Record
		for range min(20, end-len(a.inputs)) {
			number := len(a.inputs) + len(records)
			records = append(records, &kgo.Record{
				Topic: advIn, Key: []byte("key-" + strconv.Itoa(number%advKeys)), Value: []byte(fmt.Sprintf(`{"number":%d}`, number)),
				Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(strconv.Itoa(number))}},
			})
		}
		if err := a.writer.ProduceSync(a.ctx, records...).FirstErr(); err != nil {
			a.t.Fatalf("feeding: %v", err)
		}
		for _, r := range records {
			a.inputs = append(a.inputs, proofInput{number: len(a.inputs), partition: r.Partition, offset: r.Offset, record: r})
		}
	}
}

// fault is cluster.Fault until calm.
func (a *adversary) fault(faults ...kfake.Fault) *kfake.FaultHandle {
	h := a.cluster.Fault(faults...)
	a.faults = append(a.faults, h)
	return h
}

// calm ends every fault and lets the network be.
func (a *adversary) calm() {
	for _, h := range a.faults {
		h.Remove()
	}
	a.net.refuse(false)
	a.net.hold(false)
	a.net.lose(0)
}

// pause lets time go by while records flow: how long is the adversary's
// choice, and nothing is waited for.
func (a *adversary) pause(least, most time.Duration) {
	timer := time.NewTimer(least + time.Duration(a.random.Int64N(int64(most-least)+1)))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.ctx.Done():
	}
}

// until asks again and again, and fails the test at its limit.
func (a *adversary) until(what string, limit time.Duration, ok func() bool) {
	a.t.Helper()
	ticker, timer := time.NewTicker(20*time.Millisecond), time.NewTimer(limit)
	defer ticker.Stop()
	defer timer.Stop()
	for !ok() {
		select {
		case <-ticker.C:
		case <-timer.C:
			a.t.Fatalf("%s: not within %v", what, limit)
		}
	}
}

// awaitAll waits until everything that was fed is committed.
func (a *adversary) awaitAll(limit time.Duration) {
	a.t.Helper()
	ends := map[int32]int64{}
	for _, in := range a.inputs {
		ends[in.partition] = max(ends[in.partition], in.offset+1)
	}
	var missing string
	began := time.Now()
	a.until("everything is committed", limit, func() bool {
		missing = ""
		info := a.cluster.GroupInfo(advGroup)
		for p, end := range ends {
			var at int64 = -1
			if info != nil {
				if c, ok := info.Commits[advIn][p]; ok {
					at = c.Offset
				}
			}
			if at > end {
				a.t.Fatalf("partition %d is committed at %d, behind its end %d", p, at, end)
			}
			if at < end {
				missing += fmt.Sprintf(" %d: %d of %d;", p, at, end)
			}
		}
		if missing != "" && time.Since(began) > limit-50*time.Millisecond {
			a.t.Errorf("not committed:%s", missing)
			if info != nil {
				a.t.Errorf("group: %s, generation %d, members %+v", info.State, info.Epoch, info.Members)
			}
			return true
		}
		return missing == ""
	})
	if a.t.Failed() {
		a.t.FailNow()
	}
}

// strictness is what a check allows.
type strictness struct {
	// once: nothing is written twice.
	once bool
	// partly: not everything has been handled yet.
	partly bool
}

// check reads the logs and has them judged with every commit seen.
func (a *adversary) check(s strictness) *checker.Report {
	a.t.Helper()
	for n, m := range a.members {
		// A redelivery may repeat what was written and not committed: a session
		// that a busy machine let run out is the one fault that is not ours.
		if s.once && m.count("the group's generation has ended")+m.count("every partition is lost") > 0 {
			a.t.Logf("member %d lost its generation: records may come again", n)
			s.once = false
		}
	}
	var but []checker.Kind
	if s.partly {
		but = append(but, checker.Lost)
	}
	report := a.commits.check(a.ctx, a.t, but...)
	if s.once && report.Repeats > 0 {
		a.t.Errorf("%d records were written twice", report.Repeats)
	}
	if report.Inputs != len(a.inputs) {
		a.t.Errorf("%d records were fed, the inlet's log has %d", len(a.inputs), report.Inputs)
	}
	return report
}

// member is one supervisor, in a directory of its own: a static member, or a
// dynamic one as in a container.
type member struct {
	a       *adversary
	dir     string
	dynamic bool
	cmd     *exec.Cmd
	exited  chan struct{}

	mu      sync.Mutex
	log     bytes.Buffer
	readies int
	pid     int
	peak    int // VmHWM in KiB, of every start
}

// launch starts a supervisor. ADVERSARY_LOGS names a folder that gets the
// logs of all of them.
func (a *adversary) launch(dynamic bool) *member {
	a.t.Helper()
	m := &member{a: a, dir: a.t.TempDir(), dynamic: dynamic}
	a.members = append(a.members, m)
	m.start()
	a.t.Cleanup(func() {
		m.kill()
		m.mu.Lock()
		defer m.mu.Unlock()
		n := slices.Index(a.members, m)
		if dir := os.Getenv("ADVERSARY_LOGS"); dir != "" {
			path := filepath.Join(dir, fmt.Sprintf("%s-%d.log", strings.ReplaceAll(a.t.Name(), "/", "-"), n))
			if err := os.WriteFile(path, m.log.Bytes(), 0o644); err != nil {
				a.t.Error(err)
			}
		}
		if a.t.Failed() {
			a.t.Logf("the log of member %d ends:\n%s", n, tail(m.log.Bytes(), 3000))
		}
	})
	return m
}

func (m *member) start() {
	m.a.t.Helper()
	script, err := filepath.Abs("testdata/adversary_streamlet.py")
	if err != nil {
		m.a.t.Fatal(err)
	}
	does, err := json.Marshal(m.a.does)
	if err != nil {
		m.a.t.Fatal(err)
	}
	m.cmd = exec.Command(binary, "run", "-b", strings.Join(m.a.cluster.ListenAddrs(), ","), "--log-format", "json", "--", "python3", script)
	m.cmd.Dir = m.dir
	m.cmd.Env = append(cleanEnvironment(), "PYTHONPATH="+filepath.Join(repository, "sdk/python/src"), m.a.mark, "ADVERSARY="+string(does),
		"FLOW_SESSION_TIMEOUT=2s", "FLOW_RECONNECT_MAX_BACKOFF=500ms", "FLOW_STOP_TIMEOUT=10s",
		"FLOW_METRICS_PORT=0") // in a container a taken port is an error, and here are many of them
	if m.dynamic {
		m.cmd.Env = append(m.cmd.Env, "KUBERNETES_SERVICE_HOST=x")
	}
	m.cmd.Env = append(m.cmd.Env, m.a.env...)
	out, err := m.cmd.StderrPipe()
	if err != nil {
		m.a.t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		m.a.t.Fatal(err)
	}
	exited, cmd := make(chan struct{}), m.cmd
	m.exited = exited
	go func() { // ends with the supervisor; awaited through exited
		defer close(exited)
		decoder := json.NewDecoder(out)
		for {
			var raw json.RawMessage
			if decoder.Decode(&raw) != nil {
				break
			}
			m.note(raw)
		}
		_ = cmd.Wait() // the tests look at ProcessState
	}()
}

func (m *member) note(raw json.RawMessage) {
	var line struct{ Msg, Event string }
	_ = json.Unmarshal(raw, &line) // what is no log line has no event
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log.Write(append(raw, '\n'))
	if found := pidLine.FindStringSubmatch(line.Msg); line.Event == "process" && found != nil {
		m.pid, _ = strconv.Atoi(found[1])
	}
	if line.Event == "ready" {
		m.readies++
	}
}

// count is how often the log has a text so far.
func (m *member) count(text string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return bytes.Count(m.log.Bytes(), []byte(text))
}

func (m *member) signal(s syscall.Signal) {
	if s == syscall.SIGTERM {
		m.measure()
	}
	_ = m.cmd.Process.Signal(s) // one that is gone needs none
}

// measure notes the most memory that the supervisor has had.
func (m *member) measure() {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", m.cmd.Process.Pid))
	if err != nil {
		return // gone
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			m.peak = max(m.peak, n)
		}
	}
}

func (m *member) kill() {
	m.signal(syscall.SIGKILL)
	<-m.exited
}

// killProcess kills the member's newest streamlet.
func (m *member) killProcess() {
	m.mu.Lock()
	pid := m.pid
	m.mu.Unlock()
	// Reaped pids may be another's: only one that bears our mark is killed.
	if environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); pid > 0 && err == nil && bytes.Contains(environ, []byte(m.a.mark)) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// stop asks for the end and wants exit 0.
func (m *member) stop(limit time.Duration) {
	m.a.t.Helper()
	m.signal(syscall.SIGTERM)
	m.ended(limit, 0)
}

func (m *member) ended(limit time.Duration, code int) {
	m.a.t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-m.exited:
	case <-timer.C:
		m.a.t.Fatalf("a stopped supervisor is still there after %v", limit)
	}
	if got := m.cmd.ProcessState.ExitCode(); got != code {
		m.a.t.Errorf("after SIGTERM: exit %d, want %d", got, code)
	}
}

// stopAll stops every member that runs; nothing may be left of them.
func (a *adversary) stopAll() {
	a.t.Helper()
	for _, m := range a.members {
		select {
		case <-m.exited:
		default:
			m.stop(12 * time.Second)
		}
		if m.peak > 300<<10 {
			a.t.Errorf("a supervisor had %d KiB", m.peak)
		}
	}
	a.nothingLeft()
}

// nothingLeft: no process that was started for this test is there.
func (a *adversary) nothingLeft() {
	a.t.Helper()
	a.until("no process is left", 5*time.Second, func() bool { return len(a.processes()) == 0 })
}

// processes are those with our mark; zombies have none.
func (a *adversary) processes() (pids []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		environ, err := os.ReadFile(path)
		if err == nil && bytes.Contains(environ, []byte(a.mark)) {
			pids = append(pids, strings.Split(path, "/")[2])
		}
	}
	return pids
}

// awaitReady waits until the member was ready so many times.
func (m *member) awaitReady(times int) {
	m.a.t.Helper()
	m.a.until("the conversation runs", 30*time.Second, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.readies >= times
	})
}

// adversaryTime is how much longer than usual the tests go on.
func adversaryTime() time.Duration {
	minutes, err := strconv.ParseFloat(os.Getenv("ADVERSARY_MINUTES"), 64)
	if err != nil {
		return 0
	}
	return time.Duration(minutes * float64(time.Minute))
}
