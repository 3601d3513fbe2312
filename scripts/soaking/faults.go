package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// endLimit is how long a supervisor may take to end: its budget is 25 s, and
// the machine may be busy.
const endLimit = 2 * time.Minute

// supervisorLane does its faults when they are due; one that lasts does not hold
// up the next, but has its victim to itself.
func (k *soak) supervisorLane(ctx context.Context, faults []fault) error {
	var lasting sync.WaitGroup
	defer lasting.Wait()
	errs := make(chan error, len(faults))
	for _, f := range faults {
		if !pause(ctx, time.Until(k.begin.Add(f.At))) {
			return nil
		}
		lasting.Go(func() { // ends with its fault; awaited by this lane
			if err := k.harm(ctx, f); err != nil {
				errs <- fmt.Errorf("%s: %w", f.Kind, err)
			}
		})
		select {
		case err := <-errs:
			return err
		default:
		}
	}
	lasting.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// harm does one fault of the supervisors' lane.
func (k *soak) harm(ctx context.Context, f fault) error {
	switch f.Kind {
	case moveLeaders:
		k.did(f, "")
		k.moveLeaders(ctx, f.Pick)
		return nil
	case addSupervisor:
		return k.oneMore(f)
	}
	s := k.hold(f)
	if s == nil {
		k.event("%s: no victim", f.Kind)
		return nil
	}
	defer k.release(s)
	if !s.running() {
		k.problem("exit: %s ended by itself: %v", s.name, s.cmd.ProcessState)
		return s.start()
	}
	k.did(f, s.name)
	defer k.event("%s %s: over", f.Kind, s.name)
	switch f.Kind {
	case killProcess:
		s.signalProcess(s.processPid(), syscall.SIGKILL, k.mark)
	case stopProcess, freezeProcess:
		if pid := s.processPid(); s.signalProcess(pid, syscall.SIGSTOP, k.mark) {
			pause(ctx, f.For)
			s.signalProcess(pid, syscall.SIGCONT, k.mark)
		}
	case stopSupervisor, freezeSuper:
		s.signal(syscall.SIGSTOP)
		pause(ctx, f.For)
		s.signal(syscall.SIGCONT)
	case killSupervisor:
		s.end(syscall.SIGKILL, endLimit)
		pause(ctx, f.For)
		return s.start()
	case endSupervisor:
		k.end(s)
		pause(ctx, f.For)
		return s.start()
	case removeSuper:
		k.end(s)
	}
	return nil
}

// end asks a supervisor to end. 1 is what it says when the cluster does not let
// it finish within its budget.
func (k *soak) end(s *supervisor) {
	switch {
	case !s.end(syscall.SIGTERM, endLimit):
		k.problem("hung: %s is still there %v after SIGTERM", s.name, endLimit)
		s.end(syscall.SIGKILL, endLimit)
	case s.cmd.ProcessState.ExitCode() < 0 || s.cmd.ProcessState.ExitCode() > 1:
		k.problem("exit: %s, asked to end: %v", s.name, s.cmd.ProcessState)
	}
}

// Bounds of how many supervisors a stream has.
const (
	fewest = 1
	most   = 4
)

// oneMore starts a supervisor for a stream that has not too many.
func (k *soak) oneMore(f fault) error {
	mode := modeNames[f.Pick%uint64(len(modeNames))]
	if k.count(mode) >= most {
		k.event("%s: %s has %d", f.Kind, mode, most)
		return nil
	}
	k.did(f, mode)
	return k.add(mode)
}

func (k *soak) count(mode string) (n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.supervisors {
		if s.mode == mode {
			n++
		}
	}
	return n
}

// hold takes a fault's victim; nil when there is none. One that is removed is
// gone for the others at once.
func (k *soak) hold(f fault) *supervisor {
	k.mu.Lock()
	defer k.mu.Unlock()
	counts := map[string]int{}
	for _, s := range k.supervisors {
		counts[s.mode]++
	}
	var free []int
	for i, s := range k.supervisors {
		if !s.busy && (f.Kind != removeSuper || counts[s.mode] > fewest) {
			free = append(free, i)
		}
	}
	if len(free) == 0 {
		return nil
	}
	i := free[f.Pick%uint64(len(free))]
	s := k.supervisors[i]
	s.busy = true
	if f.Kind == removeSuper {
		k.supervisors = append(k.supervisors[:i:i], k.supervisors[i+1:]...)
	}
	return s
}

func (k *soak) release(s *supervisor) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s.busy = false
}

// did counts a fault and notes its time.
func (k *soak) did(f fault, victim string) {
	k.event("%s %s (for %v)", f.Kind, victim, f.For)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.counts[f.Kind]++
}

// moveLeaders gives about half of all partitions, those of the commits included,
// another leader. A cluster that is not whole may refuse.
func (k *soak) moveLeaders(ctx context.Context, pick uint64) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	listed, err := k.admin.ListTopics(ctx)
	if err != nil {
		k.event("leaders do not move: %v", err)
		return
	}
	request, elect := kadm.AlterPartitionAssignmentsReq{}, kadm.TopicsSet{}
	for _, topic := range listed.Sorted() {
		if _, ours := k.topics()[topic.Topic]; !ours && topic.Topic != "__consumer_offsets" {
			continue
		}
		for _, p := range topic.Partitions.Sorted() {
			if pick = pick*6364136223846793005 + 1442695040888963407; pick>>63 == 0 || len(p.Replicas) < 2 {
				continue
			}
			request.Assign(topic.Topic, p.Partition, append(append([]int32(nil), p.Replicas[1:]...), p.Replicas[0]))
			elect.Add(topic.Topic, p.Partition)
		}
	}
	if _, err := k.admin.AlterPartitionAssignments(ctx, request); err != nil {
		k.event("leaders do not move: %v", err)
		return
	}
	if _, err := k.admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, elect); err != nil {
		k.event("leaders do not move: %v", err)
	}
}

// brokerLane does one fault after another; each finds a whole cluster, so that
// Kafka loses nothing that it confirmed.
func (k *soak) brokerLane(ctx context.Context, faults []fault, total time.Duration) error {
	for _, f := range faults {
		if !pause(ctx, f.Gap) || time.Since(k.begin) > total {
			return nil
		}
		if err := k.harmBrokers(ctx, f); err != nil {
			return fmt.Errorf("%s: %w", f.Kind, err)
		}
		if err := k.awaitWhole(ctx); err != nil {
			return err
		}
		k.event("the cluster is whole")
	}
	return nil
}

func (k *soak) harmBrokers(ctx context.Context, f fault) error {
	victim := brokerNames[f.Pick%3]
	next := brokerNames[(f.Pick+1)%3]
	switch f.Kind {
	case killBroker:
		return k.away(ctx, f, "kill", victim)
	case endBroker:
		return k.away(ctx, f, "stop", victim)
	case stopBroker, freezeBroker:
		return k.away(ctx, f, "pause", victim)
	case stopTwoBrokers:
		return k.away(ctx, f, "pause", victim, next)
	case starveOutlets:
		return k.starve(ctx, f, victim)
	}
	return fmt.Errorf("no such fault")
}

// away takes brokers away and brings them back. They come back also when the
// soak is broken off: one that is stopped could not be ended.
func (k *soak) away(ctx context.Context, f fault, how string, victims ...string) error {
	k.did(f, strings.Join(victims, " and "))
	back := context.WithoutCancel(ctx)
	for _, victim := range victims {
		if _, err := k.cluster.tool(back, how, victim); err != nil {
			return err
		}
	}
	pause(ctx, f.For)
	for _, victim := range victims {
		if _, err := k.cluster.tool(back, "start", victim); err != nil {
			return err
		}
	}
	k.event("%s: they run again", f.Kind)
	return nil
}

// starve lets the outlets' topics need all three copies while one broker is
// away: writes are refused for want of replicas.
func (k *soak) starve(ctx context.Context, f fault, victim string) error {
	if err := k.needCopies(ctx, "3"); err != nil {
		return err
	}
	if err := k.away(ctx, f, "kill", victim); err != nil {
		return err
	}
	if err := k.awaitWhole(ctx); err != nil {
		return err
	}
	return k.needCopies(ctx, "2")
}

// needCopies sets how many copies a write to an outlet needs.
func (k *soak) needCopies(ctx context.Context, n string) error {
	var outlets []string
	for topic := range k.topics() {
		if topic != k.topic("", "in") {
			outlets = append(outlets, topic)
		}
	}
	answers, err := k.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "min.insync.replicas", Value: &n}}, outlets...)
	if err != nil {
		return err
	}
	for _, answer := range answers {
		if answer.Err != nil {
			return fmt.Errorf("setting min.insync.replicas of %s: %w", answer.Name, answer.Err)
		}
	}
	return nil
}
