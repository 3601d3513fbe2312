package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const caseLetters = "case.dlq"

// policyEnv is a whole policy, as an operator sets it without touching code.
var policyEnv = []string{
	"FLOW_ERRORS_TOLERANCE=all", "FLOW_ERRORS_RETRY_TIMEOUT=300", "FLOW_ERRORS_RETRY_DELAY_MAX_MS=1000",
	"FLOW_ERRORS_LOG_ENABLE=true", "FLOW_ERRORS_DEADLETTERQUEUE_TOPIC_NAME=" + caseLetters,
	"FLOW_ERRORS_DEADLETTERQUEUE_TOPIC_REPLICATION_FACTOR=1", "FLOW_ERRORS_DEADLETTERQUEUE_CONTEXT_HEADERS_ENABLE=true",
}

// erring runs the streamlet whose records fail, with a policy.
func (b *caseBroker) erring(env, flags []string) *program {
	b.t.Helper()
	script, err := filepath.Abs("testdata/errors_streamlet.py")
	if err != nil {
		b.t.Fatal(err)
	}
	return b.runCase(env, append([]string{"--metrics-port", "0"}, flags...), []string{"python3", script})
}

// putValues writes records with these values to partition 0.
func (b *caseBroker) putValues(values ...string) {
	b.t.Helper()
	var records []*kgo.Record
	for _, v := range values {
		records = append(records, &kgo.Record{Key: []byte("k"), Value: []byte(v)})
	}
	b.put(records...)
}

// letters are the dead letters; none where their topic does not exist.
func (b *caseBroker) letters() []*kgo.Record {
	b.t.Helper()
	ends, err := b.admin.ListEndOffsets(b.ctx, caseLetters)
	if err != nil {
		b.t.Fatal(err)
	}
	if end, _ := ends.Lookup(caseLetters, 0); end.Err != nil || end.Offset == 0 {
		return nil
	}
	return readLogs(b.ctx, b.t, b.cluster.ListenAddrs(), []string{caseLetters})[caseLetters][0]
}

func values(records []*kgo.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Value))
	}
	return strings.Join(out, ",")
}

func headersOf(r *kgo.Record, prefix string) map[string]string {
	out := map[string]string{}
	for _, h := range r.Headers {
		if name, ok := strings.CutPrefix(h.Key, prefix); ok {
			out[name] = string(h.Value)
		}
	}
	return out
}

func (b *caseBroker) mend() {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dir, "mended"), nil, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// The rows of the KIP, end to end: a policy by the environment alone, its dead
// letters and their headers, what is committed, the log and the metrics.
func TestErrorRows(t *testing.T) {
	b := newCaseBroker(t)
	original := []kgo.RecordHeader{{Key: "h", Value: []byte("1")}, {Key: "h", Value: nil}}
	b.putValues("good 1")
	b.put(&kgo.Record{Key: nil, Value: []byte("bad \xff"), Headers: original}, &kgo.Record{Key: []byte("k"), Value: []byte("retry")})
	b.putValues("good 2")
	p := b.erring(policyEnv, []string{"--metrics-port", "2050"})
	url := statusOf(p)
	b.awaitCommit(4)

	if got := values(b.out()); got != "good 1,good 2" {
		t.Errorf("row tolerance: the outlet has %q", got)
	}
	letters := b.letters()
	if values(letters) != "bad \xff,retry" || letters[0].Key != nil || string(letters[1].Key) != "k" {
		t.Fatalf("row deadletterqueue.topic.name: the dead letters are %q", values(letters))
	}
	if got := fmt.Sprint(letters[0].Headers[:2]); got != fmt.Sprint(original) {
		t.Errorf("case 76: its own headers are %s", got)
	}
	testHeaderRows(t, headersOf(letters[0], "__connect.errors."))
	if ours := headersOf(letters[1], "__flow.errors."); ours["attempts"] != "2" || ours["reason"] != "exhausted" || ours["inlet"] != "in" {
		t.Errorf("row retry.timeout: the second says %v", ours)
	}
	p.says("Error encountered in task case.case-0", "topic='case.in', partition=0, offset=1", "Executing stage 'TRANSFORMATION'")
	testMetricRows(t, func() map[string]float64 { return metrics(t, url) })
	p.stopsWell()
	if strings.Contains(p.stderr(), "bad \xff") {
		t.Error("row log.include.messages: a value is in the log")
	}
	topic, err := b.admin.ListTopics(b.ctx, caseLetters)
	if err != nil || len(topic[caseLetters].Partitions) != 1 || topic[caseLetters].Partitions.NumReplicas() != 1 {
		t.Errorf("row replication.factor: %v, %v", topic[caseLetters], err)
	}
}

func testHeaderRows(t *testing.T, have map[string]string) {
	for name, want := range map[string]string{
		"topic": caseIn, "partition": "0", "offset": "1", "connector.name": "case.case", "task.id": "0", "stage": "TRANSFORMATION",
		"class.name": "__main__.Case", "exception.class.name": "ValueError", "exception.message": "it is bad", "exception.stacktrace": "",
	} {
		t.Run("header "+name, func(t *testing.T) {
			got, ok := have[name]
			if name == "exception.stacktrace" {
				ok = ok && strings.Contains(got, "process_record") && strings.HasSuffix(got, "ValueError: it is bad\n")
			} else {
				ok = ok && got == want
			}
			if !ok {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

func testMetricRows(t *testing.T, read func() map[string]float64) {
	const at = `{inlet="in",stage="TRANSFORMATION"}`
	for row, want := range map[string]struct {
		series string
		value  float64
	}{
		"total-record-failures":            {"record_failures_total" + at, 3},
		"total-record-errors":              {"record_errors_total" + at, 2},
		"total-records-skipped":            {`records_skipped_total{inlet="in",reason="dead-letter",stage="TRANSFORMATION"}`, 2},
		"total-retries":                    {"retries_total" + at, 1},
		"total-errors-logged":              {"errors_logged_total" + at, 2},
		"deadletterqueue-produce-requests": {"dead_letters_total" + at, 2},
	} {
		t.Run("metric "+row, func(t *testing.T) {
			series := "ankka_flow_process_" + want.series
			eventually(t, fmt.Sprintf("%s is %v", series, want.value), func() bool { return read()[series] == want.value })
		})
	}
	t.Run("metric last-error-timestamp", func(t *testing.T) {
		if got := read()[`ankka_flow_process_last_error_timestamp_seconds{inlet="in"}`]; got < 1.6e9 {
			t.Errorf("%v", got)
		}
	})
}

// A dead letter that the broker refuses fails the batch: nothing is committed, and
// when it can be written it is, once.
func TestCase68_ADeadLetterThatCannotBeWrittenIsNotLost(t *testing.T) {
	b := newBrokerWith(t, 1, kfake.SeedTopics(1, caseLetters))
	letters, err := b.admin.ListTopics(b.ctx, caseLetters)
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan struct{}, 100)
	mended := make(chan struct{})
	b.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		r := req.(*kmsg.ProduceRequest)
		select {
		case <-mended:
			return nil, nil, false
		default:
		}
		return refuse(r, letters[caseLetters], refused)
	})
	b.putValues("bad 1", "good", "bad 2")
	p := b.erring(policyEnv, nil)
	for range 2 { // the second is of a batch that came again
		select {
		case <-refused:
		case <-b.ctx.Done():
			t.Fatal("no dead letter was written")
		}
	}
	if at := b.committed(0); at != 0 || len(b.letters()) != 0 {
		t.Errorf("committed at %d with %q written", at, values(b.letters()))
	}
	close(mended)
	b.awaitCommit(3)
	p.stopsWell()
	if got := values(b.letters()); got != "bad 1,bad 2" {
		t.Errorf("the dead letters are %q", got)
	}
	if got := values(b.out()); strings.Trim(strings.ReplaceAll(got, "good", ""), ",") != "" || got == "" {
		t.Errorf("the outlet has %q", got)
	}
}

// refuse answers a write to a topic, whatever else is in it, with
// TOPIC_AUTHORIZATION_FAILED; others pass.
func refuse(r *kmsg.ProduceRequest, topic kadm.TopicDetail, told chan<- struct{}) (kmsg.Response, error, bool) {
	if !slices.ContainsFunc(r.Topics, func(t kmsg.ProduceRequestTopic) bool { return t.Topic == topic.Topic || t.TopicID == topic.ID }) {
		return nil, nil, false
	}
	resp := r.ResponseKind().(*kmsg.ProduceResponse)
	for i := range r.Topics {
		t := kmsg.NewProduceResponseTopic()
		t.Topic, t.TopicID = r.Topics[i].Topic, r.Topics[i].TopicID
		for _, p := range r.Topics[i].Partitions {
			answer := kmsg.NewProduceResponseTopicPartition()
			answer.Partition, answer.ErrorCode, answer.BaseOffset = p.Partition, kerr.TopicAuthorizationFailed.Code, -1
			t.Partitions = append(t.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, t)
	}
	select {
	case told <- struct{}{}:
	default:
	}
	return resp, nil, true
}

// waitingEnv is a policy by which a record is tried for ever, an hour apart at last.
var waitingEnv = append(policyEnv[:len(policyEnv):len(policyEnv)], "FLOW_ERRORS_RETRY_TIMEOUT=9223372036854775807", "FLOW_ERRORS_RETRY_DELAY_MAX_MS=3600000")

// A wait holds its partition alone; a stop in it leaves no dead letter and skips
// nothing; the record is handled when its cause is mended.
func TestCase74_AWaitHoldsOnlyItsPartitionAndAStopLeavesNoDeadLetter(t *testing.T) {
	b := newBrokerWith(t, 2)
	b.putValues("good 1", "retry", "good 2")
	p := b.erring(waitingEnv, nil)
	p.await(`ready`)
	b.put(&kgo.Record{Partition: 1, Key: []byte("k"), Value: []byte("good 3")})
	eventually(t, "the other partition goes on", func() bool { return b.committed(1) == 1 })
	if at := b.committed(0); at != 0 || len(b.letters()) != 0 {
		t.Errorf("partition 0 is committed at %d, the dead letters are %q", at, values(b.letters()))
	}
	p.stopsWell()
	if at := b.committed(0); at != 0 || len(b.letters()) != 0 {
		t.Errorf("after the stop, partition 0 is committed at %d, the dead letters are %q", at, values(b.letters()))
	}
	b.mend()
	p = b.erring(waitingEnv, nil)
	b.awaitCommit(3)
	p.stopsWell()
	if letters := b.letters(); len(letters) != 0 {
		t.Errorf("the dead letters are %q", values(letters))
	}
}

// A record that kills the process is given up after so many deliveries, by the
// policy alone, and it alone.
func TestARecordThatKillsTheProcessIsDeadLettered(t *testing.T) {
	b := newCaseBroker(t)
	b.putValues("good 1", "kill", "good 2")
	p := b.erring(append(policyEnv[:len(policyEnv):len(policyEnv)], "FLOW_ERRORS_DELIVERIES_MAX=2"), nil)
	b.awaitCommit(3)
	p.stopsWell()
	letters := b.letters()
	if values(letters) != "kill" {
		t.Fatalf("the dead letters are %q", values(letters))
	}
	if why := headersOf(letters[0], "__flow.errors."); why["reason"] != "killed" {
		t.Errorf("it says %v", why)
	}
	if got := values(b.out()); got != "good 1,good 2" {
		t.Errorf("the outlet has %q", got)
	}
}

// The same from a file, with both spellings; nothing is said of a value.
func TestErrorSettingsFromAFile(t *testing.T) {
	b := newCaseBroker(t)
	file := filepath.Join(b.dir, "policy.yaml")
	text := "errors:\n  tolerance: all\n  errors.deadletterqueue.topic.name: " + caseLetters + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	b.putValues("bad", "good")
	p := b.erring([]string{"FLOW_ERRORS_DEADLETTERQUEUE_TOPIC_REPLICATION_FACTOR=1"}, []string{"-c", file})
	b.awaitCommit(2)
	p.stopsWell()
	if letters := b.letters(); values(letters) != "bad" || len(letters[0].Headers) != 0 {
		t.Errorf("the dead letters are %v", letters)
	}
}

// A replication factor that the cluster cannot give is said at the start.
func TestRowReplicationFactor_IsRefusedAtTheStart(t *testing.T) {
	b := newCaseBroker(t)
	p := b.erring([]string{"FLOW_ERRORS_DEADLETTERQUEUE_TOPIC_NAME=" + caseLetters}, nil)
	p.endsWith(1)
	p.says("deadletterqueue.topic.replication.factor 3")
}
