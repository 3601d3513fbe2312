package main

import (
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// usual is how long one kind of trouble goes on; ADVERSARY_MINUTES adds to it.
const usual = 3 * time.Second

// harass feeds records and makes trouble, in turn, for the usual time.
func (a *adversary) harass(trouble func()) {
	a.t.Helper()
	for began := time.Now(); time.Since(began) < usual+adversaryTime(); {
		a.feed(1 + a.random.IntN(60))
		trouble()
	}
}

// TestAdversary_Broker: whatever brokers do, one supervisor loses nothing,
// keeps the order and, since no result stays unknown, writes nothing twice.
func TestAdversary_Broker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		does    behaviour
		env     []string
		allowed strictness
		trouble func(a *adversary) func()
	}{
		{"leaders move", behaviour{}, nil, strictness{once: true}, movingLeaders},
		{"writes are refused", behaviour{Fan: true}, nil, strictness{once: true}, refusedWrites},
		{"commits are refused", behaviour{Asynchronous: true}, nil, strictness{once: true}, refusedCommits},
		{"commits are refused for good", behaviour{}, nil, strictness{}, endedGenerations},
		{"fetches fail", behaviour{Sleep: 0.01}, nil, strictness{once: true}, failingFetches},
		{"brokers are slow", behaviour{Fan: true}, nil, strictness{once: true}, slowBrokers},
		{"connections are cut", behaviour{Fan: true, Asynchronous: true}, nil, strictness{once: true}, cutConnections},
		{"answers are lost", behaviour{}, nil, strictness{once: true}, lostAnswers},
		{"brokers are away", behaviour{Fan: true}, nil, strictness{}, awayBrokers},
		{"brokers are mute", behaviour{Fan: true}, []string{"FLOW_WRITE_TIMEOUT=1s"}, strictness{}, muteBrokers},
		{"writes stay unknown", behaviour{Fan: true}, []string{"FLOW_WRITE_TIMEOUT=200ms", "FLOW_SESSION_TIMEOUT=20s"}, strictness{}, unknownWrites},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := startAdversary(t, c.does, c.env...)
			m := a.launch(false)
			a.feed(200)
			m.awaitReady(1)
			a.harass(c.trouble(a))
			a.calm()
			a.feed(50)
			a.awaitAll(30 * time.Second)
			a.stopAll()
			report := a.check(c.allowed)
			t.Logf("%d records in, %d written, %d commits, %d failures, %d KiB", len(a.inputs), report.Written, report.Commits, m.count(`"event":"failed"`), m.peak)
		})
	}
}

func movingLeaders(a *adversary) func() {
	extra := int32(-1)
	return func() {
		switch a.random.IntN(5) {
		case 0:
			topics := []string{advIn, advOut, advOther}
			topic := topics[a.random.IntN(3)]
			_ = a.cluster.MoveTopicPartition(topic, a.random.Int32N(3), a.random.Int32N(3)) // a node that is gone: no move
		case 1:
			a.cluster.ShufflePartitionLeaders()
		case 2:
			a.cluster.RehashCoordinators()
		case 3:
			if extra < 0 {
				node, _, err := a.cluster.AddNode(-1, 0)
				if err != nil {
					a.t.Fatal(err)
				}
				extra = node
			}
		case 4:
			if extra >= 0 {
				if err := a.cluster.RemoveNode(extra); err != nil {
					a.t.Fatal(err)
				}
				extra = -1
			}
		}
		a.pause(20*time.Millisecond, 300*time.Millisecond)
	}
}

// toOutlet: a produce request of a supervisor.
func toOutlet(req kmsg.Request) bool {
	for _, topic := range req.(*kmsg.ProduceRequest).Topics {
		if topic.Topic == advIn {
			return false
		}
	}
	return true
}

func refusedWrites(a *adversary) func() {
	var seen atomic.Int64
	nth := func(n int64) func(kmsg.Request) bool {
		return func(req kmsg.Request) bool { return toOutlet(req) && seen.Load()%n == 0 }
	}
	a.cluster.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		a.cluster.KeepControl()
		if !toOutlet(req) {
			return nil, nil, false
		}
		if n := seen.Add(1); n%7 == 0 {
			return nil, fmt.Errorf("the test drops request %d", n), true
		}
		return nil, nil, false
	})
	produce := []kmsg.Key{kmsg.Produce}
	a.fault(
		kfake.Fault{Keys: produce, Err: kerr.NotLeaderForPartition, Count: -1, When: nth(5)},
		kfake.Fault{Keys: produce, Err: kerr.RequestTimedOut, Count: -1, When: nth(11)},              // and it is written
		kfake.Fault{Keys: produce, Err: kerr.NotEnoughReplicasAfterAppend, Count: -1, When: nth(13)}, // and it is written
		kfake.Fault{Keys: produce, Err: kerr.UnknownTopicOrPartition, Count: -1, When: nth(17)},
	)
	return func() {
		if a.random.IntN(6) == 0 {
			h := a.fault(kfake.Fault{Keys: produce, Topic: advOut, Err: kerr.NotEnoughReplicas, Count: -1, When: toOutlet})
			a.pause(100*time.Millisecond, 800*time.Millisecond)
			h.Remove()
		}
		a.pause(5*time.Millisecond, 50*time.Millisecond)
	}
}

func refusedCommits(a *adversary) func() {
	codes := []*kerr.Error{kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable, kerr.NotCoordinator, kerr.RequestTimedOut, kerr.UnknownTopicOrPartition}
	return func() {
		a.fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.OffsetCommit}, Topic: advIn, Err: codes[a.random.IntN(len(codes))], Count: 1 + a.random.IntN(3),
		})
		a.pause(20*time.Millisecond, 200*time.Millisecond)
	}
}

func endedGenerations(a *adversary) func() {
	codes := []*kerr.Error{kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.GroupAuthorizationFailed, kerr.OffsetMetadataTooLarge}
	keys := []kmsg.Key{kmsg.OffsetCommit, kmsg.Heartbeat, kmsg.SyncGroup, kmsg.JoinGroup}
	return func() {
		key := keys[a.random.IntN(len(keys))]
		f := kfake.Fault{Keys: []kmsg.Key{key}, Group: advGroup, Err: codes[a.random.IntN(len(codes))], TopLevel: key != kmsg.OffsetCommit}
		if key == kmsg.OffsetCommit {
			f.Group, f.Topic = "", advIn
		}
		a.fault(f)
		a.pause(50*time.Millisecond, 400*time.Millisecond)
	}
}

func failingFetches(a *adversary) func() {
	codes := []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.UnknownTopicOrPartition, kerr.OffsetOutOfRange, kerr.KafkaStorageError, kerr.UnknownServerError,
		kerr.CorruptMessage, kerr.FencedLeaderEpoch, kerr.OffsetNotAvailable,
	}
	return func() {
		a.fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetFetch}[a.random.IntN(3):][:1], Topic: advIn,
			Err: codes[a.random.IntN(len(codes))], Count: 1 + a.random.IntN(3),
		})
		a.pause(20*time.Millisecond, 200*time.Millisecond)
	}
}

func slowBrokers(a *adversary) func() {
	var wait atomic.Int64
	a.t.Cleanup(func() { wait.Store(0) })
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.Metadata, kmsg.Heartbeat, kmsg.JoinGroup} {
		a.cluster.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			a.cluster.KeepControl()
			if d := time.Duration(wait.Load()); d > 0 {
				a.cluster.SleepControl(func() { <-time.After(d) })
			}
			return nil, nil, false
		})
	}
	return func() {
		wait.Store(int64(a.random.IntN(200)) * int64(time.Millisecond))
		a.pause(20*time.Millisecond, 200*time.Millisecond)
	}
}

func cutConnections(a *adversary) func() {
	return func() {
		a.net.cut()
		a.pause(10*time.Millisecond, 300*time.Millisecond)
	}
}

func lostAnswers(a *adversary) func() {
	return func() {
		a.net.lose(1 + a.random.IntN(8))
		a.pause(10*time.Millisecond, 300*time.Millisecond)
	}
}

// awayBrokers goes away for less and for longer than the session.
func awayBrokers(a *adversary) func() {
	return func() {
		a.net.refuse(true)
		a.pause(100*time.Millisecond, 3*time.Second)
		a.net.refuse(false)
		a.pause(300*time.Millisecond, 600*time.Millisecond)
	}
}

// muteBrokers accept and answer nothing, for longer than a write may take.
func muteBrokers(a *adversary) func() {
	return func() {
		a.net.hold(true)
		a.pause(100*time.Millisecond, 4*time.Second)
		a.net.hold(false)
		a.pause(300*time.Millisecond, 600*time.Millisecond)
	}
}

// unknownWrites loses answers and then the brokers, for longer than a write
// may stay unknown and for less than the session.
func unknownWrites(a *adversary) func() {
	return func() {
		a.net.lose(6)
		a.pause(10*time.Millisecond, 100*time.Millisecond)
		a.net.refuse(true)
		a.pause(200*time.Millisecond, 1500*time.Millisecond)
		a.net.refuse(false)
		a.net.lose(0)
		a.pause(100*time.Millisecond, 800*time.Millisecond)
	}
}

// TestAdversary_Streamlet: handlers that raise, crash, sleep or are killed in
// mid-batch, on 8 partitions.
func TestAdversary_Streamlet(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		does behaviour
	}{
		{"raises", behaviour{Fan: true, Fail: 60, Tries: 3}},
		{"raises, async", behaviour{Fan: true, Asynchronous: true, Sleep: 0.05, Fail: 50, Tries: 2}},
		{"crashes", behaviour{Sleep: 0.05, Crash: 200, Tries: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := startAdversary(t, c.does)
			m := a.launch(true)
			a.feed(100)
			m.awaitReady(1)
			for range 5 {
				a.feed(40)
				a.pause(0, 500*time.Millisecond)
				m.killProcess()
			}
			a.awaitAll(60 * time.Second)
			a.stopAll()
			report := a.check(strictness{})
			t.Logf("%d records in, %d written, ready %d times, %d KiB", len(a.inputs), report.Written, m.readies, m.peak)
			if info := a.cluster.GroupInfo(advGroup); len(info.Members) > 0 {
				t.Errorf("left in the group: %+v", info.Members)
			}
		})
	}
}

// TestAdversary_Group: supervisors join, leave, are killed, and are frozen for
// less and for longer than their session, while records flow.
func TestAdversary_Group(t *testing.T) {
	t.Parallel()
	for _, dynamic := range []bool{false, true} {
		t.Run(map[bool]string{false: "static members", true: "dynamic members"}[dynamic], func(t *testing.T) {
			t.Parallel()
			a := startAdversary(t, behaviour{Fan: true, Sleep: 0.03})
			a.launch(dynamic)
			a.feed(200)
			a.launch(dynamic)
			a.harassGroup(2*usual+adversaryTime(), dynamic)
			a.awaitAll(40 * time.Second)
			a.stopAll()
			report := a.check(strictness{})
			t.Logf("%d records in, %d written, %d members, %d commits", len(a.inputs), report.Written, len(a.members), report.Commits)
			if info := a.cluster.GroupInfo(advGroup); dynamic && len(info.Members) > 0 {
				a.until("killed members are gone", 4*time.Second, func() bool { return len(a.cluster.GroupInfo(advGroup).Members) == 0 })
			}
		})
	}
}

// harassGroup ends with at least one member that runs, and none that is frozen.
func (a *adversary) harassGroup(long time.Duration, dynamic bool) {
	a.t.Helper()
	for began := time.Now(); time.Since(began) < long; {
		a.feed(1 + a.random.IntN(60))
		var running, gone []*member
		for _, m := range a.members {
			select {
			case <-m.exited:
				gone = append(gone, m)
			default:
				running = append(running, m)
			}
		}
		victim := running[a.random.IntN(len(running))]
		n := a.random.IntN(7)
		if n <= 2 {
			a.awaitStable()
		}
		switch {
		case n == 0 && len(running) > 1:
			victim.stop(12 * time.Second)
		case n == 1:
			victim.kill()
			victim.start()
		case n == 2 && len(running) > 1:
			victim.kill()
		case n == 3:
			a.freeze(victim, 200*time.Millisecond, 1500*time.Millisecond)
		case n == 4:
			a.freeze(victim, 2200*time.Millisecond, 4*time.Second)
		case n == 5 && len(gone) > 0:
			gone[a.random.IntN(len(gone))].start()
		case n == 5 && len(running) < 4:
			a.launch(dynamic)
		case n == 6:
			victim.killProcess()
		}
		a.pause(50*time.Millisecond, 700*time.Millisecond)
	}
}

// awaitStable waits until no join is under way: kfake keeps a member for ever
// that ended while its join was parked, which Kafka ends with its session.
func (a *adversary) awaitStable() {
	a.t.Helper()
	a.until("the group is stable", 20*time.Second, func() bool {
		info := a.cluster.GroupInfo(advGroup)
		return info != nil && info.State == "Stable"
	})
}

// freeze stops a supervisor as a paused machine would, while records flow.
func (a *adversary) freeze(m *member, least, most time.Duration) {
	a.t.Helper()
	m.signal(syscall.SIGSTOP)
	a.feed(40)
	a.pause(least, most)
	m.signal(syscall.SIGCONT)
}

// TestAdversary_FrozenWritesNothingLate: the process acks while its supervisor is
// frozen beyond its session and another one takes over; when it goes on, it
// writes nothing that the other has written and committed.
func TestAdversary_FrozenWritesNothingLate(t *testing.T) {
	t.Parallel()
	a := startAdversary(t, behaviour{Sleep: 0.3})
	for range 2 {
		a.launch(true).awaitReady(1)
	}
	for n := range 4 {
		a.feed(200)
		a.pause(0, 100*time.Millisecond) // batches are with the processes
		frozen := a.members[n%2]
		frozen.signal(syscall.SIGSTOP)
		a.awaitAll(60 * time.Second) // by the other one
		frozen.signal(syscall.SIGCONT)
	}
	a.feed(50)
	a.awaitAll(60 * time.Second)
	a.stopAll()
	report := a.check(strictness{})
	for _, late := range report.Late {
		t.Error(late)
	}
	t.Logf("%d records in, %d written", len(a.inputs), report.Written)
}

// TestAdversary_KillAtEveryRequest kills a supervisor at its first request to
// a broker, the next one at its second, and so on: nothing that is seen from
// outside is left out. By turns the request is carried out or lost.
func TestAdversary_KillAtEveryRequest(t *testing.T) {
	t.Parallel()
	for _, carried := range []bool{true, false} {
		t.Run(map[bool]string{true: "the request arrives", false: "the request is lost"}[carried], func(t *testing.T) {
			t.Parallel()
			a := startAdversary(t, behaviour{Fan: true})
			victim := make(chan int, 1) // how many requests it may make
			killed := make(chan kmsg.Key, 1)
			m := &member{a: a, dir: t.TempDir()}
			count := 0
			limit := 0
			a.cluster.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
				a.cluster.KeepControl()
				if !ours(req) {
					return nil, nil, false
				}
				select {
				case limit = <-victim:
					count = 0
				default:
				}
				if limit == 0 {
					return nil, nil, false
				}
				if count++; count < limit {
					return nil, nil, false
				}
				limit = 0
				_ = m.cmd.Process.Kill()
				<-m.exited
				killed <- kmsg.Key(req.Key())
				if carried {
					return nil, nil, false
				}
				return nil, errors.New("the test lost the request"), true
			})
			a.members = append(a.members, m)
			a.t.Cleanup(m.kill)
			counts := map[kmsg.Key]int{}
			end := time.Now().Add(2*usual + adversaryTime())
			n := 1
			for ; time.Now().Before(end); n++ {
				a.feed(30)
				m.start()
				victim <- n
				select {
				case key := <-killed:
					counts[key]++
				case <-a.ctx.Done():
					t.Fatalf("no %d requests were made", n)
				}
				a.check(strictness{partly: true})
			}
			ready := m.readies
			m.start()
			m.awaitReady(ready + 1)
			a.awaitAll(20 * time.Second)
			a.stopAll()
			report := a.check(strictness{})
			t.Logf("killed at the first to the %dth request: %v; %d records in, %d written", n-1, counts, len(a.inputs), report.Written)
		})
	}
}

// ours: a request of a supervisor that changes something or depends on it, and
// not one of the test's own clients, which speak the newest versions.
func ours(req kmsg.Request) bool {
	switch key := kmsg.Key(req.Key()); key {
	case kmsg.Produce:
		return toOutlet(req)
	case kmsg.JoinGroup, kmsg.SyncGroup, kmsg.OffsetFetch, kmsg.OffsetCommit, kmsg.LeaveGroup:
		return true
	case kmsg.Fetch, kmsg.ListOffsets, kmsg.InitProducerID:
		return req.GetVersion() < kmsg.RequestForKey(req.Key()).MaxVersion()-1
	}
	return false
}

// TestAdversary_Stop: SIGTERM under load ends with 0, and what it repeats is at
// most one batch a partition; 20 starts and stops leave nothing.
func TestAdversary_Stop(t *testing.T) {
	t.Parallel()
	a := startAdversary(t, behaviour{})
	m := a.launch(true)
	for n := range 20 {
		a.feed(100)
		m.awaitReady(n + 1)
		a.feed(100)
		a.pause(0, 200*time.Millisecond)
		m.stop(12 * time.Second)
		a.nothingLeft()
		if info := a.cluster.GroupInfo(advGroup); len(info.Members) > 0 {
			t.Fatalf("after stop %d, left in the group: %+v", n+1, info.Members)
		}
		if n < 19 {
			m.start()
		}
	}
	m.start()
	m.awaitReady(21)
	a.awaitAll(20 * time.Second)
	a.stopAll()
	report := a.check(strictness{once: true}) // nothing was interrupted, so nothing comes again
	t.Logf("%d records in, %d written", len(a.inputs), report.Written)
}

// TestAdversary_StopWithoutBroker: whatever the broker does or does not do, a
// stop ends within FLOW_STOP_TIMEOUT, and nothing is lost by it.
func TestAdversary_StopWithoutBroker(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]func(*flaky){
		"refused": func(f *flaky) { f.refuse(true) },
		"mute":    func(f *flaky) { f.hold(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := startAdversary(t, behaviour{Fan: true, Sleep: 0.02}, "FLOW_STOP_TIMEOUT=4s")
			m := a.launch(true)
			a.feed(100)
			m.awaitReady(1)
			a.feed(400)
			gone(a.net)
			a.pause(0, 500*time.Millisecond)
			began := time.Now()
			m.signal(syscall.SIGTERM)
			<-m.exited
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the stop took %v, with FLOW_STOP_TIMEOUT=4s", took)
			}
			t.Logf("exit %d after %v", m.cmd.ProcessState.ExitCode(), time.Since(began))
			a.calm()
			a.nothingLeft()
			m.start()
			a.awaitAll(20 * time.Second)
			a.stopAll()
			a.check(strictness{})
		})
	}
}
