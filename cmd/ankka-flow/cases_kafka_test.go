package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A fresh group on a topic with 100 records begins at the first.
func TestCase46_AFreshGroupBeginsAtTheFirst(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(100)
	p := b.runCase(nil, []string{"--until-end"}, misbehaves(t, "good"))
	p.endsWith(0)
	out := b.out()
	if len(out) != 100 || string(out[0].Key) != "k0" || string(out[99].Key) != "k99" {
		t.Fatalf("written: %s", keys(out))
	}
	b.awaitCommit(100)
}

// SIGTERM, or Ctrl-C, with a batch in the process, one prefetched and one being
// written: what is with the process is finished, nothing is lost, at most one
// batch is repeated.
func TestCase47_StopWithWorkEverywhere(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	hold := newHeld(t)
	// The first write is held until the stop was asked for.
	writing, release := make(chan struct{}), make(chan struct{})
	first := true
	b.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if req.(*kmsg.ProduceRequest).Topics[0].Topic == caseOut && first {
			first = false
			close(writing)
			b.cluster.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	p := b.runCase(nil, nil, misbehaves(t, "hold", "--until", hold.path))
	p.await(`holding batch 1`)
	b.putN(1) // prefetched
	hold.one()
	<-writing
	at := p.count()
	p.await(`holding batch 2`)
	b.putN(1)
	p.interrupt()
	p.awaitFrom(at, `stopping`)
	close(release)
	hold.all()
	p.endsWith(0)
	done := b.committed(0)
	if done < 2 {
		t.Errorf("committed at %d: the batches that were begun were not finished", done)
	}
	if n := len(b.out()); int64(n) != done {
		t.Errorf("%d records are written and %d committed", n, done)
	}
	p = b.runCase(nil, []string{"--until-end"}, misbehaves(t, "good"))
	p.endsWith(0)
	b.awaitCommit(3)
	if n := len(b.out()); n < 3 || n > 4 {
		t.Errorf("%d records are written, want 3, or 4 with a repeat", n)
	}
}

// The broker is away, killed in the middle of things, with the process idle and
// in mid-batch; back at its address with its data, everything goes on by itself.
func TestCase48_TheBrokerIsAway(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address := freeAddress(t)
	broker := func() *program {
		p := startProgram(t, programOptions{dir: dir}, "--log-format", "text", "broker", "--listen", address, "--topic", caseIn+":1", "--topic", caseOut+":1")
		p.await(`broker +embedded at ` + address)
		return p
	}
	kill := func(p *program) {
		if err := p.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-p.exited
	}
	put := func(key string) {
		code, _, stderr := runProgram(t, programOptions{dir: dir, stdin: "value of " + key}, "produce", "-b", address, "-k", key, "--raw", caseIn)
		if code != 0 {
			t.Fatalf("produce: exit code %d: %s", code, stderr)
		}
	}
	out := func() string {
		code, stdout, stderr := runProgram(t, programOptions{dir: dir}, "consume", "-b", address, "-e", "--values", caseOut)
		if code != 0 {
			t.Fatalf("consume: exit code %d: %s", code, stderr)
		}
		return stdout
	}
	hold := newHeld(t)
	first := broker()
	p := startProgram(t, programOptions{dir: dir, env: caseEnv()}, append([]string{"--log-format", "text", "run", "-b", address, "--"}, misbehaves(t, "hold", "--until", hold.path)...)...)
	p.await(`ready`)
	at := p.count()
	kill(first) // idle
	p.awaitFrom(at, address+`.*refused`)
	second := broker()
	put("a")
	p.await(`holding batch 1`)
	at = p.count()
	kill(second) // in mid-batch
	hold.one()
	p.awaitFrom(at, address+`.*refused`)
	// From here on nothing holds a batch: this broker has forgotten its groups,
	// and the batch may come again.
	hold.all()
	third := broker()
	p.await(`committed +1 in, 1 out`)
	put("b")
	p.await(`committed +2 in, 2 out`)
	p.stopsWell()
	text := out()
	if !strings.Contains(text, "value of a\n") || !strings.Contains(text, "value of b\n") {
		t.Errorf("written: %q", text)
	}
	if strings.Count(p.stderr(), "INF process    pid") != 1 {
		t.Error("the process was started again for the broker's sake")
	}
	third.stopsWell()
}

// freeAddress is one where nothing listens now.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// A broker that is not there at the start: said at once, with address and cause,
// tried again, and Ctrl-C ends it with 0.
func TestCase48_NoBrokerAtTheStart(t *testing.T) {
	t.Parallel()
	address := freeAddress(t)
	p := startProgram(t, programOptions{dir: t.TempDir(), env: caseEnv()}, append([]string{"--log-format", "text", "run", "-b", address, "--"}, misbehaves(t, "good")...)...)
	p.await(`WRN broker +.*` + address + `.*refused.*trying again`)
	p.stopsWell()
	for _, command := range [][]string{{"consume", "-b", address, "t"}, {"produce", "-b", address, "t"}} {
		p := startProgram(t, programOptions{dir: t.TempDir(), stdin: "{}\n"}, command...)
		p.endsWith(1)
		p.says("ankka-flow: ", address, "refused")
	}
}

// Nulls, empties, duplicate and odd headers through an identity streamlet: byte
// for byte, forwarded by the SDK, forwarded raw and emitted as bytes.
func TestCase49_ByteForByte(t *testing.T) {
	t.Parallel()
	empty := []byte{}
	records := func() []*kgo.Record {
		return []*kgo.Record{
			{Key: []byte("tombstone"), Value: nil},
			{Key: []byte("empty value"), Value: empty},
			{Key: nil, Value: []byte("null key")},
			{Key: empty, Value: []byte("empty key")},
			{Key: nil, Value: nil},
			{Key: empty, Value: empty, Headers: []kgo.RecordHeader{{Key: "", Value: empty}}},
			{Key: []byte("headers"), Value: []byte("v"), Headers: []kgo.RecordHeader{
				{Key: "b", Value: []byte("2")}, {Key: "a", Value: []byte("1")}, {Key: "b", Value: []byte("2")},
				{Key: "null", Value: nil}, {Key: "empty", Value: empty}, {Key: "\xff\x00", Value: []byte("\xfe\x00")},
			}},
			{Key: []byte("\xff\xfe\x00"), Value: []byte("\x00\xff")},
		}
	}
	for name, command := range map[string][]string{
		"SDK forward": sdkStreamlet(t, "", "        return self.out.emit(record)"),
		"SDK emit":    sdkStreamlet(t, "", "        return self.out.emit(key=record.key, value=record.value, headers=record.headers) if record.value is not None else self.out.emit(record)"),
		"raw forward": misbehaves(t, "good"),
		"raw emit":    misbehaves(t, "echo"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			want := records()
			b.put(want...)
			p := b.runCase(nil, []string{"--until-end"}, command)
			p.endsWith(0)
			got := b.out()
			if len(got) != len(want) {
				t.Fatalf("%d records, want %d", len(got), len(want))
			}
			for i := range want {
				compareRecord(t, caseOut, got[i], records()[i], 0)
			}
		})
	}
}

// A write that the broker refuses is named with topic and reason; nothing of its
// batch is committed; it is tried again with growing waits, and goes on when the
// cause is gone.
func TestCase50_RefusedWrites(t *testing.T) {
	t.Parallel()
	t.Run("a record over the topic's limit", func(t *testing.T) {
		t.Parallel()
		b := newCaseBroker(t)
		b.putN(1)
		p := b.runCase(nil, nil, misbehaves(t, "emit-values", "--size", "2000000"))
		p.await(`WRN failed +inlet in: case\.in/0@0: .*case\.out.*(too large|TOO_LARGE)`)
		p.await(`again in 1s`)
		if n := len(b.out()); n != 0 || b.committed(0) != 0 {
			t.Fatalf("%d records were written and offset %d committed, want nothing", n, b.committed(0))
		}
		p.stopsWell()
	})
	t.Run("and the run ends for it", func(t *testing.T) {
		t.Parallel()
		b := newCaseBroker(t)
		b.putN(1)
		p := b.runCase(nil, []string{"--exit-on-failure"}, misbehaves(t, "emit-values", "--size", "2000000"))
		p.endsWith(1)
		p.says("was refused") // once
	})
	t.Run("a batch that is too large only together", func(t *testing.T) {
		t.Parallel()
		b := newCaseBroker(t)
		b.putN(3)
		p := b.runCase(nil, []string{"--until-end"}, misbehaves(t, "emit-values", "--size", "600000", "--count", "3"))
		p.endsWith(0)
		if n := len(b.out()); n != 9 || b.committed(0) != 3 {
			t.Fatalf("%d records were written and offset %d committed, want 9 and 3", n, b.committed(0))
		}
	})
	t.Run("no such topic", func(t *testing.T) {
		t.Parallel()
		b := newCaseBroker(t)
		b.putN(1)
		p := b.runCase([]string{"FLOW_WRITE_TIMEOUT=3s"}, []string{"--topic", "out=case.missing"}, misbehaves(t, "good"))
		p.await(`case\.missing`)
		if b.committed(0) != 0 {
			t.Fatalf("committed at %d without a topic to write to", b.committed(0))
		}
		if _, err := b.admin.CreateTopic(b.ctx, 1, 1, nil, "case.missing"); err != nil {
			t.Fatal(err)
		}
		b.awaitCommit(1)
		p.stopsWell()
	})
	t.Run("no permission", func(t *testing.T) {
		t.Parallel()
		b := newCaseBroker(t)
		b.putN(1)
		refuse := refuseWrites(b.cluster, kerr.TopicAuthorizationFailed.Code)
		p := b.runCase(nil, nil, misbehaves(t, "good"))
		p.await(`ERR kafka +the topic cannot be written: .*TOPIC_AUTHORIZATION_FAILED.*WRITE.*topic=case\.out`)
		p.await(`again in 1s`)
		if b.committed(0) != 0 {
			t.Fatalf("committed at %d, and nothing was written", b.committed(0))
		}
		close(refuse)
		b.awaitCommit(1)
		p.stopsWell()
	})
}

// refuseWrites answers every write to the outlet's topic with an error, until
// the channel is closed.
func refuseWrites(cluster *kfake.Cluster, code int16) chan struct{} {
	over := make(chan struct{})
	cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		produce := req.(*kmsg.ProduceRequest)
		select {
		case <-over:
			return nil, nil, false
		default:
			cluster.KeepControl()
		}
		if produce.Topics[0].Topic != caseOut {
			return nil, nil, false
		}
		response := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, topic := range produce.Topics {
			answer := kmsg.NewProduceResponseTopic()
			answer.Topic, answer.TopicID = topic.Topic, topic.TopicID
			for _, p := range topic.Partitions {
				partition := kmsg.NewProduceResponseTopicPartition()
				partition.Partition, partition.ErrorCode = p.Partition, code
				answer.Partitions = append(answer.Partitions, partition)
			}
			response.Topics = append(response.Topics, answer)
		}
		return response, nil, true
	})
	return over
}

// An inlet's topic that does not exist on a real broker is named and waited for.
func TestAMissingInletTopicIsWaitedFor(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	p := b.runCase(nil, []string{"--topic", "in=case.later"}, misbehaves(t, "good"))
	p.await(`WRN topics +.*case\.later.*waited for`)
	if _, err := b.admin.CreateTopic(b.ctx, 1, 1, nil, "case.later"); err != nil {
		t.Fatal(err)
	}
	if err := b.client.ProduceSync(b.ctx, &kgo.Record{Topic: "case.later", Key: []byte("k")}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the late topic's record comes out", func() bool { return fmt.Sprint(keys(b.out())) == "k" })
	p.stopsWell()
}
