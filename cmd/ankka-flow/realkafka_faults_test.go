//go:build kafka

package main

import (
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/scripts/checker"
)

const realRecords = 30_000

// realProof is three streamlets on the real cluster, one of them under two
// supervisors that share its group.
type realProof struct {
	*realCluster
	random *rand.Rand
	runs   []*proofRun
	inputs *proofInputs
}

// TestKafka_Proof is the whole promise on the real cluster: everything that a
// cluster, a machine and a person do to supervisors, while records flow. The
// seed chooses victims and moments; the outcome is read from the logs, those of
// the group's commits included.
func TestKafka_Proof(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv("PROOF_SEED"); given != "" {
		n, err := strconv.ParseUint(given, 10, 64)
		if err != nil {
			t.Fatalf("PROOF_SEED: %v", err)
		}
		seed = n
	}
	t.Logf("seed %d (PROOF_SEED=%d replays the choices)", seed, seed)
	c := kafkaCluster(t)
	p := &realProof{realCluster: c, random: rand.New(rand.NewPCG(seed, 0)), inputs: &proofInputs{}}
	topics := []string{"proof.in"}
	for _, mode := range proofModes {
		topics = append(topics, "proof-"+mode+".out", "proof-"+mode+".other")
	}
	// The broker's own clock stamps outputs and commits, so that which came
	// first is in the logs.
	c.create(proofPartitions, map[string]*string{"message.timestamp.type": text("LogAppendTime")}, topics...)
	all := map[string]*proofRun{}
	for _, mode := range append([]string{"forward"}, proofModes...) {
		all[mode] = startProof(t, mode, []string{c.brokers})
		p.runs = append(p.runs, all[mode])
	}
	p.feedThroughFaults()
	begin := time.Now()
	awaitCommitted(c.ctx, t, strings.Split(c.brokers, ","), all)
	t.Logf("committed to the end %.1f s after the last record", time.Since(begin).Seconds())
	for _, run := range p.runs {
		run.stop(t)
	}
	proofFigures(t, c.judge(topics, proofStreams()), realRecords)
}

// feedThroughFaults writes the input in as many parts as there are faults, one
// fault in each.
func (p *realProof) feedThroughFaults() {
	p.t.Helper()
	faults := []func(*proofRun){
		p.killProcess, p.killProcess, p.killProcess, p.killSupervisor, p.killSupervisor, p.restart, p.restart, p.freeze,
		p.moveLeaders, p.moveLeaders, p.killLeader, p.killCoordinator, p.stopBroker, p.pauseBroker,
	}
	names := []string{
		"kill -9 of a process", "kill -9 of a process", "kill -9 of a process", "kill -9 of a supervisor", "kill -9 of a supervisor",
		"SIGTERM of a supervisor", "SIGTERM of a supervisor", "SIGSTOP of a supervisor beyond its session", "leaders move", "leaders move",
		"kill -9 of a leader", "kill -9 of a coordinator", "SIGTERM of a broker", "SIGSTOP of a broker",
	}
	writer := p.franz(kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	for i, which := range p.random.Perm(len(faults)) {
		run := p.runs[p.random.IntN(len(p.runs))]
		run.process(p.ctx, p.t, true)
		fed := make(chan error, 1)
		go func() { // writes one part; awaited below
			fed <- feed(p.ctx, writer, p.inputs, i*realRecords/len(faults), (i+1)*realRecords/len(faults))
		}()
		// The moment is what is random here; nothing is waited for.
		moment := time.NewTimer(time.Duration(p.random.IntN(200_000)) * time.Microsecond)
		<-moment.C
		begin := time.Now()
		faults[which](run)
		p.t.Logf("%s (%s): %.1f s", names[which], run.mode, time.Since(begin).Seconds())
		if err := <-fed; err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *realProof) killProcess(run *proofRun)    { run.killProcess(run.process(p.ctx, p.t, true)) }
func (p *realProof) killSupervisor(run *proofRun) { run.killSelf(p.ctx, p.t) }

// restart is a supervisor that leaves the group and comes back.
func (p *realProof) restart(run *proofRun) {
	run.stop(p.t)
	run.mu.Lock()
	run.runs = false
	run.mu.Unlock()
	run.start(p.t)
}

// freeze stops a supervisor for longer than its session; the others go on.
func (p *realProof) freeze(run *proofRun) {
	if err := run.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	over := time.NewTimer(8 * time.Second) // its session is 6 s
	<-over.C
	if err := run.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
}

func (p *realProof) moveLeaders(*proofRun) {
	p.t.Helper()
	described, err := p.admin.ListTopics(p.ctx, "proof.in", "proof-forward.out", "proof-fan.other")
	if err != nil {
		p.t.Fatal(err)
	}
	request := kadm.AlterPartitionAssignmentsReq{}
	elect := kadm.TopicsSet{}
	for _, topic := range described {
		for _, one := range topic.Partitions {
			replicas := append(append([]int32(nil), one.Replicas[1:]...), one.Replicas[0])
			request.Assign(topic.Topic, one.Partition, replicas)
			elect.Add(topic.Topic, one.Partition)
		}
	}
	if _, err := p.admin.AlterPartitionAssignments(p.ctx, request); err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.admin.ElectLeaders(p.ctx, kadm.ElectPreferredReplica, elect); err != nil {
		p.t.Fatal(err)
	}
}

// broker takes a broker away and brings it back, and waits until it has
// everything again, so that the next fault finds a whole cluster.
func (p *realProof) broker(node int32, how string, away time.Duration) {
	p.t.Helper()
	back := p.away(how, strconv.Itoa(int(node)))
	over := time.NewTimer(away)
	<-over.C
	back()
}

func (p *realProof) killLeader(run *proofRun) {
	p.t.Helper()
	described, err := p.admin.ListTopics(p.ctx, "proof-"+run.mode+".out")
	if err != nil {
		p.t.Fatal(err)
	}
	p.broker(described["proof-"+run.mode+".out"].Partitions[int32(p.random.IntN(proofPartitions))].Leader, "kill", time.Second)
}

func (p *realProof) killCoordinator(run *proofRun) {
	p.t.Helper()
	p.broker(p.coordinator("proof-"+run.mode+".proof-"+run.mode+".in"), "kill", time.Second)
}

func (p *realProof) stopBroker(*proofRun) { p.broker(int32(1+p.random.IntN(3)), "stop", 0) }

func (p *realProof) pauseBroker(*proofRun) {
	p.broker(int32(1+p.random.IntN(3)), "pause", 5*time.Second)
}

func (c *realCluster) coordinator(group string) int32 {
	c.t.Helper()
	one := c.admin.FindGroupCoordinators(c.ctx, group)[group]
	if one.Err != nil {
		c.t.Fatal(one.Err)
	}
	return one.NodeID
}

// judge has the checker read the logs, those of the groups' commits included.
func (c *realCluster) judge(topics []string, streams []checker.Stream) *checker.Report {
	c.t.Helper()
	brokers := strings.Split(c.brokers, ",")
	logs, err := checker.Read(c.ctx, brokers, topics...)
	if err != nil {
		c.t.Fatal(err)
	}
	var groups []string
	for _, s := range streams {
		groups = append(groups, s.Group)
	}
	commits, err := checker.ReadCommits(c.ctx, brokers, groups...)
	if err != nil {
		c.t.Fatal(err)
	}
	return violations(c.t, checker.Check(streams, checker.Evidence{Logs: logs, Commits: commits}))
}
