//go:build kafka

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// generation is the newest generation of a group, as the brokers' own log of
// it says: every rebalance counts one on.
func (c *realCluster) generation(group string) int32 {
	c.t.Helper()
	var newest int32
	for _, r := range flat(c.readWith("__consumer_offsets")) {
		key, value := kmsg.NewGroupMetadataKey(), kmsg.NewGroupMetadataValue()
		if len(r.Key) < 2 || r.Key[1] != 2 || r.Value == nil || key.ReadFrom(r.Key) != nil || key.Group != group {
			continue
		}
		if err := value.ReadFrom(r.Value); err != nil {
			c.t.Fatal(err)
		}
		newest = max(newest, value.Generation)
	}
	return newest
}

// config is a file with settings of the inlet's consumer.
func (c *realCluster) config(lines ...string) string {
	c.t.Helper()
	file := filepath.Join(c.t.TempDir(), "flow.yaml")
	text := fmt.Sprintf("bootstrap.servers: %q\nconsumer-config:\n  %s\n", c.brokers, strings.Join(lines, "\n  "))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return file
}

// onePerPartition writes one record to each partition of a topic.
func (c *realCluster) onePerPartition(topic string, partitions int, key string) {
	c.t.Helper()
	writer := c.franz(kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer writer.Close()
	for p := range partitions {
		r := &kgo.Record{Topic: topic, Partition: int32(p), Key: []byte(fmt.Sprintf("%s-%d", key, p))}
		if err := writer.ProduceSync(c.ctx, r).FirstErr(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// Members come and go while a process holds the batches of every partition for
// longer than the session: those of the partitions that stay are neither given
// up nor delivered again, those of the others are, and the member that is busy
// stays a member (R3, R7).
func TestKafka_R7_WhatStaysIsNotInterrupted(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(4, nil, "stays.in", "stays.out")
	hold := newHeld(t)
	a := c.run("stays", nil, nil, misbehaves(t, "hold", "--until", hold.path))
	c.awaitAssigned("stays", 4)
	c.onePerPartition("stays.in", 4, "k")
	a.await(`holding batch 1`)
	over := time.NewTimer(8 * time.Second) // the session is 6 s
	for range 3 {
		b := c.run("stays", nil, nil, misbehaves(t, "good"))
		c.awaitAssigned("stays", 2, 2)
		eventually(t, "the other member has committed the two partitions that moved", func() bool { return sumOf(c.committed("stays")) == 2 })
		b.stopsWell()
		c.awaitAssigned("stays", 4)
	}
	<-over.C
	c.awaitAssigned("stays", 4)
	hold.all()
	c.awaitEnd("stays")
	if n := len(flat(c.read("stays.out"))); n != 4 {
		t.Errorf("%d records are written, want 4: two by the member that stayed, two by the other", n)
	}
	if n := strings.Count(a.stderr(), "holding batch"); n != 4 {
		t.Errorf("%d batches were delivered, want the 4 first ones alone", n)
	}
	if strings.Contains(a.stderr(), "generation has ended") {
		t.Error("the member that stayed lost a generation")
	}
	a.stopsWell()
}

// sumOf are all offsets together; those that are not known do not count.
func sumOf(offsets map[int32]int64) int64 {
	var sum int64
	for _, at := range offsets {
		sum += max(0, at)
	}
	return sum
}

// A configured static member that is stopped, or killed, and comes back within
// its session finds its partitions as they were: no generation passes, and the
// other member is not touched.
func TestKafka_AStaticMemberComesBack(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(4, nil, "static.in", "static.out")
	long := []string{"FLOW_SESSION_TIMEOUT=45s"}
	run := func(name string) *program {
		return c.run("static", long, []string{"-c", c.config("group.instance.id: " + name)}, misbehaves(t, "good"))
	}
	other := run("other")
	c.awaitAssigned("static", 4)
	p := run("one")
	c.awaitAssigned("static", 2, 2)
	generation := c.generation(groupOf("static"))
	for i, end := range []func(){
		func() { p.stopsWell() },
		func() { _ = p.cmd.Process.Kill(); <-p.exited },
	} {
		end()
		c.put("static.in", numbered(100*i, 100*i+100)...)
		p = run("one")
		c.awaitEnd("static")
	}
	if now := c.generation(groupOf("static")); now != generation {
		t.Errorf("generation %d, want %d still", now, generation)
	}
	if n := len(flat(c.read("static.out"))); n != 200 {
		t.Errorf("%d records are written, want 200", n)
	}
	other.stopsWell()
	p.stopsWell()
}

// A member that joins and leaves all the time, while a batch takes longer than
// it stays: there is progress all the while, with either protocol. (Scaled
// down: batches of 1.5 s under a member that stays for less than one. It answers
// no batch, so that all progress is the first member's.)
func TestKafka_Case40_AMemberComesAndGoesAllTheTime(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"cooperative-sticky", "range"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := kafkaCluster(t)
			name := "churn-" + protocol
			c.create(2, nil, name+".in", name+".out")
			// Range gives by the members' ids, which begin with the client's: so
			// the same partition stays through every generation. What is void
			// takes the process as long as what is not.
			flags := func(client string) []string {
				return []string{"-c", c.config("partition.assignment.strategy: "+protocol, "client.id: "+client)}
			}
			a := c.run(name, nil, flags("a"), misbehaves(t, "slow", "--seconds", "1.5"))
			c.awaitAssigned(name, 2)
			start := time.Now()
			rounds, records := 0, 0
			commits := map[int64]bool{}
			for ; time.Since(start) < 15*time.Second; rounds++ {
				c.onePerPartition(name+".in", 2, fmt.Sprint("k", rounds))
				records += 2
				b := c.run(name, nil, flags("b"), misbehaves(t, "silent-batches"))
				eventually(t, "the other member has joined", func() bool { return len(c.assigned(name)) == 2 })
				b.interrupt()
				b.wait()
				eventually(t, "the other member has left", func() bool { return len(c.assigned(name)) == 1 })
				commits[sumOf(c.committed(name))] = true
			}
			t.Logf("%d rounds; %d times something was committed", rounds, len(commits)-1)
			if len(commits) < 3 {
				t.Errorf("in %d rounds the commits moved %d times", rounds, len(commits)-1)
			}
			a.stopsWell()
			c.run(name, nil, append(flags("a"), "--until-end"), misbehaves(t, "good")).endsWith(0)
			if seen := len(c.seen(name)); seen != records {
				t.Errorf("%d of %d records came out", seen, records)
			}
		})
	}
}

// A record that fails for ever is not skipped by the rebalances in the middle
// of its retries: it is still the next one, and it alone.
func TestKafka_Case40_ARebalanceSkipsNoRetry(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(1, nil, "retry.in")
	c.create(1, nil, "retry.out")
	c.put("retry.in", numbered(0, 10)...)
	fails := sdkStreamlet(t, "", "        if record.offset == 10:\n            raise ValueError('never')\n        return self.out.emit(record)")
	env := []string{"FLOW_RECONNECT_MAX_BACKOFF=500ms"}
	a := c.run("retry", env, nil, fails)
	c.awaitEnd("retry")
	c.put("retry.in", numbered(10, 20)...)
	a.await(`retry\.in/0@10: .*never`)
	for range 5 {
		b := c.run("retry", env, nil, fails)
		eventually(t, "the other member has joined", func() bool { return len(c.assigned("retry")) == 2 })
		b.interrupt()
		b.wait() // 0, or 1 where it was stopped in the middle of a failure
		eventually(t, "the other member has left", func() bool { return len(c.assigned("retry")) == 1 })
	}
	if at := c.committed("retry")[0]; at != 10 {
		t.Errorf("committed at %d, want 10 still", at)
	}
	for _, r := range c.read("retry.out")[0] {
		if n := strings.TrimPrefix(string(r.Key), "k"); len(n) > 1 {
			t.Errorf("record %s came out, from behind the one that fails", n)
		}
	}
	a.interrupt()
	a.wait()
}

// Another library in the group, with another protocol: its name is said, nothing
// crashes or loops, and when it has gone the work goes on.
func TestKafka_Case59_AnotherLibraryInTheGroup(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(2, nil, "library.in", "library.out")
	c.put("library.in", numbered(0, 10)...)
	reader := kafkago.NewReader(kafkago.ReaderConfig{
		Brokers: strings.Split(c.brokers, ","), GroupID: groupOf("library"), Topic: "library.in", StartOffset: kafkago.FirstOffset,
		SessionTimeout: 6 * time.Second, JoinGroupBackoff: 100 * time.Millisecond,
	})
	if _, err := reader.FetchMessage(c.ctx); err != nil {
		t.Fatal(err)
	}
	p := c.run("library", nil, nil, misbehaves(t, "good"))
	p.await(`ERR .*INCONSISTENT_GROUP_PROTOCOL.*another client.*partition\.assignment\.strategy.* group=` + groupOf("library"))
	generation := c.generation(groupOf("library"))
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
	c.awaitEnd("library")
	if now := c.generation(groupOf("library")); now > generation+4 {
		t.Errorf("generation %d after %d: a loop of joins", now, generation)
	}
	p.stopsWell()
}
