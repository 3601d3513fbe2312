//go:build kafka

package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// assigned is how many partitions each member of a stable group has, sorted;
// nil while it is not stable or a partition has two owners.
func (c *realCluster) assigned(name string) []int {
	c.t.Helper()
	described, err := c.admin.DescribeGroups(c.ctx, groupOf(name))
	if err != nil || described[groupOf(name)].State != "Stable" {
		return nil
	}
	counts, seen := []int{}, map[int32]bool{}
	for _, member := range described[groupOf(name)].Members {
		assignment, ok := member.Assigned.AsConsumer()
		if !ok {
			return nil
		}
		n := 0
		for _, topic := range assignment.Topics {
			for _, p := range topic.Partitions {
				if seen[p] {
					return nil
				}
				seen[p] = true
				n++
			}
		}
		counts = append(counts, n)
	}
	slices.Sort(counts)
	return counts
}

func (c *realCluster) awaitAssigned(name string, want ...int) {
	c.t.Helper()
	eventually(c.t, fmt.Sprintf("the group's members have %v partitions", want), func() bool {
		return slices.Equal(c.assigned(name), want)
	})
}

// javaConsumer is Kafka's own console consumer in a group, with the
// cooperative-sticky assignor; what it prints is kept by key.
type javaConsumer struct {
	cmd    *exec.Cmd
	exited chan struct{}
	mu     sync.Mutex
	keys   map[string]bool
	other  []string
}

func (c *realCluster) java(name string) *javaConsumer {
	c.t.Helper()
	j := &javaConsumer{exited: make(chan struct{}), keys: map[string]bool{}}
	property := "--command-property"
	j.cmd = kafkaTool("tool", "consumer.ConsoleConsumer", "--bootstrap-server", c.brokers, "--topic", name+".in",
		"--group", groupOf(name), "--from-beginning", "--formatter-property", "print.key=true", "--formatter-property", "print.value=false",
		property, "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
		property, "session.timeout.ms=6000", property, "heartbeat.interval.ms=500", property, "auto.commit.interval.ms=200")
	out, err := j.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	j.cmd.Stderr = j.cmd.Stdout
	if err := j.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() { // ends with the consumer; awaited through exited
		defer close(j.exited)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			j.line(lines.Text())
		}
		_ = j.cmd.Wait()
	}()
	c.t.Cleanup(func() {
		j.end(syscall.SIGKILL)
		if c.t.Failed() {
			c.t.Logf("Java's consumer also wrote:\n%s", strings.Join(j.other, "\n"))
		}
	})
	return j
}

func (j *javaConsumer) line(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if strings.HasPrefix(line, "k") {
		j.keys[strings.TrimSpace(line)] = true
		return
	}
	j.other = append(j.other, line)
}

func (j *javaConsumer) end(signal syscall.Signal) {
	_ = j.cmd.Process.Signal(signal)
	<-j.exited
}

// seen is every key that came out, here or in Java.
func (c *realCluster) seen(name string, consumers ...*javaConsumer) map[string]bool {
	c.t.Helper()
	all := map[string]bool{}
	for _, r := range flat(c.read(name + ".out")) {
		all[string(r.Key)] = true
	}
	for _, j := range consumers {
		j.mu.Lock()
		for key := range j.keys {
			all[key] = true
		}
		j.mu.Unlock()
	}
	return all
}

// A group that is shared with Java's cooperative-sticky consumer: both get
// partitions, each survives the other's end and return, and every record is
// seen by one of them.
func TestKafka_Case59_SharedWithJava(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(4, nil, "java.in", "java.out")
	first := c.java("java")
	c.awaitAssigned("java", 4)
	ours := c.run("java", nil, nil, misbehaves(t, "good")) // Java leads the group
	c.awaitAssigned("java", 2, 2)
	c.put("java.in", numbered(0, 1000)...)
	consumers := []*javaConsumer{first}
	everything := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d keys were seen", n), func() bool { return len(c.seen("java", consumers...)) == n })
	}
	everything(1000)
	ours.stopsWell()
	c.awaitAssigned("java", 4)
	ours = c.run("java", nil, nil, misbehaves(t, "good"))
	c.awaitAssigned("java", 2, 2)
	first.end(syscall.SIGTERM)
	c.awaitAssigned("java", 4) // ours alone
	c.put("java.in", numbered(1000, 2000)...)
	everything(2000)
	second := c.java("java") // ours leads the group
	consumers = append(consumers, second)
	c.awaitAssigned("java", 2, 2)
	c.put("java.in", numbered(2000, 3000)...)
	everything(3000)
	second.end(syscall.SIGKILL)
	c.put("java.in", numbered(3000, 4000)...)
	c.awaitAssigned("java", 4)
	everything(4000)
	first.mu.Lock()
	defer first.mu.Unlock()
	if len(first.keys) < 300 || len(second.keys) < 300 {
		t.Errorf("Java saw %d and %d records, want about half each time", len(first.keys), len(second.keys))
	}
	ours.stopsWell()
}

// Members that come and go do not touch the partitions that stay: with the
// cooperative protocol nobody's batch is given up. One that stops leaves at once,
// however long its session is.
func TestKafka_MembersComeAndGo(t *testing.T) {
	t.Parallel()
	c := kafkaCluster(t)
	c.create(6, nil, "members.in", "members.out")
	long := []string{"FLOW_SESSION_TIMEOUT=45s"}
	first := c.run("members", long, nil, misbehaves(t, "good"))
	c.awaitAssigned("members", 6)
	n := 0
	put := func() {
		c.put("members.in", numbered(n, n+600)...)
		n += 600
	}
	put()
	second := c.run("members", long, nil, misbehaves(t, "good"))
	c.awaitAssigned("members", 3, 3)
	put()
	third := c.run("members", nil, nil, misbehaves(t, "good"))
	c.awaitAssigned("members", 2, 2, 2)
	put()
	begin := time.Now()
	second.stopsWell()
	c.awaitAssigned("members", 3, 3)
	if took := time.Since(begin); took > 20*time.Second { // its session would last 45 s
		t.Errorf("a member left, and the others had its partitions only %.1f s later", took.Seconds())
	}
	_ = third.cmd.Process.Kill()
	put()
	c.awaitAssigned("members", 6)
	c.awaitEnd("members")
	if seen := len(c.seen("members")); seen != n {
		t.Errorf("%d of %d records came out", seen, n)
	}
	first.stopsWell()
}

// kill -9 of the coordinator's broker: the group goes on within seconds, with
// the same members, although a session lasts 45 s.
func TestKafka_CoordinatorIsKilled(t *testing.T) {
	c := kafkaCluster(t)
	c.create(4, nil, "coord.in", "coord.out")
	long := []string{"FLOW_SESSION_TIMEOUT=45s"}
	a := c.run("coord", long, nil, misbehaves(t, "good"))
	c.awaitAssigned("coord", 4)
	b := c.run("coord", long, nil, misbehaves(t, "good"))
	c.awaitAssigned("coord", 2, 2)
	c.put("coord.in", numbered(0, 100)...)
	c.awaitEnd("coord")
	node := fmt.Sprint(c.coordinator(groupOf("coord")))
	begin := time.Now()
	back := c.away("kill", node)
	c.put("coord.in", numbered(100, 200)...)
	c.awaitEnd("coord")
	took := time.Since(begin)
	t.Logf("written, delivered and committed %.1f s after the kill", took.Seconds())
	if took > 20*time.Second {
		t.Errorf("it took %.1f s", took.Seconds())
	}
	c.awaitAssigned("coord", 2, 2)
	back()
	a.stopsWell()
	b.stopsWell()
	if n := len(flat(c.read("coord.out"))); n != 200 {
		t.Errorf("%d records are written, want 200: nothing failed here", n)
	}
}
