package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The names of every case: a streamlet "case" with the inlet in and the outlet
// out, and so the topics and the group of the defaults.
const (
	caseIn    = "case.in"
	caseOut   = "case.out"
	caseGroup = "case.case.in"
)

// caseBroker is a broker in the test's own process and franz-go to look at it.
type caseBroker struct {
	t       *testing.T
	ctx     context.Context
	cluster *kfake.Cluster
	client  *kgo.Client
	admin   *kadm.Client
	// dir is where everything of this test runs: a supervisor that follows
	// another one there takes its place in the group at once.
	dir string
}

// newCaseBroker has the topics of the cases with one partition each, so that
// the log of an outlet has one order.
func newCaseBroker(t *testing.T, opts ...kfake.Opt) *caseBroker {
	t.Helper()
	return newBrokerWith(t, 1, opts...)
}

func newBrokerWith(t *testing.T, partitions int32, opts ...kfake.Opt) *caseBroker {
	t.Helper()
	opts = append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(partitions, caseIn, caseOut)}, opts...)
	cluster, err := kfake.NewCluster(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	ctx, cancel := context.WithTimeout(context.Background(), testLimit)
	t.Cleanup(cancel)
	b := &caseBroker{t: t, ctx: ctx, cluster: cluster, dir: t.TempDir()}
	b.client, b.admin = franz(t, cluster.ListenAddrs()[0])
	return b
}

// franz is franz-go, with an admin, on a broker.
func franz(t *testing.T, address string) (*kgo.Client, *kadm.Client) {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(8<<20),
		kgo.MaxBufferedBytes(64<<20), kgo.BrokerMaxWriteBytes(64<<20),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, kadm.NewClient(client)
}

func (b *caseBroker) address() string { return b.cluster.ListenAddrs()[0] }

// put writes records to the inlet's topic.
func (b *caseBroker) put(records ...*kgo.Record) {
	b.t.Helper()
	for _, r := range records {
		r.Topic = caseIn
	}
	if err := b.client.ProduceSync(b.ctx, records...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// putN writes n records to partition 0, with the keys k0, k1 ...
func (b *caseBroker) putN(n int) {
	b.t.Helper()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Key: []byte(fmt.Sprintf("k%d", i)), Value: []byte(fmt.Sprintf("v%d", i))})
	}
	b.put(records...)
}

// committed is the group's offset on a partition of the inlet; 0: none.
func (b *caseBroker) committed(partition int32) int64 {
	b.t.Helper()
	offsets, err := b.admin.FetchOffsets(b.ctx, caseGroup)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return 0
	}
	if err != nil {
		b.t.Fatal(err)
	}
	at, _ := offsets.Lookup(caseIn, partition)
	return max(0, at.At)
}

// awaitCommit waits until partition 0 is committed up to an offset.
func (b *caseBroker) awaitCommit(offset int64) {
	b.t.Helper()
	eventually(b.t, fmt.Sprintf("partition 0 committed at %d", offset), func() bool { return b.committed(0) >= offset })
	if at := b.committed(0); at != offset {
		b.t.Fatalf("partition 0 is committed at %d, want %d", at, offset)
	}
}

// eventually polls what has no event to wait for.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	limit := time.NewTimer(testLimit)
	defer limit.Stop()
	for !holds() {
		select {
		case <-ticker.C:
		case <-limit.C:
			t.Fatalf("not within %v: %s", testLimit, what)
		}
	}
}

// out is the outlet's log.
func (b *caseBroker) out() []*kgo.Record {
	b.t.Helper()
	ends, err := b.admin.ListEndOffsets(b.ctx, caseOut)
	if err != nil {
		b.t.Fatal(err)
	}
	var records []*kgo.Record
	for partition, log := range readLogs(b.ctx, b.t, b.cluster.ListenAddrs(), []string{caseOut})[caseOut] {
		if end, _ := ends.Lookup(caseOut, partition); int64(len(log)) < end.Offset {
			b.t.Fatalf("partition %d of %s has %d records, its end is %d", partition, caseOut, len(log), end.Offset)
		}
		records = append(records, log...)
	}
	return records
}

// keys are the keys of records, joined by spaces.
func keys(records []*kgo.Record) string {
	var out []string
	for _, r := range records {
		out = append(out, string(r.Key))
	}
	return strings.Join(out, " ")
}

// caseEnv are waits that are short enough for a test.
func caseEnv(more ...string) []string {
	return append([]string{"FLOW_RECONNECT_MAX_BACKOFF=1s", "FLOW_SESSION_TIMEOUT=6s", "FLOW_STOP_TIMEOUT=5s"}, more...)
}

// misbehaves is the command of the raw fixture in a mode.
func misbehaves(t *testing.T, mode string, more ...string) []string {
	t.Helper()
	script, err := filepath.Abs("testdata/misbehave.py")
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"python3", script, "--mode", mode}, more...)
}

// runCase is `run` with a command, as a text log; flags come before it.
func (b *caseBroker) runCase(env, flags, command []string) *program {
	b.t.Helper()
	return b.runCaseAt(nil, env, flags, command)
}

// runCaseAt is runCase elsewhere than on pipes.
func (b *caseBroker) runCaseAt(at stage, env, flags, command []string) *program {
	b.t.Helper()
	args := append([]string{"--log-format", "text", "run", "-b", b.address()}, flags...)
	args = append(append(args, "--"), command...)
	return startProgram(b.t, programOptions{dir: b.dir, env: caseEnv(env...), stage: at}, args...)
}

// endsWith waits for the end and compares the exit code.
func (p *program) endsWith(want int) {
	p.t.Helper()
	if code := p.wait(); code != want {
		p.t.Fatalf("exit code %d, want %d", code, want)
	}
}

// stopsWell sends Ctrl-C and expects 0.
func (p *program) stopsWell() {
	p.t.Helper()
	p.interrupt()
	p.endsWith(0)
}

// says checks that there is a line, and just one, that has all of the words. The
// verdict on a partition has the failure's own words as its last attribute; they
// are the failure's line's.
func (p *program) says(words ...string) {
	p.t.Helper()
	n := 0
	for _, line := range strings.Split(p.stderr(), "\n") {
		if strings.Contains(line, "convicted ") {
			line, _, _ = strings.Cut(line, ` error="`)
		}
		has := true
		for _, word := range words {
			has = has && strings.Contains(line, word)
		}
		if has {
			n++
		}
	}
	if n != 1 {
		p.t.Fatalf("%d lines have %q, want 1", n, words)
	}
}

// held is the named pipe that the mode "hold" waits at.
type held struct {
	t    *testing.T
	path string
}

func newHeld(t *testing.T) *held {
	t.Helper()
	h := &held{t: t, path: filepath.Join(t.TempDir(), "go-on")}
	if err := syscall.Mkfifo(h.path, 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

// one lets the process answer the batch that it holds.
func (h *held) one() {
	h.t.Helper()
	eventually(h.t, "the process waits at the pipe", func() bool {
		f, err := os.OpenFile(h.path, os.O_WRONLY|syscall.O_NONBLOCK, 0) // ENXIO while nobody waits there
		return err == nil && f.Close() == nil
	})
}

// all lets it answer every batch from now on.
func (h *held) all() {
	h.t.Helper()
	f, err := os.OpenFile(h.path, os.O_RDWR, 0)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = f.Close() })
}
