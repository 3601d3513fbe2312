//go:build kafka

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Every command of scripts/kafka, on one broker of the test's own.
func TestKafka_Script(t *testing.T) {
	t.Parallel()
	run := t.TempDir()
	kafka := func(args ...string) (string, error) {
		command := kafkaTool(args...)
		command.Env = append(os.Environ(), "KAFKA_RUN="+run)
		out, err := command.CombinedOutput()
		return string(out), err
	}
	must := func(args ...string) string {
		t.Helper()
		out, err := kafka(args...)
		if err != nil {
			t.Fatalf("scripts/kafka %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return out
	}
	t.Cleanup(func() { _, _ = kafka("down") })
	t.Log(must("up", "1"))
	if out, err := kafka("up", "1"); err == nil || !strings.Contains(out, "is up already") {
		t.Errorf("a second up: %v: %s", err, out)
	}
	settings := map[string]string{}
	for _, line := range strings.Fields(must("env")) {
		name, value, _ := strings.Cut(line, "=")
		settings[name] = value
	}
	for _, name := range []string{"KAFKA_PLAINTEXT", "KAFKA_SASL", "KAFKA_SSL", "KAFKA_SASL_SSL"} {
		c, err := net.Dial("tcp", settings[name])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c.Close()
	}
	at := []string{"--bootstrap-server", settings["KAFKA_PLAINTEXT"]}
	must(append([]string{"tool", "TopicCommand", "--create", "--topic", "t", "--partitions", "1"}, at...)...)
	must("move", "t", "0", "1")
	pid := func() string { return must("ports") }
	for _, end := range []string{"pause", "kill", "stop"} {
		before := pid()
		must(end, "1")
		if end != "pause" && !strings.Contains(pid(), "not running") {
			t.Errorf("after %s: %s", end, pid())
		}
		must("start", "1")
		if same := before == pid(); same != (end == "pause") {
			t.Errorf("after %s and start: %s before, %s now", end, before, pid())
		}
		if out := must(append([]string{"tool", "TopicCommand", "--list"}, at...)...); !strings.Contains(out, "t") {
			t.Errorf("after %s and start the topic is gone: %s", end, out)
		}
	}
	must("down")
	if c, err := net.Dial("tcp", settings["KAFKA_PLAINTEXT"]); err == nil {
		c.Close()
		t.Error("something still listens after down")
	}
	if left, _ := filepath.Glob(filepath.Join(run, "1", "data")); left != nil {
		t.Errorf("data is left: %v", left)
	}
	if out, err := kafka("kill", "1"); err == nil || !strings.Contains(out, "no cluster is up") {
		t.Errorf("kill without a cluster: %v: %s", err, out)
	}
	if err := exec.Command(filepath.Join(repository, "scripts/kafka"), "up", "2").Run(); err == nil {
		t.Error("up 2 was taken")
	}
}

// Every broker is killed and stays away for longer than the session, with a
// batch in the process: said within seconds, and when they are back everything
// goes on by itself, with the same process.
func TestKafka_Case48_EveryBrokerIsAway(t *testing.T) {
	c := kafkaCluster(t)
	c.create(2, nil, "away.in", "away.out")
	hold := newHeld(t)
	p := c.run("away", nil, nil, misbehaves(t, "hold", "--until", hold.path))
	c.awaitAssigned("away", 2)
	c.onePerPartition("away.in", 2, "k")
	p.await(`holding batch 1`)
	at := p.count()
	back := c.away("kill", "1", "2", "3")
	begin := time.Now()
	p.awaitFrom(at, `(WRN|ERR) .*(away|refused)`)
	hold.all()
	over := time.NewTimer(time.Until(begin.Add(8 * time.Second))) // the session is 6 s
	<-over.C
	back()
	begin = time.Now()
	c.client = c.franz()
	c.awaitEnd("away")
	t.Logf("committed %.1f s after the brokers served again", time.Since(begin).Seconds())
	if seen := len(c.seen("away")); seen != 2 {
		t.Errorf("%d of 2 records came out", seen)
	}
	if n := strings.Count(p.stderr(), "INF process    pid"); n != 1 {
		t.Errorf("%d processes were started, want 1", n)
	}
	p.stopsWell()
}

// The drain of a rebalance that cannot end, since what is to be settled cannot
// be written: it is bounded, the member keeps its membership and the new one
// gets its share while the write still waits; then nothing is lost (case 44).
func TestKafka_Case44_ADrainThatCannotEnd(t *testing.T) {
	c := kafkaCluster(t)
	c.create(2, nil, "drain.in")
	c.create(1, map[string]*string{"min.insync.replicas": text("3")}, "drain.out")
	a := c.run("drain", nil, nil, misbehaves(t, "good"))
	c.awaitAssigned("drain", 2)
	back := c.away("kill", "3")
	eventually(t, "a copy is missing", func() bool {
		described, err := c.admin.ListTopics(c.ctx, "drain.out")
		return err == nil && len(described["drain.out"].Partitions) == 1 && len(described["drain.out"].Partitions[0].ISR) == 2
	})
	c.onePerPartition("drain.in", 2, "k")
	begin := time.Now()
	b := c.run("drain", nil, nil, misbehaves(t, "good"))
	c.awaitAssigned("drain", 1, 1)
	t.Logf("the new member has its share after %.1f s", time.Since(begin).Seconds())
	over := time.NewTimer(time.Until(begin.Add(8 * time.Second))) // beyond the session of 6 s
	<-over.C
	c.awaitAssigned("drain", 1, 1)
	if at := sumOf(c.committed("drain")); at != 0 {
		t.Errorf("%d records are committed, and none can be written", at)
	}
	back()
	c.awaitEnd("drain")
	if seen := len(c.seen("drain")); seen != 2 {
		t.Errorf("%d of 2 records came out", seen)
	}
	a.stopsWell()
	b.stopsWell()
}
