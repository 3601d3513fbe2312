package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A MiB to stderr in one write, and ten without a newline: every byte is shown,
// nothing stalls and memory stays bounded.
func TestCase14_StderrFull(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(1)
	p := b.runCase(nil, nil, misbehaves(t, "loud", "--size", fmt.Sprint(10<<20)))
	b.awaitCommit(1)
	p.await(` \| x+$`)
	checkMemory(t, p, 150)
	// All of it is awaited before Ctrl-C: a terminal throws away what it has not shown by then.
	p.await(` \| all of it$`)
	p.stopsWell()
	x, y := strings.Count(p.stderr(), strings.Repeat("x", 1023)), strings.Count(p.stderr(), "y")-strings.Count(p.stderr(), "ready")
	if x != 1024 || y < 10<<20 {
		t.Errorf("%d of 1024 lines and %d of %d bytes without a newline", x, y, 10<<20)
	}
	p.says("case | the end")
}

// The process sends 10 MiB before it reads the rest of what we send it.
func TestCase15_BothSidesBlocked(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t, large)
	b.put(&kgo.Record{Key: []byte("k"), Value: make([]byte, 3<<20)})
	p := b.runCase(nil, nil, misbehaves(t, "emit-first"))
	b.awaitCommit(1)
	p.says("case | sends before it reads")
	p.stopsWell()
}

// The process stops while a frame larger than the pipe is being written: the
// deadline fires, the kill works, and the batch comes again.
func TestCase16_StopsReading(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t, large)
	b.put(&kgo.Record{Key: []byte("k"), Value: make([]byte, 3<<20)})
	p := b.runCase([]string{"FLOW_PROCESS_TIMEOUT=1s"}, nil, misbehaves(t, "stops-reading", "--once", once(t)))
	b.awaitCommit(1)
	p.says("WRN failed", "did not answer a ping", "read none of the")
	p.stopsWell()
}

// And shutting down works then, too: within the budget, and nothing of it stays.
func TestCase16_AStopWhileItDoesNotRead(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t, large)
	b.put(&kgo.Record{Key: []byte("k"), Value: make([]byte, 3<<20)})
	p := b.runCase(nil, nil, misbehaves(t, "stops-reading"))
	p.await(`case \| hangs`)
	child := p.child(1)
	p.interrupt()
	p.endsWith(1)
	p.says("ERR failed", "batches without an answer", "they are delivered again")
	child.gone()
	if b.committed(0) != 0 {
		t.Errorf("committed at %d, want nothing", b.committed(0))
	}
}

// The broker takes no write while the process emits as fast as it can: memory
// stays bounded, and everything is written once the broker is back.
func TestCase17_EmitsWithoutLimitWhileTheBrokerIsPaused(t *testing.T) {
	t.Parallel()
	const records, emits = 400, 10
	b := newCaseBroker(t)
	paused, resumed := make(chan struct{}), make(chan struct{})
	first := true
	b.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		if first && req.(*kmsg.ProduceRequest).Topics[0].Topic == caseOut {
			first = false
			close(paused)
			b.cluster.SleepControl(func() { <-resumed })
		}
		return nil, nil, false
	})
	b.putN(records)
	// 40 MB a batch, 400 MB in all.
	p := b.runCase(nil, []string{"-c", b.config("batch: {max-records: 40}\n")}, misbehaves(t, "emit-values", "--count", fmt.Sprint(emits), "--size", "100000"))
	<-paused
	// The process has answered what it may have and gets nothing more.
	eventually(t, "the process has nothing to do", p.child(1).rests())
	checkMemory(t, p, 400)
	close(resumed)
	b.awaitCommit(records)
	if n := len(b.out()); n != records*emits {
		t.Errorf("%d records are written, want %d", n, records*emits)
	}
	checkMemory(t, p, 400)
	p.stopsWell()
}

// The process reads its second batch late while eight more of a MiB wait: the stop goes
// before them, and they are never sent.
func TestCase18_AStopOvertakesBatches(t *testing.T) {
	t.Parallel()
	b := newBrokerWith(t, 10, large)
	for partition := range int32(10) {
		b.put(&kgo.Record{Partition: partition, Key: []byte("k"), Value: make([]byte, 1<<20)})
	}
	h := newHeld(t)
	p := b.runCase(nil, nil, misbehaves(t, "late-reader", "--until", h.path))
	p.await(`case \| holding batch`)
	page := p.await(`ready +status (\S+)`)[1] + "/status.json"
	p.interrupt()
	eventually(t, "the stop has reached the conversation", func() bool {
		_, body := get(t, page)
		return regexp.MustCompile(`"state": *"(ending|stopping)"`).MatchString(body)
	})
	h.all()
	p.endsWith(0)
	read := regexp.MustCompile(`case \| read (batch|stop)`).FindAllString(p.stderr(), -1)
	if n := len(read); n < 2 || n > 3 || read[n-1] != "case | read stop" {
		t.Errorf("it has read %q, want one batch, the one that was begun, and stop", read)
	}
	committed := 0
	for partition := range int32(10) {
		committed += int(b.committed(partition))
	}
	if committed != len(read)-1 {
		t.Errorf("%d partitions are committed, want those of the %d batches that it has read", committed, len(read)-1)
	}
}

// A handler that reads stdin, by itself or in a child, reads nothing.
func TestCase20_InputInTheHandler(t *testing.T) {
	t.Parallel()
	b := newCaseBroker(t)
	b.putN(3)
	p := b.runCase(nil, nil, sdkStreamlet(t, "import subprocess\n", `
        try:
            input()
        except EOFError:
            print("input() is at its end")
        print("cat reads", subprocess.run(["cat"], stdout=subprocess.PIPE).stdout)
        return self.out.emit(record)
`))
	b.awaitCommit(3)
	if got := keys(b.out()); got != "k0 k1 k2" {
		t.Errorf("written: %s", got)
	}
	p.stopsWell()
	if ended, cat := strings.Count(p.stderr(), "| input() is at its end"), strings.Count(p.stderr(), "| cat reads b''"); ended != 3 || cat != 3 {
		t.Errorf("input() ended %d times and cat read nothing %d times, want 3", ended, cat)
	}
}
