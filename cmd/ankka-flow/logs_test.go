package main

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/cmd/ankka-flow/logevents"
	"ankka-flow/wire"
)

// logLine is a line of the log as JSON.
type logLine map[string]any

func (l logLine) is(event, level string) bool { return l["event"] == event && l["level"] == level }

// logged are the lines of the log so far.
func (p *program) logged() []logLine {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	var lines []logLine
	for _, text := range p.lines {
		line := logLine{}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			p.t.Fatalf("no JSON: %q: %v", text, err)
		}
		lines = append(lines, line)
	}
	return lines
}

// said counts the lines of an event and level that have the words in their text.
func (p *program) said(event, level, words string) (n int) {
	p.t.Helper()
	for _, line := range p.logged() {
		if text, _ := line["msg"].(string); line.is(event, level) && strings.Contains(text, words) {
			n++
		}
	}
	return n
}

// awaitSaid waits for the nth such line.
func (p *program) awaitSaid(n int, event, level, words string) {
	p.t.Helper()
	eventually(p.t, fmt.Sprintf("%d lines %s %s %q", n, level, event, words), func() bool { return p.said(event, level, words) >= n })
}

// isDocumented checks every line against the table of docs/logs.md.
func (p *program) isDocumented() {
	p.t.Helper()
	for _, line := range p.logged() {
		at := slices.IndexFunc(logevents.Events, func(e logevents.Event) bool { return e.Name == line["event"] })
		if at < 0 {
			p.t.Errorf("the event of %v is not documented", line)
			continue
		}
		event := logevents.Events[at]
		if !slices.ContainsFunc(event.Levels, func(l slog.Level) bool { return l.String() == line["level"] }) {
			p.t.Errorf("the level of %v is not documented", line)
		}
		for key := range line {
			if !slices.Contains([]string{"time", "level", "msg", "event"}, key) && !slices.Contains(event.Keys, key) {
				p.t.Errorf("%q of %v is not documented", key, line)
			}
		}
	}
}

// jsonLog is `run` of a case with every line of the log, as JSON.
func (b *caseBroker) jsonLog(env, flags, command []string) *program {
	b.t.Helper()
	flags = append([]string{"--log-level", "debug", "--log-format", "json"}, flags...)
	return b.runCase(env, flags, command)
}

// grain is in every part of the planted records.
const grain = "pl4nted"

func plantedRecord() *kgo.Record {
	return &kgo.Record{Key: []byte(grain + "-key"), Value: []byte(grain + "-value"), Headers: []kgo.RecordHeader{{Key: grain + "-header", Value: []byte(grain + "-content")}}}
}

// Whatever becomes of a record, nothing of it is in a line of ours, at the debug
// level either, nor in the status, the metrics, the trace or the state directory;
// and every line is as documented. What the process prints is passed on: there the
// search finds it.
func TestNothingOfARecordIsLeftBehind(t *testing.T) {
	t.Parallel()
	const printing = "        print(record.key, record.value, record.headers, file=sys.stderr, flush=True)\n"
	big := plantedRecord()
	big.Value = []byte(strings.Repeat(grain, wire.MaxRecord/len(grain)+1))
	for name, c := range map[string]struct {
		command []string
		record  *kgo.Record // nil: plantedRecord
		silent  bool        // the process does not print it
		refuse  int16       // the code of every write
		fails   bool        // for ever; otherwise it is committed
	}{
		"fails":                   {command: sdkStreamlet(t, "import sys", printing+"        raise KeyError('no total')"), fails: true},
		"emits":                   {command: sdkStreamlet(t, "import sys", printing+"        return self.out.emit(record)")},
		"too large for the frame": {command: misbehaves(t, "grow", "--size", fmt.Sprint(wire.MaxRecord)), fails: true},
		"too large for the SDK":   {command: sdkStreamlet(t, "import sys", printing+"        return self.out.emit(record, value=record.value * 500_000)"), fails: true},
		"too large for the topic": {command: misbehaves(t, "grow", "--size", "2000000"), fails: true},
		"too large to come in":    {command: misbehaves(t, "good"), record: big, silent: true, fails: true},
		"refused for a right":     {command: sdkStreamlet(t, "import sys", printing+"        return self.out.emit(record)"), refuse: kerr.TopicAuthorizationFailed.Code, fails: true},
		"refused as it is":        {command: misbehaves(t, "grow", "--size", "100"), refuse: kerr.InvalidRecord.Code, fails: true},
		"crashes":                 {command: sdkStreamlet(t, "import signal, sys", printing+"        signal.raise_signal(signal.SIGSEGV)"), fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := []kfake.Opt{large}
			if name == "too large for the topic" {
				options = nil
			}
			b := newCaseBroker(t, options...)
			if c.refuse != 0 {
				refuseWrites(b.cluster, c.refuse)
			}
			if c.record == nil {
				c.record = plantedRecord()
			}
			b.put(c.record)
			p := b.jsonLog(nil, []string{"--trace", "trace.jsonl"}, c.command)
			url := p.await(`status (http://127\.0\.0\.1:\d+)`)[1]
			switch {
			case c.silent: // its partition is blocked, and not tried again
				p.awaitSaid(1, "failed", "WARN", "limit")
			case c.fails:
				p.awaitSaid(3, "waiting", "INFO", "")
			default:
				b.awaitCommit(1)
			}
			left := map[string]string{}
			for _, path := range []string{"/", "/metrics", "/status.json", "/readyz", "/livez"} {
				_, left[path] = get(t, url+path)
			}
			p.stopsWell()
			p.isDocumented()
			readTree(t, b.dir, left)
			left["trace.jsonl"] = strings.ReplaceAll(left["trace.jsonl"], `"`+grain+`-header"`, `"name"`) // names are there, docs/configuration.md says so
			if !c.silent && !strings.Contains(left["trace.jsonl"], `"batch"`) {
				t.Errorf("the trace lacks the batch: %s", left["trace.jsonl"])
			}
			printed := false
			for _, line := range p.logged() {
				text, _ := json.Marshal(line) // it came from JSON
				if line["event"] == "output" {
					printed = printed || shows(string(text), grain)
					continue
				}
				left[fmt.Sprint("the line ", line)] = string(text)
			}
			if printed == c.silent {
				t.Errorf("the search finds what the process printed: %v", printed)
			}
			for where, text := range left {
				if shows(text, grain) {
					t.Errorf("%s shows the record:\n%s", where, text)
				}
			}
		})
	}
}

// A process that fails or crashes for ever is said once a try, its traceback once.
func TestAFailureThatRepeatsIsSaidOnceATry(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]string{
		"fails":   "        raise KeyError('no total')",
		"crashes": "        print('Traceback of a crash', file=sys.stderr, flush=True); os._exit(3)",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			p := b.jsonLog(nil, nil, sdkStreamlet(t, "import os, sys", handler))
			p.awaitSaid(5, "waiting", "INFO", "")
			p.stopsWell()
			tries, failed := p.said("waiting", "INFO", ""), p.said("failed", "WARN", "")
			ends, tracebacks := p.said("process", "WARN", "exit 3"), p.said("output", "INFO", "Traceback")
			if name == "fails" && (failed < tries || failed > tries+1 || ends != 0 || tracebacks != 1 || p.said("failed", "DEBUG", "Traceback") < tries-1) {
				t.Errorf("%d tries: %d lines of the failure, %d of an end, %d tracebacks", tries, failed, ends, tracebacks)
			}
			if name == "crashes" && (ends < tries || ends > tries+1 || failed != 0 || tracebacks > tries+1) {
				t.Errorf("%d tries: %d lines of the end, %d of the failure, %d tracebacks", tries, ends, failed, tracebacks)
			}
			if n := len(p.logged()); n > 25*tries {
				t.Errorf("%d lines in %d tries, at the debug level", n, tries)
			}
		})
	}
}

// A broker that is away, at the start or later, is said once for a cause, however
// often it is tried; and once that it is back.
func TestABrokerThatIsAwayIsSaidOnce(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]bool{"at the start": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			network := newFlaky()
			b := newCaseBroker(t, kfake.ListenFn(network.listen))
			b.putN(1)
			network.refuse(before)
			p := b.jsonLog(nil, nil, misbehaves(t, "good"))
			if !before {
				eventually(t, "the first record is committed", func() bool { return p.said("committed", "INFO", "1 in, 1 out") == 1 })
				network.refuse(true)
			}
			tried := network.refusals()
			eventually(t, "many tries", func() bool { return network.refusals() >= tried+30 })
			away := p.said("broker", "WARN", b.address()) + p.said("kafka", "WARN", "is away")
			if away < 1 || away > 2 { // while connections are cut, another cause may come first
				t.Errorf("said %d times that it is away", away)
			}
			network.refuse(false)
			b.client, b.admin = franz(t, b.address()) // its connections were cut too
			b.awaitCommit(1)
			p.stopsWell()
			if n := p.said("kafka", "INFO", "is back"); n > 1 || !before && n == 0 {
				t.Errorf("said %d times that it is back", n)
			}
			warnings := 0
			for _, line := range p.logged() {
				if line["level"] == "WARN" || line["level"] == "ERROR" {
					warnings++
				}
			}
			if warnings > 10 {
				t.Errorf("%d warnings of one cause:\n%s", warnings, p.stderr())
			}
			p.isDocumented()
		})
	}
}

// answerCommits answers every commit with a code, while there is one, and counts.
func answerCommits(cluster *kfake.Cluster, code *atomic.Int32) *atomic.Int32 {
	var asked atomic.Int32
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked.Add(1)
		if code.Load() == 0 {
			return nil, nil, false
		}
		response := req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, topic := range req.(*kmsg.OffsetCommitRequest).Topics {
			answer := kmsg.NewOffsetCommitResponseTopic()
			answer.Topic = topic.Topic
			for _, p := range topic.Partitions {
				partition := kmsg.NewOffsetCommitResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, int16(code.Load())
				answer.Partitions = append(answer.Partitions, partition)
			}
			response.Topics = append(response.Topics, answer)
		}
		return response, nil, true
	})
	return &asked
}

// Commits that do not get through are said once, as something that a person has
// to mend where it is a right; and once that they get through again.
func TestRefusedCommitsAreSaidOnce(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code         *kerr.Error
		event, level string
		words, again string
		tries        int32
	}{
		{kerr.CoordinatorLoadInProgress, "group", "WARN", "have not got through", "get through again", 10},
		{kerr.GroupAuthorizationFailed, "kafka", "ERROR", "refuses commits", "", 4},
	} {
		t.Run(c.code.Message, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			var code atomic.Int32
			code.Store(int32(c.code.Code))
			asked := answerCommits(b.cluster, &code)
			p := b.jsonLog(nil, nil, misbehaves(t, "good"))
			p.awaitSaid(1, c.event, c.level, c.words)
			said := asked.Load()
			eventually(t, "more commits", func() bool { return asked.Load() >= said+c.tries })
			code.Store(0)
			b.awaitCommit(1)
			if c.again != "" {
				p.awaitSaid(1, c.event, "INFO", c.again)
			}
			p.stopsWell()
			if n := p.said(c.event, c.level, c.words); n != 1 {
				t.Errorf("said %d times in %d commits", n, asked.Load())
			}
			if n := p.said("group", "INFO", "again"); c.again != "" && n != 1 {
				t.Errorf("said %d times that they get through again", n)
			}
			p.isDocumented()
		})
	}
}

// answered is an answer with an error code to a request, wherever it has its place for one.
func answered(req kmsg.Request, code int16) kmsg.Response {
	answer := req.ResponseKind()
	switch r := answer.(type) {
	case *kmsg.JoinGroupResponse:
		r.ErrorCode = code
	case *kmsg.ListOffsetsResponse:
		for _, t := range req.(*kmsg.ListOffsetsRequest).Topics {
			topic := kmsg.ListOffsetsResponseTopic{Topic: t.Topic}
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.ListOffsetsResponseTopicPartition{Partition: p.Partition, ErrorCode: code, Offset: -1, Timestamp: -1})
			}
			r.Topics = append(r.Topics, topic)
		}
	case *kmsg.FetchResponse:
		for _, t := range req.(*kmsg.FetchRequest).Topics {
			topic := kmsg.FetchResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.FetchResponseTopicPartition{Partition: p.Partition, ErrorCode: code, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1})
			}
			r.Topics = append(r.Topics, topic)
		}
	}
	return answer
}

// What the broker refuses for ever is said once, however often it is asked again: a
// group that refuses us (once for each code), a start that cannot be looked up, a topic
// that may not be read. When it is refused no more, the work goes on.
func TestRefusalsAreSaidOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		key   kmsg.Key
		codes []*kerr.Error // one after another
		level string
		words string // on the line
		tries int32  // of each code
	}{
		"a group":              {kmsg.JoinGroup, []*kerr.Error{kerr.GroupAuthorizationFailed, kerr.InvalidSessionTimeout}, "ERROR", "the group refuses this inlet", 2},
		"a start":              {kmsg.ListOffsets, []*kerr.Error{kerr.UnknownServerError}, "WARN", "the start of a partition cannot be looked up", 8},
		"a start, for a right": {kmsg.ListOffsets, []*kerr.Error{kerr.TopicAuthorizationFailed}, "ERROR", "the start of a partition cannot be looked up", 8},
		"a topic":              {kmsg.Fetch, []*kerr.Error{kerr.TopicAuthorizationFailed}, "ERROR", "cannot be read", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			var code, asked atomic.Int32
			code.Store(int32(c.codes[0].Code))
			b.cluster.ControlKey(c.key.Int16(), func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.cluster.KeepControl()
				if code.Load() == 0 {
					return nil, nil, false
				}
				asked.Add(1)
				return answered(req, int16(code.Load())), nil, true
			})
			p := b.jsonLog(nil, nil, misbehaves(t, "good"))
			for i, one := range c.codes {
				code.Store(int32(one.Code))
				p.awaitSaid(i+1, "kafka", c.level, c.words)
				said := asked.Load()
				eventually(t, "it is asked again", func() bool { return asked.Load() >= said+c.tries })
			}
			code.Store(0)
			b.awaitCommit(1)
			p.stopsWell()
			if n := p.said("kafka", c.level, c.words); n != len(c.codes) {
				t.Errorf("said %d times in %d tries:\n%s", n, asked.Load(), p.stderr())
			}
			p.isDocumented()
		})
	}
}

// What a process says of something that is over is counted, and no line.
func TestStaleEventsAreCountedAndNotSaid(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	p := b.jsonLog(nil, nil, misbehaves(t, "fail-and-talk", "--count", "1000"))
	url := p.await(`status (http://127\.0\.0\.1:\d+)`)[1]
	eventually(t, "3,000 stale events", func() bool { return metrics(t, url)["ankka_flow_stale_events_total"] >= 3000 })
	p.stopsWell()
	if n := len(p.logged()); n > 200 {
		t.Errorf("%d lines", n)
	}
	if regexp.MustCompile(`(?i)stale`).MatchString(p.stderr()) {
		t.Errorf("a stale event is said:\n%s", p.stderr())
	}
	p.isDocumented()
}
