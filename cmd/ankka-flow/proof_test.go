package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	proofRecords      = 100_000
	proofKeys         = 500
	proofPartitions   = 3
	proofProcessKills = 30
	proofOwnKills     = 10
	proofLimit        = 5 * time.Minute
)

// proofModes are the three streamlets; each reads the whole input as a group
// of its own.
var proofModes = []string{"forward", "fan", "drop"}

// TestProof is the whole promise at once: through kill -9 of the process and
// of the supervisor nothing is lost, nothing is skipped, no key is reordered
// and no offset is committed before its outputs are in the log. The outcome is
// read with franz-go and from the requests that the broker got.
func TestProof(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("PROOF_SEED"); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("PROOF_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("seed %d (PROOF_SEED=%d replays the choice of moments)", seed, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, cancel := context.WithTimeout(context.Background(), proofLimit)
	defer cancel()

	topics := []string{"proof.in"}
	for _, mode := range proofModes {
		topics = append(topics, "proof-"+mode+".out", "proof-"+mode+".other")
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(proofPartitions, topics...))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	watch := watchCommits(cluster, proofStreams())
	brokers := cluster.ListenAddrs()
	inputs := &proofInputs{}

	runs := map[string]*proofRun{}
	for _, mode := range proofModes {
		runs[mode] = startProof(t, mode, brokers)
	}
	killAndFeed(ctx, t, random, brokers, inputs, runs)

	awaitCommitted(ctx, t, brokers, runs)
	for _, mode := range proofModes {
		runs[mode].stop(t)
	}
	report := watch.check(ctx, t)
	proofFigures(t, report, proofRecords)
	t.Logf("%d kills of a process, %d of a supervisor", proofProcessKills, proofOwnKills)
}

// proofInput is one input record as it was written.
type proofInput struct {
	number    int
	partition int32
	offset    int64
	record    *kgo.Record
}

type proofInputs struct {
	all []proofInput // by number
}

func proofRecord(number int) *kgo.Record {
	r := &kgo.Record{
		Topic: "proof.in",
		Key:   []byte("key-" + strconv.Itoa(number%proofKeys)),
		Value: []byte(fmt.Sprintf(`{"number":%d,"pad":"%032d"}`, number, number)),
		Headers: []kgo.RecordHeader{
			{Key: "n", Value: []byte(strconv.Itoa(number))},
			{Key: "n", Value: nil},
			{Key: "\xff", Value: []byte{}},
		},
	}
	switch {
	case number%97 == 0:
		r.Value = nil
	case number%89 == 0:
		r.Value = []byte{}
	}
	return r
}

// killAndFeed writes the input in as many parts as there are kills, and after
// each part kills something at a random moment.
func killAndFeed(ctx context.Context, t *testing.T, random *rand.Rand, brokers []string, inputs *proofInputs, runs map[string]*proofRun) {
	t.Helper()
	writer, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	victims := make([]bool, 0, proofProcessKills+proofOwnKills) // true: the supervisor
	for range proofProcessKills {
		victims = append(victims, false)
	}
	for range proofOwnKills {
		victims = append(victims, true)
	}
	random.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	for i, own := range victims {
		run := runs[proofModes[random.IntN(len(proofModes))]]
		// Every other time as soon as there is a process: in its start, in
		// discovery, while partitions are taken over.
		pid := run.process(ctx, t, i%2 == 0)
		fed := make(chan error, 1)
		go func() { // writes one part; awaited below
			fed <- feed(ctx, writer, inputs, i*proofRecords/len(victims), (i+1)*proofRecords/len(victims))
		}()
		// The moment is what is random here, while records flow; nothing is
		// waited for.
		moment := time.NewTimer(time.Duration(random.IntN(100_000)) * time.Microsecond)
		<-moment.C
		if own {
			run.killSelf(ctx, t)
		} else {
			run.killProcess(pid)
		}
		if err := <-fed; err != nil {
			t.Fatal(err)
		}
	}
}

// feed writes records in small parts, so that they come while things are killed
// and not before.
func feed(ctx context.Context, writer *kgo.Client, inputs *proofInputs, from, to int) error {
	for ; from < to; from += 50 {
		var records []*kgo.Record
		for n := from; n < min(from+50, to); n++ {
			records = append(records, proofRecord(n))
		}
		if err := writer.ProduceSync(ctx, records...).FirstErr(); err != nil {
			return err
		}
		for i, r := range records {
			inputs.all = append(inputs.all, proofInput{number: from + i, partition: r.Partition, offset: r.Offset, record: r})
		}
	}
	return nil
}

// proofRun is one supervisor with its process, started again when it is killed.
type proofRun struct {
	mode    string
	brokers []string
	dir     string
	cmd     *exec.Cmd
	exited  chan struct{}
	state   error

	mu   sync.Mutex
	cond *sync.Cond
	pid  int  // of the newest process; 0 once we killed it
	runs bool // its conversation runs, and we have not killed it
	log  bytes.Buffer
}

var pidLine = regexp.MustCompile(`^pid (\d+): `)

func startProof(t *testing.T, mode string, brokers []string) *proofRun {
	t.Helper()
	r := &proofRun{mode: mode, brokers: brokers, dir: t.TempDir()}
	r.cond = sync.NewCond(&r.mu)
	r.start(t)
	t.Cleanup(func() {
		if r.cmd.Process != nil {
			_ = r.cmd.Process.Kill()
			<-r.exited
		}
		if t.Failed() {
			t.Logf("the log of %s:\n%s", mode, tail(r.log.Bytes(), 6000))
		}
	})
	return r
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return b
}

func (r *proofRun) start(t *testing.T) {
	t.Helper()
	script, err := filepath.Abs("testdata/proof_streamlet.py")
	if err != nil {
		t.Fatal(err)
	}
	r.cmd = exec.Command(binary, "run", "-b", r.brokers[0], "--log-format", "json", "--topic", "in=proof.in", "--", "python3", script, r.mode)
	r.cmd.Dir = r.dir
	r.cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(repository, "sdk/python/src"), "FLOW_SESSION_TIMEOUT=6s", "FLOW_RECONNECT_MAX_BACKOFF=500ms")
	out, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	r.exited = exited
	cmd := r.cmd
	go func() { // ends with the supervisor; awaited through exited
		defer close(exited)
		r.read(out)
		r.state = cmd.Wait()
	}()
}

func (r *proofRun) read(out io.Reader) {
	decoder := json.NewDecoder(out)
	for {
		var line struct{ Msg, Event string }
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return
		}
		_ = json.Unmarshal(raw, &line) // what is no log line has no event
		r.mu.Lock()
		r.log.Write(append(raw, '\n'))
		if m := pidLine.FindStringSubmatch(line.Msg); line.Event == "process" && m != nil {
			r.pid, _ = strconv.Atoi(m[1])
			r.runs = false
			r.cond.Broadcast()
		}
		if line.Event == "ready" {
			r.runs = true
			r.cond.Broadcast()
		}
		r.mu.Unlock()
	}
}

// process waits for a process that we have not killed, and for its conversation
// where that is to run, and returns its pid.
func (r *proofRun) process(ctx context.Context, t *testing.T, running bool) int {
	t.Helper()
	stop := context.AfterFunc(ctx, r.cond.Broadcast)
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.pid == 0 || running && !r.runs {
		if ctx.Err() != nil {
			t.Fatalf("%s: no conversation within the test's time", r.mode)
		}
		r.cond.Wait()
	}
	return r.pid
}

func (r *proofRun) killProcess(pid int) {
	r.mu.Lock()
	if r.pid == pid {
		r.pid, r.runs = 0, false
	}
	r.mu.Unlock()
	_ = syscall.Kill(pid, syscall.SIGKILL) // a child of our child: nobody else has its pid before it is reaped
}

func (r *proofRun) killSelf(ctx context.Context, t *testing.T) {
	t.Helper()
	_ = r.cmd.Process.Kill()
	select {
	case <-r.exited:
	case <-ctx.Done():
		t.Fatalf("%s: the killed supervisor is still there", r.mode)
	}
	r.mu.Lock()
	r.pid, r.runs = 0, false
	r.mu.Unlock()
	r.start(t)
}

func (r *proofRun) stop(t *testing.T) {
	t.Helper()
	_ = r.cmd.Process.Signal(syscall.SIGTERM)
	<-r.exited
	if r.state != nil {
		t.Errorf("%s: after SIGTERM: %v, want exit 0", r.mode, r.state)
	}
}

// awaitCommitted waits until every group has committed the ends of the input.
func awaitCommitted(ctx context.Context, t *testing.T, brokers []string, runs map[string]*proofRun) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	ends, err := admin.ListEndOffsets(ctx, "proof.in")
	if err != nil {
		t.Fatal(err)
	}
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for _, run := range runs {
		for !committedTo(ctx, t, admin, "proof-"+run.mode+".proof-"+run.mode+".in", ends) {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				t.Fatalf("%s: not everything is committed within the test's time", run.mode)
			}
		}
	}
}

func committedTo(ctx context.Context, t *testing.T, admin *kadm.Client, group string, ends kadm.ListedOffsets) bool {
	t.Helper()
	committed, err := admin.FetchOffsets(ctx, group)
	if err != nil {
		return false
	}
	done := true
	ends.Each(func(end kadm.ListedOffset) {
		at, ok := committed.Lookup(end.Topic, end.Partition)
		if !ok || at.At < end.Offset {
			done = false
		}
		if ok && at.At > end.Offset {
			t.Errorf("%s: partition %d is committed at %d, behind the end %d", group, end.Partition, at.At, end.Offset)
		}
	})
	return done
}

// proofLogs is every output topic, by topic and partition, in log order.
type proofLogs map[string]map[int32][]*kgo.Record

func readLogs(ctx context.Context, t *testing.T, brokers, topics []string) proofLogs {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topics...)
	if err != nil {
		t.Fatal(err)
	}
	var left int64
	ends.Each(func(end kadm.ListedOffset) { left += end.Offset })
	logs := proofLogs{}
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if logs[r.Topic] == nil {
				logs[r.Topic] = map[int32][]*kgo.Record{}
			}
			logs[r.Topic][r.Partition] = append(logs[r.Topic][r.Partition], r)
			left--
		})
	}
	return logs
}

// proofStreams is what the streamlets must do, as the checker takes it.
func proofStreams() []checker.Stream {
	var streams []checker.Stream
	for _, mode := range proofModes {
		name := "proof-" + mode
		out := outlet(name+".out", proofPartitions, func(in *kgo.Record) *kgo.Record {
			if n, err := strconv.Atoi(checker.ID(in)); mode == "drop" && err == nil && n%3 != 0 {
				return nil
			}
			return in
		})
		other := outlet(name+".other", proofPartitions, func(in *kgo.Record) *kgo.Record {
			if mode != "fan" {
				return nil
			}
			return &kgo.Record{Key: in.Key, Value: append(slices.Clone(in.Value), "|copy"...), Headers: in.Headers}
		})
		streams = append(streams, checker.Stream{Group: name + "." + name + ".in", Inlet: "proof.in", Outlets: []checker.Outlet{out, other}})
	}
	return streams
}

// proofFigures: all of the input was there to be judged, once for each mode.
func proofFigures(t *testing.T, r *checker.Report, records int) {
	t.Helper()
	if r.Inputs != records*len(proofModes) {
		t.Errorf("%d records were judged, want %d", r.Inputs, records*len(proofModes))
	}
	t.Logf("%d records in, %d due, %d written, %d repeats, %d of them late, %d commits", records, r.Due, r.Written, r.Repeats, len(r.Late), r.Commits)
}

func compareRecord(t *testing.T, topic string, got, want *kgo.Record, partition int32) {
	t.Helper()
	if difference := checker.Compare(got, want); difference != "" {
		t.Fatalf("%s/%d@%d: %s", topic, got.Partition, got.Offset, difference)
	}
	if got.Partition != partition {
		t.Fatalf("%s/%d@%d: its key belongs on partition %d", topic, got.Partition, got.Offset, partition)
	}
}
