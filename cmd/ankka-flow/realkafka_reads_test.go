//go:build kafka

package main

import (
	"bytes"
	bigendian "encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// peakMemory is the most that a process had resident, in KiB.
func peakMemory(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(rest, "kB")))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatal("no VmHWM")
	return 0
}

// segments are the files of a partition's log at the broker that leads it.
func (c *realCluster) segments(topic string, partition int32) []string {
	c.t.Helper()
	described, err := c.admin.ListTopics(c.ctx, topic)
	if err != nil {
		c.t.Fatal(err)
	}
	leader := described[topic].Partitions[partition].Leader
	run := filepath.Dir(filepath.Dir(c.setting("KAFKA_CA")))
	files, err := filepath.Glob(filepath.Join(run, strconv.Itoa(int(leader)), "data", fmt.Sprintf("%s-%d", topic, partition), "*.log"))
	if err != nil {
		c.t.Fatal(err)
	}
	return files
}

// One byte flipped in one partition's log, at the broker that leads it: that
// partition says so and nothing of the batch is delivered, the others go on;
// once the byte is right again, everything is read.
func TestKafka_Case53_AFlippedByte(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(3, nil, "flipped.in", "flipped.out")
	for n := range 5 {
		c.onePerPartition("flipped.in", 3, fmt.Sprintf("before%d", n))
	}
	c.onePerPartition("flipped.in", 3, "marked")
	files := c.segments("flipped.in", 1)
	if len(files) != 1 {
		t.Fatalf("segments: %v", files)
	}
	flip := func() {
		t.Helper()
		f, err := os.OpenFile(files[0], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		log := make([]byte, 1<<20)
		n, _ := f.Read(log)
		at := bytes.Index(log[:n], []byte("arked-1"))
		if at < 1 {
			t.Fatal("the marked record is not in the segment")
		}
		if _, err := f.WriteAt([]byte{log[at-1] ^ 1}, int64(at-1)); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	p := c.run("flipped", nil, nil, misbehaves(t, "good"))
	p.await(`WRN .*flipped\.in/1 cannot be read on: .*corrupt`)
	eventually(t, "the healthy partitions are done", func() bool {
		at := c.committed("flipped")
		return at[0] == 6 && at[2] == 6
	})
	if at := c.committed("flipped")[1]; at != 5 {
		t.Errorf("the damaged partition is committed at %d, want 5: what is before the damage", at)
	}
	if out := flat(c.read("flipped.out")); len(out) != 17 {
		t.Errorf("%d records came out, want 17", len(out))
	}
	flip()
	c.awaitEnd("flipped")
	p.stopsWell()
}

// 8,000 batches of one record in 10 partitions: the memory stays near what the
// prefetch may have.
func TestKafka_Case55_ManySmallBatches(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(10, nil, "small.in", "small.out")
	var writers sync.WaitGroup
	errs := make([]error, 10)
	for partition := range int32(10) {
		writer := c.franz(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0), kgo.MaxBufferedRecords(1))
		writers.Go(func() { // writes one partition; awaited below
			for n := range 800 {
				r := &kgo.Record{Topic: "small.in", Partition: partition, Key: []byte(fmt.Sprintf("%d-%d", partition, n)), Value: make([]byte, 100)}
				if err := writer.ProduceSync(c.ctx, r).FirstErr(); err != nil {
					errs[partition] = err
					return
				}
			}
		})
	}
	writers.Wait()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
	if batches, _ := c.batches("small.in", 0); batches != 800 {
		t.Fatalf("partition 0 has %d batches, want 800", batches)
	}
	p := c.run("small", nil, nil, misbehaves(t, "good"))
	c.awaitEnd("small")
	peak := peakMemory(t, p.cmd.Process.Pid)
	t.Logf("peak memory %d KiB", peak)
	if peak > 150<<10 {
		t.Errorf("peak memory %d KiB, want less than 150 MiB", peak)
	}
	if seen := len(c.seen("small")); seen != 8000 {
		t.Errorf("%d of 8000 records came out", seen)
	}
	p.stopsWell()
}

// batches counts a partition's batches, and those of them that are empty, in
// the leader's own files.
func (c *realCluster) batches(topic string, partition int32) (all, empty int) {
	c.t.Helper()
	for _, file := range c.segments(topic, partition) {
		log, err := os.ReadFile(file)
		if err != nil {
			c.t.Fatal(err)
		}
		for len(log) >= 61 && bigendian.BigEndian.Uint32(log[8:]) != 0 { // a segment may be longer than what is in it
			all++
			if bigendian.BigEndian.Uint32(log[57:]) == 0 {
				empty++
			}
			log = log[12+bigendian.BigEndian.Uint32(log[8:]):]
		}
	}
	return all, empty
}

// librdkafka with each of its codecs: what it wrote comes out.
func TestKafka_CodecsOfLibrdkafka(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "librd.in", "librd.out")
	script, err := filepath.Abs("testdata/librdkafka_producer.py")
	if err != nil {
		t.Fatal(err)
	}
	for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		if out, err := exec.Command("python3", script, c.brokers, "librd.in", codec, strconv.Itoa(500*i)).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", codec, err, out)
		}
	}
	p := c.run("librd", nil, []string{"--until-end"}, misbehaves(t, "good"))
	p.endsWith(0)
	if n := len(c.read("librd.out")[0]); n != 2500 {
		t.Errorf("%d records, want 2500", n)
	}
	c.sameRecords("librd", 0)
}

// Of a topic with LogAppendTime, records carry the broker's time and not the
// producer's, as franz-go reads them.
func TestKafka_LogAppendTime(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, map[string]*string{"message.timestamp.type": text("LogAppendTime")}, "append.in")
	records := numbered(0, 50)
	old := time.UnixMilli(1_000_000_000_000)
	for _, r := range records {
		r.Timestamp = old
	}
	c.put("append.in", records...)
	code, lines, _ := runProgram(t, programOptions{}, "consume", "-b", c.brokers, "-e", "-o", "start", "append.in")
	want := c.read("append.in")[0]
	got := strings.Split(strings.TrimSpace(lines), "\n")
	if code != 0 || len(got) != len(want) {
		t.Fatalf("exit code %d, %d lines", code, len(got))
	}
	for i, line := range got {
		var record struct{ Timestamp int64 }
		if err := json.Unmarshal([]byte(line), &record); err != nil {
			t.Fatal(err)
		}
		if record.Timestamp != want[i].Timestamp.UnixMilli() || record.Timestamp == old.UnixMilli() {
			t.Fatalf("record %d has the time %d, want %d", i, record.Timestamp, want[i].Timestamp.UnixMilli())
		}
	}
}
