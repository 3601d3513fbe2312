//go:build kafka

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// given is one right of a case's user.
type given struct {
	resource  string // topic, group or cluster
	name      string // behind the case's name: .in, .out or .case.in
	operation kmsg.ACLOperation
}

var (
	readsInlet   = given{"topic", ".in", kmsg.ACLOperationRead}
	seesInlet    = given{"topic", ".in", kmsg.ACLOperationDescribe}
	readsGroup   = given{"group", ".case.in", kmsg.ACLOperationRead}
	seesGroup    = given{"group", ".case.in", kmsg.ACLOperationDescribe}
	writesOutlet = given{"topic", ".out", kmsg.ACLOperationWrite}
	seesOutlet   = given{"topic", ".out", kmsg.ACLOperationDescribe}
	idempotent   = given{"cluster", "", kmsg.ACLOperationIdempotentWrite}
)

// rightsCase is a user of its own who lacks one right.
type rightsCase struct {
	*realCluster
	name string
}

func (c *rightsCase) user() string { return "User:" + c.name }

func (c *rightsCase) builder(g given) *kadm.ACLBuilder {
	b := kadm.NewACLs().Operations(g.operation).ResourcePatternType(kadm.ACLPatternLiteral)
	switch g.resource {
	case "topic":
		return b.Topics(c.name + g.name)
	case "group":
		return b.Groups(c.name + g.name)
	}
	return b.Clusters()
}

func (c *rightsCase) give(g given) {
	c.t.Helper()
	made, err := c.admin.CreateACLs(c.ctx, c.builder(g).Allow(c.user()).AllowHosts("*"))
	for _, one := range made {
		err = errors.Join(err, one.Err)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *rightsCase) take(g given) {
	c.t.Helper()
	gone, err := c.admin.DeleteACLs(c.ctx, c.builder(g).Allow(c.user()).AllowHosts("*"))
	for _, one := range gone {
		err = errors.Join(err, one.Err)
		if len(one.Deleted) == 0 {
			err = errors.Join(err, errors.New("the right was not there"))
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// isVerdict: the line is about the partition that waits; its attribute error has
// the cause again, for alerts.
func isVerdict(line string) bool { return strings.Contains(line, "WRN convicted") }

// named waits for a line that names the right, what it is on and the user, and
// wants it within seconds. The count that it returns is for later: there is to be
// one line and no more, also when it has been tried again.
func (c *rightsCase) named(p *program, from int, began time.Time, words []string) (count func() int) {
	c.t.Helper()
	complete := func(line string) bool {
		if isVerdict(line) {
			return false
		}
		for _, word := range append(words, c.user()) {
			if !strings.Contains(line, strings.ReplaceAll(word, "NAME", c.name)) {
				return false
			}
		}
		return true
	}
	count = func() (n int) {
		for line := range strings.Lines(p.since(from)) {
			if complete(line) {
				n++
			}
		}
		return n
	}
	for count() == 0 {
		p.mu.Lock()
		more := p.more
		p.mu.Unlock()
		if count() > 0 {
			break
		}
		select {
		case <-more:
		case <-time.After(testLimit / 2):
			c.t.Fatalf("no line names %q and %s:\n%s", words, c.user(), p.since(from))
		}
	}
	took := time.Since(began)
	if took > 20*time.Second {
		c.t.Errorf("the line came after %v", took)
	}
	c.t.Logf("named after %v", took.Round(100*time.Millisecond))
	return count
}

// once wants one line that names the right, and none beside it that names the
// user.
func (c *rightsCase) once(p *program, from int, count func() int) {
	c.t.Helper()
	if n := count(); n != 1 {
		c.t.Errorf("%d lines name the right, want 1:\n%s", n, p.since(from))
	}
	lines := 0
	for line := range strings.Lines(p.since(from)) {
		if strings.Contains(line, c.user()) && !isVerdict(line) {
			lines++
		}
	}
	if lines != 1 {
		c.t.Errorf("%d lines name the user, want 1:\n%s", lines, p.since(from))
	}
}

// Every right taken away, one by one, before the start and in mid-work: named in
// seconds with what it is on and whose it is; given back, the work goes on
// without a restart.
func TestKafka_Case60_EveryRightTakenAway(t *testing.T) {
	t.Parallel()
	read := []given{readsInlet, readsGroup}
	for _, tt := range []struct {
		name       string
		has        []given
		lacks      given
		first, mid []string
	}{
		{"topic-read", []given{seesInlet, readsGroup, writesOutlet}, readsInlet, []string{"READ", "topic NAME.in"}, []string{"READ", "topic NAME.in"}},
		{"topic-describe", []given{readsGroup, writesOutlet}, readsInlet, []string{"DESCRIBE", "topic NAME.in"}, []string{"READ", "topic NAME.in"}},
		{"group-read", []given{readsInlet, seesGroup, writesOutlet}, readsGroup, []string{"READ", "group NAME.case.in"}, []string{"READ", "group NAME.case.in"}},
		{"group-describe", []given{readsInlet, writesOutlet}, readsGroup, []string{"READ", "group NAME.case.in"}, []string{"READ", "group NAME.case.in"}},
		{"topic-write", append(read, seesOutlet, idempotent), writesOutlet, []string{"WRITE", "NAME.out"}, []string{"WRITE", "NAME.out"}},
		{"outlet-describe", append(read, idempotent), writesOutlet, []string{"DESCRIBE", "topic NAME.out"}, []string{"WRITE", "NAME.out"}},
		{"idempotent-write", append(read, seesOutlet), writesOutlet, []string{"IDEMPOTENT_WRITE", "cluster", "WRITE"}, []string{"WRITE", "NAME.out"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := &rightsCase{kafkaCluster(t), "lacks-" + tt.name}
			c.create(1, nil, c.name+".in", c.name+".out")
			made, err := c.admin.AlterUserSCRAMs(c.ctx, nil, []kadm.UpsertSCRAM{{User: c.name, Mechanism: kadm.ScramSha256, Iterations: 4096, Password: "secret"}})
			if err == nil {
				err = made.Error()
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, right := range tt.has {
				c.give(right)
			}
			c.put(c.name+".in", numbered(0, 10)...)
			config := c.configured("SASL", sasl("SASL_PLAINTEXT", "SCRAM-SHA-256", c.name, "secret")...)
			args := append([]string{"--log-format", "text", "-c", config, "run", "--pipeline", c.name, "--"}, countedCommand()...)
			began := time.Now()
			p := startProgram(t, programOptions{dir: t.TempDir(), env: []string{countedChild + "=-", "FLOW_SESSION_TIMEOUT=6s", "FLOW_RECONNECT_MAX_BACKOFF=1s", "FLOW_METRICS_PORT=0"}}, args...)
			count := c.named(p, 0, began, tt.first)
			if at := c.committed(c.name)[0]; at > 0 {
				t.Errorf("committed at %d without the right", at)
			}
			c.give(tt.lacks)
			c.awaitEnd(c.name)
			c.once(p, 0, count)
			at := p.count()
			c.take(tt.lacks)
			began = time.Now()
			c.put(c.name+".in", numbered(10, 20)...)
			count = c.named(p, at, began, tt.mid)
			c.give(tt.lacks)
			c.awaitEnd(c.name)
			c.once(p, at, count)
			if out := c.read(c.name + ".out")[0]; keys(out) != keys(numbered(0, 20)) {
				t.Errorf("written: %s", keys(out))
			}
			p.stopsWell()
		})
	}
}
