package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const hostilePartitions = 12

// A process that sends valid and invalid messages at full speed, launched again
// and again: the supervisor neither panics nor leaks nor grows, commits only what
// was acked, and writes only what an acked batch emitted, and all of that. Then a
// good process takes over and everything is committed.
//
// HOSTILE=1m is how long; the default is short.
func TestHostileProcess(t *testing.T) {
	t.Parallel()
	lasts := 6 * time.Second
	if given := os.Getenv("HOSTILE"); given != "" {
		var err error
		if lasts, err = time.ParseDuration(given); err != nil {
			t.Fatal(err)
		}
	}
	b := newBrokerWith(t, hostilePartitions, large)
	ctx, cancel := context.WithTimeout(context.Background(), lasts+2*testLimit) // the broker's own is for a short test
	defer cancel()
	b.ctx = ctx
	records := 2000 * max(1, int(lasts/time.Second))
	b.fill(records)
	until, journal := filepath.Join(t.TempDir(), "until"), filepath.Join(t.TempDir(), "journal")
	p := b.runCase(nil, []string{"-c", b.config("batch: {max-records: 20}\n")}, hostile(t, until, journal))
	memory := p.watchFor(lasts)
	eventually(t, "it has met some of it", func() bool { // on a machine that is slow
		return p.launches() >= 4 && b.written() >= 20
	})
	if err := os.WriteFile(until, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything is committed", func() bool {
		sum := int64(0)
		for partition := range int32(hostilePartitions) {
			sum += b.committed(partition)
		}
		return sum == int64(records)
	})
	// After the first third of the time it has met everything: it grows no more.
	if first, last := peak(memory[:len(memory)/3+1]), peak(memory); last > first+300 || last > 700 {
		t.Errorf("it held %d MB in the first third and %d MB in all", first, last)
	}
	lives := p.launches()
	files, goroutines := p.ends()
	calmFiles, calm := calmly(t)
	if goroutines > calm+10 || files > calmFiles+10 {
		t.Errorf("%d goroutines and %d files after %d lives; %d and %d after a calm one", goroutines, files, lives, calm, calmFiles)
	}
	if text := p.since(0); strings.Contains(strings.SplitN(text, "SIGQUIT", 2)[0], "panic:") {
		t.Error("it panicked")
	}
	acked, written := checkJournal(t, b, readJournal(t, journal))
	t.Logf("%d lives, %d violations, %d frames, %d acks, %d records written, at most %d MB, %d goroutines (calm: %d), %d files (%d)",
		lives, strings.Count(p.stderr(), "protocol violation"), framesSent(t, journal), acked, written, peak(memory), goroutines, calm, files, calmFiles)
}

// written is how many records the outlet has.
func (b *caseBroker) written() (n int64) {
	b.t.Helper()
	ends, err := b.admin.ListEndOffsets(b.ctx, caseOut)
	if err != nil {
		b.t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) { n += end.Offset })
	return n
}

// fill writes small records to every partition in turn.
func (b *caseBroker) fill(records int) {
	b.t.Helper()
	all := make([]*kgo.Record, records)
	for i := range all {
		all[i] = &kgo.Record{Partition: int32(i % hostilePartitions), Value: []byte("v")}
	}
	b.put(all...)
}

func hostile(t *testing.T, until, journal string) []string {
	t.Helper()
	script, err := filepath.Abs("testdata/hostile.py")
	if err != nil {
		t.Fatal(err)
	}
	return []string{"python3", script, "--until", until, "--journal", journal}
}

// watchFor is the memory in MB that a program holds, looked at for so long.
func (p *program) watchFor(lasts time.Duration) (memory []int) {
	p.t.Helper()
	end := time.NewTimer(lasts)
	defer end.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		memory = append(memory, p.resident())
		select {
		case <-look.C:
		case <-p.exited:
			p.t.Fatal("it ended")
		case <-end.C:
			return memory
		}
	}
}

// resident is how many MB a program holds now.
func (p *program) resident() int {
	p.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	if m := regexp.MustCompile(`VmRSS:\s+(\d+) kB`).FindSubmatch(text); m != nil {
		return atoi(p.t, string(m[1])) / 1000
	}
	return 0
}

func peak(memory []int) int {
	most := 0
	for _, m := range memory {
		most = max(most, m)
	}
	return most
}

// ends asks a program for its goroutines, by which it ends, and says how many
// they are and how many files it had open.
func (p *program) ends() (files, goroutines int) {
	p.t.Helper()
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", p.cmd.Process.Pid))
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGQUIT); err != nil {
		p.t.Fatal(err)
	}
	p.endsWith(2)
	_, dump, found := strings.Cut(p.stderr(), "SIGQUIT: quit")
	if !found {
		p.t.Fatal("no goroutines were told")
	}
	return len(open), len(regexp.MustCompile(`(?m)^goroutine \d+`).FindAllString(dump, -1))
}

// calmly is what a supervisor has whose one process is good.
func calmly(t *testing.T) (files, goroutines int) {
	t.Helper()
	b := newBrokerWith(t, hostilePartitions, large)
	b.fill(hostilePartitions)
	until, journal := filepath.Join(t.TempDir(), "until"), filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(until, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := b.runCase(nil, nil, hostile(t, until, journal))
	for partition := range int32(hostilePartitions) {
		eventually(t, "a partition is committed", func() bool { return b.committed(partition) == 1 })
	}
	return p.ends()
}

// ackedBatch is a line of the journal.
type ackedBatch struct {
	partition   int32
	first, last int64
	tokens      []string
	// wild: it is not known whether it was acked.
	wild bool
}

func readJournal(t *testing.T, path string) (batches []ackedBatch) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range bytes.Split(text, []byte("\n")) {
		var word, id, tokens string
		var a ackedBatch
		if n, _ := fmt.Sscan(string(line), &word, &id, &a.partition, &a.first, &a.last, &tokens); n < 5 {
			continue // the beginning of a life, or the end of the file
		}
		a.wild = word == "wild"
		if tokens != "" {
			a.tokens = strings.Split(tokens, ",")
		}
		batches = append(batches, a)
	}
	return batches
}

// framesSent is how many frames the hostile lives sent before their ends.
func framesSent(t *testing.T, path string) (n int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^sent (\d+)$`).FindAllSubmatch(text, -1) {
		n += atoi(t, string(m[1]))
	}
	return n
}

// checkJournal holds the broker's logs against what the processes did.
func checkJournal(t *testing.T, b *caseBroker, batches []ackedBatch) (acked, written int) {
	t.Helper()
	count := map[string]int{}
	for _, r := range b.out() {
		if token, _, ok := bytes.Cut(r.Value, []byte("|")); ok {
			count[string(token)]++
			written++
		}
	}
	allowed := map[string]bool{}
	var done [hostilePartitions][]bool
	for p := range done {
		done[p] = make([]bool, b.committed(int32(p)))
	}
	for _, a := range batches {
		whole := true
		for _, token := range a.tokens {
			allowed[token] = true
			whole = whole && count[token] > 0
		}
		if !a.wild {
			acked++
		}
		for o := a.first; whole && o <= a.last && int(o) < len(done[a.partition]); o++ {
			done[a.partition][o] = true
		}
	}
	for token, n := range count {
		if !allowed[token] || n != 1 {
			t.Errorf("%s is written %d times; acked: %v", token, n, allowed[token])
		}
	}
	for p, offsets := range done {
		for o, ok := range offsets {
			if !ok {
				t.Fatalf("offset %d of partition %d is committed, and no acked batch of it is written", o, p)
			}
		}
	}
	return acked, written
}
