package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/delivery/record"
	"ankka-flow/wire"
)

// breaksProtocol runs a mode that breaks the protocol once: what broke it is
// named once, in a line that says all of the words, nothing of that batch is
// written or committed, and --exit-on-failure ends with 1.
func breaksProtocol(t *testing.T, mode string, words ...string) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(3)
	p := b.runCase(nil, []string{"--exit-on-failure"}, misbehaves(t, mode))
	p.endsWith(1)
	p.says(append([]string{"ERR"}, words...)...)
	p.says(words[0]) // not by another line, too
	if n := len(b.out()); n != 0 || b.committed(0) != 0 {
		t.Fatalf("%d records were written and offset %d committed, want nothing", n, b.committed(0))
	}
}

func TestCase01_APrintInTheHandlerIsQuoted(t *testing.T) {
	breaksProtocol(t, "print-in-batch", `"hello from the handler\n"`, "print to stderr")
}

func TestCase02_APathIsNoLength(t *testing.T) {
	breaksProtocol(t, "path", `"/home/x"`, "print to stderr")
}

func TestCase03_TextInARightFrame(t *testing.T) {
	breaksProtocol(t, "text-in-frame", "expected an array", "an int", "hello from a frame")
}

func TestCase06_HalfAFrameThenExit0(t *testing.T) {
	breaksProtocol(t, "half-frame", "stdout ended inside a frame", "2 of 6 bytes")
}

func TestCase09_ATruncatedMap(t *testing.T) {
	breaksProtocol(t, "truncated-map", "fail of batch 1", "15 keys")
}

func TestCase10_JSON(t *testing.T) {
	breaksProtocol(t, "json", "speaks JSON; the protocol is msgpack", "PROTOCOL.md")
}

func TestCase12_AnAckForABatchNeverSent(t *testing.T) {
	breaksProtocol(t, "ack-unknown", "ack of batch", "no batch of that id was ever sent")
}

func TestCase12_AnEmitToNoOutlet(t *testing.T) {
	breaksProtocol(t, "emit-nowhere", `no outlet "nowhere" is declared`, "declared are: out", "in/0")
}

func TestCase12_AnswersAfterTheAck(t *testing.T) {
	t.Parallel()
	t.Run("ack-twice", func(t *testing.T) { afterTheAck(t, "ack-twice", "ack of batch 1") })
	t.Run("emit-after-ack", func(t *testing.T) { afterTheAck(t, "emit-after-ack", "forward of batch 1") })
}

// afterTheAck: what comes for a batch after its ack cannot undo it. The batch is written and
// committed, then the stream fails and the process is replaced.
func afterTheAck(t *testing.T, mode, word string) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(3)
	p := b.runCase(nil, []string{"--exit-on-failure"}, misbehaves(t, mode))
	p.endsWith(1)
	p.says("ERR", word, "that batch was answered before")
	if got := keys(b.out()); got != "k0 k1 k2" || b.committed(0) != 3 {
		t.Fatalf("written: %s; committed: %d", got, b.committed(0))
	}
}

// The same, going on: the next process works (case 9: the decoder is not
// poisoned), and what was not answered comes again (case 6).
func TestCase09_TheNextProcessWorks(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"truncated-map", "half-frame", "text-in-frame", "exit-in-batch", "segfault", "json"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(3)
			p := b.runCase(nil, nil, misbehaves(t, mode, "--once", filepath.Join(t.TempDir(), "once")))
			b.awaitCommit(3)
			if got := keys(b.out()); got != "k0 k1 k2" {
				t.Fatalf("written: %s", got)
			}
			p.says("waiting", "500ms, then the process")
			p.stopsWell()
		})
	}
}

// After a fail the process is kept: its batch comes again in a new conversation.
func TestCase09_AFailedBatchComesAgainToTheSameProcess(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(3)
	p := b.runCase(nil, nil, misbehaves(t, "fail-first"))
	b.awaitCommit(3)
	p.says("WRN", "in/0@0", "KeyError: no such cart")
	p.says("pid")
	p.stopsWell()
}

// What the process tells of its failure is shown as if it had written it itself,
// with the place in the code; once, though the record comes again and again.
func TestCase22_AFailureShowsItsPlaceInTheCode(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	p := b.runCase(nil, nil, sdkStreamlet(t, "", `
        raise KeyError("total\nor sum")
`))
	p.await(`WRN failed +inlet in: case\.in/0@0: batch 3 failed: KeyError: .*total`)
	p.says("case | Traceback (most recent call last):")
	p.says("case | ", "streamlet.py", "line 10, in process_record")
	p.says("case | KeyError: ")
	p.stopsWell()
}

// Text before the first frame harms nobody, text at the end neither.
func TestCase01_RawPrintsThatHarmNothing(t *testing.T) {
	t.Parallel()
	for mode, words := range map[string][]string{
		"print-before": {"WRN", `"hello from before\n"`, "print to stderr"},
		"print-at-end": {`"hello from the end\n"`, "print to stderr"},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(3)
			p := b.runCase(nil, nil, misbehaves(t, mode))
			b.awaitCommit(3)
			p.stopsWell()
			p.says(words...)
		})
	}
}

// With the SDK, whatever prints to fd 1 prints to the log: at import, in the
// handler, at exit, from a C library's view (os.write) and from a grandchild.
func TestCase01_04_SDKPrintsAreLogLines(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	p := b.runCase(nil, nil, sdkStreamlet(t, `
print("at import")
import atexit, os
atexit.register(lambda: print("at exit"))
`, `
        print("in the handler")
        os.system("echo from a grandchild")
        os.write(1, b"from os.write\n")
        return self.out.emit(record)
`))
	b.awaitCommit(1)
	p.stopsWell()
	for _, text := range []string{"at import", "in the handler", "from a grandchild", "from os.write", "at exit"} {
		p.says(" | " + text)
	}
	if strings.Contains(p.stderr(), "carries the protocol") {
		t.Error("something of it was on the wire")
	}
}

// sdkStreamlet is the command of a streamlet "case" with these lines after the
// import of the SDK, and this handler.
func sdkStreamlet(t *testing.T, top, handler string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "streamlet.py")
	text := `from ankka_flow import JsonInlet, JsonOutlet, Streamlet, serve
` + top + `
class Case(Streamlet):
    name = "case"
    inlet = JsonInlet("in", schema_name="any")
    out = JsonOutlet("out", schema_name="any")

    def process_record(self, record, ctx):
` + handler + `
serve(Case())
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"python3", path}
}

// One byte a write, and a thousand frames in one, are both fine.
func TestCase05_AnySplitOfFrames(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"trickle", "bulk"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(3)
			p := b.runCase(nil, nil, misbehaves(t, mode))
			b.awaitCommit(3)
			if got := keys(b.out()); got != "k0 k1 k2" {
				t.Fatalf("written: %s", got)
			}
			p.stopsWell()
		})
	}
}

// large lets the broker take records beyond the protocol's limit.
var large = kfake.BrokerConfigs(map[string]string{"message.max.bytes": "8388608"})

// valueOf is a value with which a record at an offset has exactly size bytes as
// encoded in a batch.
func valueOf(size int, offset int64, at time.Time) []byte {
	r := record.Record{Offset: offset, Timestamp: at.UnixMilli(), Value: make([]byte, size)}
	return make([]byte, size-(wire.RecordSize(&r)-size))
}

// Sizes around every boundary of the encoding cross both ways unchanged.
func TestCase07_SizesCrossBothWays(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t, large)
	now := time.Now().Truncate(time.Millisecond)
	var records []*kgo.Record
	for size := 65_531; size <= 65_541; size++ {
		records = append(records, &kgo.Record{Value: make([]byte, size), Timestamp: now})
	}
	records = append(records, &kgo.Record{Value: make([]byte, 1<<20), Timestamp: now})
	for _, size := range []int{wire.MaxRecord - 1, wire.MaxRecord} {
		records = append(records, &kgo.Record{Value: valueOf(size, int64(len(records)), now), Timestamp: now})
	}
	for i, r := range records {
		r.Value[0], r.Value[len(r.Value)-1] = byte(i), byte(i)
	}
	b.put(records...)
	p := b.runCase(nil, nil, misbehaves(t, "echo"))
	b.awaitCommit(int64(len(records)))
	out := b.out()
	if len(out) != len(records) {
		t.Fatalf("%d records, want %d", len(out), len(records))
	}
	for i, r := range records {
		if string(out[i].Value) != string(r.Value) {
			t.Errorf("record %d of %d bytes came back with %d, or other ones", i, len(r.Value), len(out[i].Value))
		}
	}
	p.stopsWell()
}

// A record over the limit on its way in blocks its partition and is named by
// topic or inlet, partition and offset, with size and limit. The records before
// it are committed, the other partition goes on, the supervisor lives.
func TestCase08_OverTheLimitIn(t *testing.T) {
	t.Parallel()
	b := newBrokerWith(t, 2, large)
	now := time.Now().Truncate(time.Millisecond)
	b.put(
		&kgo.Record{Value: []byte("before"), Timestamp: now},
		&kgo.Record{Value: valueOf(wire.MaxRecord+1, 1, now), Timestamp: now},
		&kgo.Record{Value: []byte("behind"), Timestamp: now},
	)
	p := b.runCase(nil, nil, misbehaves(t, "good"))
	p.await(`WRN failed +inlet in: case\.in/0@1: .*4128769 bytes.*4128768`)
	b.awaitCommit(1)
	p.await(`ready`)
	b.put(&kgo.Record{Partition: 1, Value: []byte("other")})
	eventually(t, "the other partition is committed", func() bool { return b.committed(1) == 1 })
	if got := b.committed(0); got != 1 {
		t.Errorf("partition 0 is committed at %d, want 1", got)
	}
	p.stopsWell()
}

// A record over the limit on its way out is named by outlet and batch, with its
// size and the limit; one of exactly the limit passes.
func TestCase08_OverTheLimitOut(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t, large)
	b.putN(1)
	p := b.runCase(nil, []string{"--exit-on-failure"}, misbehaves(t, "emit-size", "--size", fmt.Sprint(wire.MaxRecord+1)))
	p.endsWith(1)
	p.says("ERR", "emit of batch 1", `"out"`, "4128769 bytes", "4128768", "in/0")
	if n := len(b.out()); n != 0 || b.committed(0) != 0 {
		t.Fatalf("%d records were written and offset %d committed, want nothing", n, b.committed(0))
	}
	p = b.runCase(nil, []string{"--until-end"}, misbehaves(t, "emit-size", "--size", fmt.Sprint(wire.MaxRecord)))
	p.endsWith(0)
	if n := len(b.out()); n != 1 {
		t.Fatalf("%d records of exactly the limit, want 1", n)
	}
}

// The SDK refuses such a record in the handler: the batch fails, named.
func TestCase08_OverTheLimitOutSDK(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t, large)
	b.putN(1)
	p := b.runCase(nil, []string{"--exit-on-failure"}, sdkStreamlet(t, "", `
        return self.out.emit(record, value=bytes(5_000_000))
`))
	p.endsWith(1)
	p.says("ERR", "in/0@0", "RecordTooLargeError", "4128768", "'out'")
	if n := len(b.out()); n != 0 || b.committed(0) != 0 {
		t.Fatalf("%d records were written and offset %d committed, want nothing", n, b.committed(0))
	}
}

// Two threads that write frames without a lock: found out, and nothing of it is
// committed.
func TestCase11_TwoThreadsWithoutALock(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(3)
	p := b.runCase(nil, []string{"--exit-on-failure"}, misbehaves(t, "two-threads"))
	p.endsWith(1)
	p.says("ERR failed", "protocol violation")
	if n := len(b.out()); n != 0 || b.committed(0) != 0 {
		t.Fatalf("%d records were written and offset %d committed, want nothing", n, b.committed(0))
	}
}

// A process that answers 9 of 10 batches and reads on: the tenth is a stall that
// names its offset, the others are committed.
func TestCase13_TheTenthBatchIsAVisibleStall(t *testing.T) {
	t.Parallel()
	b := newBrokerWith(t, 10)
	for i := range int32(10) {
		b.put(&kgo.Record{Partition: i, Value: []byte("v")})
	}
	p := b.runCase([]string{"FLOW_STALL_WARNING_AFTER=1s"}, nil, misbehaves(t, "skip-tenth"))
	stalled := p.await(`WRN stalled +inlet in: case.in/(\d+)@0 .*has not answered batch`)
	committed := 0
	for i := range int32(10) {
		if b.committed(i) == 1 {
			committed++
		} else if fmt.Sprint(i) != stalled[1] {
			t.Errorf("partition %d is not committed, and partition %s is named", i, stalled[1])
		}
	}
	if committed != 9 {
		t.Errorf("%d partitions are committed, want 9", committed)
	}
	p.stopsWell() // it answers stop: nothing is lost by not answering the batch
	p.says("stalled")
	if at, _ := strconv.Atoi(stalled[1]); b.committed(int32(at)) != 0 {
		t.Errorf("the stalled partition is committed at %d", b.committed(int32(at)))
	}
}

// The real cause of a death is one line with exit code or signal, and the last
// lines of stderr, the one without a newline too.
func TestCase22_TheCauseOfADeath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		command []string
		code    int
		says    [][]string
	}{
		{"dies at import", []string{"python3", "-c", "import nosuchmodule"}, 1, [][]string{{"python3 | ModuleNotFoundError", "nosuchmodule"}, {"ERR process", "exit 1: python3"}}},
		{"exits 0 in mid-batch", misbehaves(t, "exit-in-batch"), 1, [][]string{{" | going away"}, {"ERR process", "exit 0", "1 batch was unanswered and is delivered again"}}},
		{"exits 42 in mid-batch", misbehaves(t, "exit-in-batch", "--code", "42"), 42, [][]string{{"ERR process", "exit 42"}}},
		{"SIGSEGV", misbehaves(t, "segfault"), 139, [][]string{{"ERR process", "killed by SIGSEGV"}}},
		{"never speaks, exit 0", []string{"true"}, 1, [][]string{{"ERR process", "exit 0: true", "does it call serve()?"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(3)
			p := b.runCase(nil, []string{"--exit-on-failure"}, c.command)
			p.endsWith(c.code)
			for _, words := range c.says {
				p.says(words...)
			}
			if n := strings.Count(p.stderr(), "ERR"); n != 1 {
				t.Errorf("%d lines of errors, want 1", n)
			}
			if b.committed(0) != 0 {
				t.Errorf("committed at %d, want nothing", b.committed(0))
			}
		})
	}
}

// A program that cannot be run: 127 or 126, one line, the path and the remedy.
func TestCase24_ProgramsThatCannotBeRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// An ELF header of the other byte order: no machine of ours runs it.
	foreign := "\x7fELF\x02\x02\x01" + strings.Repeat("\x00", 9) + "\x00\x02\x00\x16" + strings.Repeat("\x00", 60)
	for _, c := range []struct {
		name    string
		program string
		code    int
		words   []string
	}{
		{"no such program", "no-such-program", 127, []string{"no-such-program", "PATH", "install it"}},
		{"no such file", filepath.Join(dir, "none"), 127, []string{filepath.Join(dir, "none"), "no such file"}},
		{"no execute bit", file("plain.py", "#!/usr/bin/env python3\n", 0o644), 126, []string{"plain.py", "no execute permission", "run python3"}},
		{"another architecture", file("foreign", foreign, 0o755), 126, []string{"foreign", "built for"}},
		{"CRLF", file("crlf.py", "#!/usr/bin/env python3\r\nprint()\r\n", 0o755), 126, []string{"crlf.py", "carriage return", "LF"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newCaseBroker(t)
			p := b.runCase(nil, nil, []string{c.program})
			p.endsWith(c.code)
			p.says(append([]string{"ERR", "launching"}, c.words...)...)
			code, stdout, stderr := runProgram(t, programOptions{}, "descriptor", "--", c.program)
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.words[1]) {
				t.Errorf("descriptor: exit code %d, stdout %q, stderr %q", code, stdout, stderr)
			}
		})
	}
}

// Deleted between restarts: it waits longer and longer, and goes on when the
// program is there again.
func TestCase24_ProgramDeletedBetweenRestarts(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	path := filepath.Join(t.TempDir(), "streamlet")
	save := func(script string) {
		if err := os.WriteFile(path+".new", []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	save("#!/bin/sh\nrm " + path + "\nexit 3\n")
	p := b.runCase(nil, nil, []string{path})
	p.await(`WRN process +exit 3`)
	p.await(`ERR process +launching .*streamlet: no such file`)
	p.await(`waiting +1s`)
	save("#!/bin/sh\nexec " + strings.Join(misbehaves(t, "good"), " ") + "\n")
	b.awaitCommit(1)
	p.stopsWell()
}

// true and false: the delay grows, every end is one line.
func TestCase26_TheDelayGrows(t *testing.T) {
	t.Parallel()
	for _, c := range []string{"true", "false"} {
		t.Run(c, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			p := b.runCase(nil, nil, []string{c})
			p.await(`waiting +500ms`)
			p.await(`waiting +1s`)
			if starts := strings.Count(p.stderr(), "INF process    pid"); starts != 2 {
				t.Errorf("%d starts before the wait of 1 s, want 2", starts)
			}
			p.stopsWell()
		})
	}
}

// A program that never speaks is named at the deadline, and killed.
func TestCase29_NeverAnswers(t *testing.T) {
	t.Parallel()
	for name, command := range map[string][]string{
		"reads and is silent": misbehaves(t, "silent"),
		"does not even read":  {"python3", "-c", "import threading; threading.Event().wait()"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			p := b.runCase([]string{"FLOW_DISCOVERY_TIMEOUT=1s"}, []string{"--exit-on-failure"}, command)
			p.endsWith(1)
			p.says("ERR", "no answer to discovery within 1s", "does it call serve()?")
			p = startProgram(t, programOptions{env: []string{"FLOW_DISCOVERY_TIMEOUT=1s"}}, append([]string{"descriptor", "--"}, command...)...)
			p.endsWith(1)
			p.says("no answer to discovery within 1s", "does it call serve()?")
		})
	}
}

// One that takes long is spoken of before: it may only be slow, or not flush.
func TestCase19_NoAnswerYet(t *testing.T) {
	t.Parallel()
	p := startProgram(t, programOptions{env: []string{"FLOW_DISCOVERY_TIMEOUT=6s", "FLOW_LOG_FORMAT=text"}}, append([]string{"descriptor", "--"}, misbehaves(t, "silent")...)...)
	p.endsWith(1)
	p.says("INF process", "no answer to discovery yet", "flush its stdout", "6s")
	p.says("no answer to discovery within 6s")
}

// Another protocol version is refused once, naming both; the SDK's own version
// may be any text.
func TestCase30_Versions(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"99.0", "2.0", "1.1", "99", ""} {
		t.Run("protocol "+protocol, func(t *testing.T) {
			b := newCaseBroker(t)
			p := b.runCase(nil, nil, misbehaves(t, "good", "--protocol", protocol))
			p.endsWith(1)
			p.says("ERR", protocol, "1.0", "this supervisor speaks")
			p.says("pid")
		})
	}
	for _, version := range []string{"dev", "", "1.2.3-rc1+dirty"} {
		t.Run("sdk "+version, func(t *testing.T) {
			t.Parallel()
			b := newCaseBroker(t)
			b.putN(1)
			p := b.runCase(nil, []string{"--until-end"}, misbehaves(t, "good", "--sdk", version))
			p.endsWith(0)
			b.awaitCommit(1)
		})
	}
}
