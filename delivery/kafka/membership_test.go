package kafka

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"ankka-flow/delivery"
)

func TestAStaticMemberFindsItsPlaceAgain(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(3, "t"))
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 3, 0, 5)
	c := newTestClient(t, cl.ListenAddrs())
	in := Inlet{Topic: "t", InstanceID: "me", SessionTimeout: 30 * time.Second}
	a := take(t, c, in)
	eventually(t, "the records", func() bool { return a.count() == 15 })
	if c := a.commit(); c.Outcome != delivery.CommitDone {
		t.Fatal(c)
	}
	a.stop() // as a kill would: no leaving
	begin := time.Now()
	b := take(t, c, in)
	eventually(t, "it has everything", func() bool { return len(b.heldNow()) == 3 })
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("its own ghost held it up for %v", d)
	}
	for p := range int32(3) {
		if b.position(p) != 5 {
			t.Errorf("partition %d begins at %d", p, b.position(p))
		}
	}
	// Leave keeps a static member in the group too.
	k := b.k
	if err := k.Leave(testContext(t)); err != nil {
		t.Fatal(err)
	}
	b.end()
	g, err := kadm.NewClient(kcl).DescribeGroups(testContext(t), "group")
	if err != nil || len(g["group"].Members) != 1 {
		t.Errorf("%v: %d members", err, len(g["group"].Members))
	}
	// But not one whose name is for kill -9 alone: others need not wait.
	in.LeaveStatic = true
	d := take(t, c, in)
	eventually(t, "it has everything", func() bool { return len(d.heldNow()) == 3 })
	if err := d.k.Leave(testContext(t)); err != nil {
		t.Fatal(err)
	}
	d.end()
	g, err = kadm.NewClient(kcl).DescribeGroups(testContext(t), "group")
	if err != nil || len(g["group"].Members) != 0 {
		t.Errorf("%v: %d members after leaving", err, len(g["group"].Members))
	}
}

func TestCase59_AnotherClientInTheGroup(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(4, "t"))
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 4, 0, 3)
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "all", func() bool { return r.count() == 12 })
	if c := r.commit(); c.Outcome != delivery.CommitDone {
		t.Fatal(c)
	}
	other := kgoClient(t, cl, kgo.ConsumerGroup("group"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.DisableAutoCommit(),
		kgo.HeartbeatInterval(100*time.Millisecond))
	var theirs atomic.Int64
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			theirs.Add(int64(other.PollFetches(ctx).NumRecords()))
		}
	}()
	defer func() { cancel(); <-done }()
	eventually(t, "they share", func() bool { return len(r.heldNow()) == 2 })
	write(t, kcl, "t", 4, 3, 2)
	eventually(t, "each reads its own", func() bool { return r.count() == 16 && theirs.Load() == 4 })
}

// logged is a logger whose lines a test can look at.
func logged() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var buf bytes.Buffer
	w := writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return buf.Write(b)
	})
	return slog.New(slog.NewTextHandler(w, nil)), func() string {
		mu.Lock()
		defer mu.Unlock()
		return buf.String()
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

func TestCase59_AnotherProtocolInTheGroupIsSaid(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	other := kgoClient(t, cl, kgo.ConsumerGroup("group"), kgo.ConsumeTopics("t"), kgo.Balancers(kgo.RoundRobinBalancer()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			other.PollFetches(ctx)
		}
	}()
	defer func() { cancel(); <-done }()
	adm := kadm.NewClient(kgoClient(t, cl))
	eventually(t, "the other is stable", func() bool {
		g, err := adm.DescribeGroups(testContext(t), "group")
		return err == nil && g["group"].State == "Stable"
	})
	joins := countRequests(cl, 11)
	log, lines := logged()
	c := newTestClient(t, cl.ListenAddrs(), func(cfg *Config) { cfg.Logger = log })
	take(t, c, Inlet{Topic: "t"})
	eventually(t, "it is said", func() bool { return strings.Contains(lines(), "INCONSISTENT_GROUP_PROTOCOL") })
	if n := joins(); n > 3 {
		t.Errorf("%d joins", n)
	}
}

// R7: the generation ends without us having agreed; the next one, of the same
// member, continues.
func TestR7_AGenerationEndsAndTheNextContinues(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(2, "t"))
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 2, 0, 3)
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "all", func() bool { return r.count() == 6 })
	if c := r.commit(); c.Outcome != delivery.CommitDone {
		t.Fatal(c)
	}
	before := r.generation
	cl.ControlKey(12, func(kreq kmsg.Request) (kmsg.Response, error, bool) { // one heartbeat
		resp := kreq.ResponseKind().(*kmsg.HeartbeatResponse)
		resp.ErrorCode = 22
		return resp, nil, true
	})
	eventually(t, "the suspension", func() bool {
		_, ok := find(r, func(delivery.Suspended) bool { return true })
		return ok
	})
	begin := time.Now()
	var next delivery.Assigned
	eventually(t, "the next generation", func() bool {
		ev, ok := find(r, func(ev delivery.Assigned) bool { return ev.Generation != before && len(ev.Starts) == 2 })
		next = ev
		return ok
	})
	// Nothing was running, so the drain's deadline is not waited for.
	if d := time.Since(begin); d > time.Second {
		t.Errorf("it took %v", d)
	}
	if !next.Continues && next.Generation == before+1 {
		t.Errorf("%v does not continue %d", next, before)
	}
	for _, s := range next.Starts {
		if s.Offset != 3 || s.LookedUp {
			t.Errorf("%+v", s)
		}
	}
	write(t, kcl, "t", 2, 3, 1)
	eventually(t, "the new records", func() bool { return r.count() == 8 })
	inOrder(t, r.got, 2, 4)
	if c := r.commit(); c.Outcome != delivery.CommitDone {
		t.Error(c)
	}
}

// The commit that is answered with an ended generation ends it here too.
func TestCommit_Outcomes(t *testing.T) {
	for _, tt := range []struct {
		code int16
		want delivery.CommitOutcome
	}{
		{14, delivery.CommitRetry}, {16, delivery.CommitRetry}, {3, delivery.CommitRetry},
		{27, delivery.CommitStale}, {22, delivery.CommitStale},
		{30, delivery.CommitRefused}, {29, delivery.CommitRefused},
	} {
		cl := newCluster(t, kfake.SeedTopics(1, "t"))
		r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
		eventually(t, "the assignment", func() bool { return len(r.heldNow()) == 1 })
		cl.ControlKey(8, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			req := kreq.(*kmsg.OffsetCommitRequest)
			resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
			st := kmsg.NewOffsetCommitResponseTopic()
			st.Topic = "t"
			sp := kmsg.NewOffsetCommitResponseTopicPartition()
			sp.ErrorCode = tt.code
			st.Partitions = append(st.Partitions, sp)
			resp.Topics = append(resp.Topics, st)
			return resp, nil, true
		})
		if c := r.commit(); c.Outcome != tt.want || c.Reason == "" {
			t.Errorf("code %d: %+v, want %v", tt.code, c, tt.want)
		}
		eventually(t, "the next commit goes through", func() bool { return r.commit().Outcome == delivery.CommitDone })
	}
}

// A lost answer to a commit is answered by CommitRetry, and so is one that
// names no partition.
func TestCommit_WithoutAnAnswerIsRetried(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(1, "t"))
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "the assignment", func() bool { return len(r.heldNow()) == 1 })
	cl.ControlKey(8, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		return kreq.ResponseKind(), nil, true
	})
	if c := r.commit(); c.Outcome != delivery.CommitRetry {
		t.Error(c)
	}
	cl.ControlKey(8, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		return nil, context.Canceled, true // kfake hangs up
	})
	if c := r.commit(); c.Outcome != delivery.CommitRetry {
		t.Error(c)
	}
	eventually(t, "it goes through", func() bool { return r.commit().Outcome == delivery.CommitDone })
}

// A topic that is deleted and made again is another topic: its records are read
// from the first on, whatever was read of the old one (R11). Brokers before
// Kafka 2.8 do not tell the two apart, but say in between that there is none.
func TestR11_ATopicIsDeletedAndMadeAgain(t *testing.T) {
	for _, tt := range []struct {
		name    string
		seen    bool // its absence is seen before it is made again
		options []kfake.Opt
	}{
		{"seen", true, nil},
		{"unseen", false, nil},
		{"without ids", true, []kfake.Opt{kfake.MaxVersions(kversion.V2_7_0())}},
	} {
		t.Run(tt.name, func(t *testing.T) { topicMadeAgain(t, tt.seen, tt.options) })
	}
}

func topicMadeAgain(t *testing.T, seen bool, options []kfake.Opt) {
	cl := newCluster(t, append(options, kfake.SeedTopics(2, "t"))...)
	kcl := kgoClient(t, cl)
	write(t, kcl, "t", 2, 0, 5)
	log, lines := logged()
	c := newTestClient(t, cl.ListenAddrs(), func(cfg *Config) { cfg.Logger = log })
	r := take(t, c, Inlet{Topic: "t"})
	eventually(t, "all", func() bool { return r.count() == 10 })
	if c := r.commit(); c.Outcome != delivery.CommitDone {
		t.Fatal(c)
	}
	joins := countRequests(cl, 11)
	hold := make(chan struct{})
	if !seen {
		cl.ControlKey(metadataKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
			select {
			case <-hold:
			default:
				cl.KeepControl()
				if kreq.GetVersion() == metadataNewest { // ours: franz-go asks in a newer one
					cl.SleepControl(func() { <-hold })
				}
			}
			return nil, nil, false
		})
	}
	adm := kadm.NewClient(kcl)
	if _, err := adm.DeleteTopics(testContext(t), "t"); err != nil {
		t.Fatal(err)
	}
	if seen {
		eventually(t, "it is said", func() bool { return strings.Contains(lines(), "does not exist") })
	}
	if _, err := adm.CreateTopic(testContext(t), 2, 1, nil, "t"); err != nil {
		t.Fatal(err)
	}
	write(t, kgoClient(t, cl), "t", 2, 0, 8)
	close(hold)
	// A fetch at the old position may have met the new topic before its id was
	// known: that reads a part of it once more than the whole.
	eventually(t, "all of the new topic, from its first record", func() bool { return r.newest(0) == "01234567" && r.newest(1) == "01234567" })
	if n := joins(); n > 10 {
		t.Errorf("%d joins", n)
	}
}

// newest are the last 8 offsets that were read of a partition, one digit each.
func (r *taker) newest(partition int32) (offsets string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.got {
		if one.partition == partition {
			offsets += strconv.FormatInt(one.offset, 10)
		}
	}
	return offsets[max(0, len(offsets)-8):]
}

func TestPartitionWithoutALeaderIsTold(t *testing.T) {
	cl := newCluster(t, kfake.SeedTopics(2, "t"))
	write(t, kgoClient(t, cl), "t", 2, 0, 1)
	r := take(t, newTestClient(t, cl.ListenAddrs()), Inlet{Topic: "t"})
	eventually(t, "all", func() bool { return r.count() == 2 })
	cl.ControlKey(metadataKey, func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		req := kreq.(*kmsg.MetadataRequest)
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		b := kmsg.NewMetadataResponseBroker()
		b.Host, b.Port = hostPort(t, cl.ListenAddrs()[0])
		resp.Brokers = append(resp.Brokers, b)
		if len(req.Topics) == 0 {
			return resp, nil, true
		}
		st := kmsg.NewMetadataResponseTopic()
		st.Topic = kmsg.StringPtr("t")
		for p, leader := range []int32{0, -1} {
			sp := kmsg.NewMetadataResponseTopicPartition()
			sp.Partition, sp.Leader = int32(p), leader
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
		return resp, nil, true
	})
	r.c.stale("t")
	eventually(t, "it is told", func() bool {
		ev, ok := find(r, func(delivery.FetchFailed) bool { return true })
		return ok && ev.TP.Partition == 1 && !ev.Blocked && strings.Contains(ev.Reason, "no leader")
	})
}
