package kafka

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// administered is a cluster of three brokers, our client and franz-go's admin.
func administered(t *testing.T, opts ...kfake.Opt) (*kfake.Cluster, *Client, *kadm.Client) {
	t.Helper()
	cl, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(3)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	kcl, err := kgo.NewClient(kgo.SeedBrokers(cl.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kcl.Close)
	return cl, newTestClient(t, cl.ListenAddrs()), kadm.NewClient(kcl)
}

// hasCode checks that an error is the broker's, with that code.
func hasCode(t *testing.T, err error, code int16, words string) {
	t.Helper()
	var got *CodeError
	if !errors.As(err, &got) || got.Code != code || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, want code %d and %q", err, code, words)
	}
}

// Topics are described as franz-go describes them; one that does not exist is an error
// beside the others, and is not made by it.
func TestDescribeTopics_AgreesWithFranzGo(t *testing.T) {
	_, c, admin := administered(t, kfake.SeedTopics(3, "carts", "orders"), kfake.AllowAutoTopicCreation())
	ctx := testContext(t)
	want, err := admin.ListTopics(ctx, "carts", "orders")
	if err != nil {
		t.Fatal(err)
	}
	all, err := c.DescribeTopics(ctx)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	for _, topic := range all {
		if topic.Err != nil || !topic.HasLeaders() || len(topic.Partitions) != len(want[topic.Name].Partitions) {
			t.Errorf("%+v", topic)
		}
		for i, p := range topic.Partitions {
			theirs := want[topic.Name].Partitions[int32(i)]
			if p.Partition != int32(i) || p.Leader != theirs.Leader || !reflect.DeepEqual(p.Replicas, theirs.Replicas) || !reflect.DeepEqual(p.InSync, theirs.ISR) {
				t.Errorf("%s/%d: %+v, franz-go has %+v", topic.Name, i, p, theirs)
			}
		}
	}
	some, err := c.DescribeTopics(ctx, "orders", "missing")
	if err != nil || len(some) != 2 || some[0].Name != "missing" || some[0].HasLeaders() || some[1].Err != nil {
		t.Fatalf("%+v, %v", some, err)
	}
	hasCode(t, some[0].Err, codeUnknownTopic, "missing")
	if names, err := admin.ListTopics(ctx); err != nil || names.Has("missing") {
		t.Errorf("describing made a topic: %v, %v", names, err)
	}
}

func TestHasLeaders(t *testing.T) {
	for _, tt := range []struct {
		topic TopicDetail
		want  bool
	}{
		{TopicDetail{}, true},
		{TopicDetail{Partitions: []PartitionDetail{{Leader: 0}, {Partition: 1, Leader: 2}}}, true},
		{TopicDetail{Partitions: []PartitionDetail{{Leader: 0}, {Partition: 1, Leader: -1}}}, false},
		{TopicDetail{Err: errMalformed}, false},
	} {
		if got := tt.topic.HasLeaders(); got != tt.want {
			t.Errorf("%+v: %v", tt.topic, got)
		}
	}
}

// Topics are gone when DeleteTopics returns; what is wrong with one of them is said, and
// the others are deleted.
func TestDeleteTopics(t *testing.T) {
	_, c, admin := administered(t, kfake.SeedTopics(2, "a", "b", "kept"))
	ctx := testContext(t)
	hasCode(t, c.DeleteTopics(ctx, "a", "missing"), codeUnknownTopic, "deleting topic missing")
	if err := c.DeleteTopics(ctx, "b"); err != nil {
		t.Fatal(err)
	}
	if names, err := admin.ListTopics(ctx); err != nil || !reflect.DeepEqual(names.Names(), []string{"kept"}) {
		t.Errorf("left are %v, %v", names.Names(), err)
	}
}

// A topic that is made again meanwhile by somebody else is not waited for without end.
func TestDeleteTopics_OneThatComesBackIsNamed(t *testing.T) {
	cl, c, _ := administered(t, kfake.SeedTopics(1, "a"))
	c.cfg.RequestTimeout = time.Second
	cl.ControlKey(int16(kmsg.DeleteTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		answer := req.ResponseKind().(*kmsg.DeleteTopicsResponse) // it says so, and does nothing
		topic := kmsg.NewDeleteTopicsResponseTopic()
		topic.Topic = kmsg.StringPtr("a")
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
	if err := c.DeleteTopics(testContext(t), "a"); err == nil || !strings.Contains(err.Error(), "topic a is deleted and still there") {
		t.Errorf("%v", err)
	}
}

// member is somebody who reads carts in a group, and has an assignment.
func member(t *testing.T, cl *kfake.Cluster, group, instance string) *kgo.Client {
	t.Helper()
	opts := []kgo.Opt{kgo.SeedBrokers(cl.ListenAddrs()...), kgo.ConsumerGroup(group), kgo.ConsumeTopics("carts"), kgo.DisableAutoCommit(), kgo.ClientID("theirs")}
	if instance != "" {
		opts = append(opts, kgo.InstanceID(instance))
	}
	kcl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kcl.Close)
	return kcl
}

// Groups of every broker are listed; one is described with its members and what they
// read; what it committed is read; it is moved only while nobody reads.
func TestGroupsAreListedDescribedAndMoved(t *testing.T) {
	cl, c, admin := administered(t, kfake.SeedTopics(2, "carts", "orders"))
	ctx := testContext(t)
	var want []string
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} { // of several coordinators
		offsets := kadm.Offsets{}
		offsets.AddOffset("carts", 1, 7, -1)
		offsets.AddOffset("orders", 0, 0, -1)
		if err := admin.CommitAllOffsets(ctx, name, offsets); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	if got, err := c.ListGroups(ctx); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("listed are %v, %v", got, err)
	}
	if got, err := c.GroupOffsets(ctx, "a"); err != nil || !reflect.DeepEqual(got, map[string]map[int32]int64{"carts": {1: 7}, "orders": {0: 0}}) {
		t.Errorf("committed is %v, %v", got, err)
	}
	got, err := c.GroupOffsets(ctx, "nobody") // Kafka answers with nothing, this broker with a code
	if hasCode(t, err, 69, "group nobody"); len(got) != 0 {
		t.Errorf("a group that is not has committed %v", got)
	}
	if g, err := c.DescribeGroup(ctx, "nobody"); err != nil || g.State != GroupDead || g.Name != "nobody" || len(g.Members) != 0 {
		t.Errorf("a group that is not: %+v, %v", g, err)
	}
	if g, err := c.DescribeGroup(ctx, "a"); err != nil || g.State != GroupEmpty || len(g.Members) != 0 {
		t.Errorf("a group without members: %+v, %v", g, err)
	}
	if err := c.SeekGroup(ctx, "a", "carts", 1, 3); err != nil {
		t.Fatal(err)
	}
	member(t, cl, "a", "pod-7")
	var g GroupDetail
	eventually(t, "the member has its partitions", func() bool {
		var err error
		g, err = c.DescribeGroup(ctx, "a")
		return err == nil && g.State == "Stable" && len(g.Members) == 1 && len(g.Members[0].Partitions["carts"]) == 2
	})
	if m := g.Members[0]; m.Instance != "pod-7" || m.Client != "theirs" || m.ID == "" || m.Host == "" || !reflect.DeepEqual(m.Partitions, map[string][]int32{"carts": {0, 1}}) {
		t.Errorf("%+v", m)
	}
	hasCode(t, c.SeekGroup(ctx, "a", "carts", 1, 0), UnknownMember, "committing 0 for group a on carts/1")
	if got, err := c.GroupOffsets(ctx, "a"); err != nil || got["carts"][1] != 3 {
		t.Errorf("after a seek to 3 and one that was refused: %v, %v", got, err)
	}
}

// While a coordinator is starting or has moved the group is asked for again; any other
// code is an error at once, and so is one that does not pass in time.
func TestGroupsAreAskedAgainWhileTheirCoordinatorMoves(t *testing.T) {
	cl, c, _ := administered(t, kfake.SeedTopics(1, "carts"))
	var asked, left atomic.Int32
	var code atomic.Int32
	cl.ControlKey(describeGroupsKey, func(req kmsg.Request) (kmsg.Response, error, bool) {
		cl.KeepControl()
		asked.Add(1)
		if left.Add(-1) < 0 {
			return nil, nil, false
		}
		answer := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
		group := kmsg.NewDescribeGroupsResponseGroup()
		group.Group, group.ErrorCode = "a", int16(code.Load())
		answer.Groups = append(answer.Groups, group)
		return answer, nil, true
	})
	describe := func(failing int16, times int32) (int32, error) {
		code.Store(int32(failing))
		left.Store(times)
		before := asked.Load()
		_, err := c.DescribeGroup(testContext(t), "a")
		return asked.Load() - before, err
	}
	for _, moving := range []int16{codeLoadInProgress, codeCoordinatorUnavailable, codeNotCoordinator} {
		if n, err := describe(moving, 3); err != nil || n != 4 {
			t.Errorf("code %d, three times: asked %d times, %v", moving, n, err)
		}
	}
	if n, err := describe(30, 3); n != 1 { // no right
		t.Errorf("asked %d times without a right", n)
	} else {
		hasCode(t, err, 30, "describing group a")
	}
	c.cfg.RequestTimeout = time.Second
	_, err := describe(codeNotCoordinator, 1<<30)
	hasCode(t, err, codeNotCoordinator, "describing group a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.DescribeGroup(ctx, "a"); err == nil {
		t.Error("an ended context is no error")
	}
}

// Brokers that were learned with another answer do not say which of them is the controller.
func TestAskController_WaitsForMetadata(t *testing.T) {
	_, c, admin := administered(t)
	ctx := testContext(t)
	details, err := admin.BrokerMetadata(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c.meta.mu.Lock()
	c.meta.controller = 99 // nothing is known of it yet
	c.meta.mu.Unlock()
	brokers := map[int32]string{}
	for _, b := range details.Brokers {
		brokers[b.NodeID] = fmt.Sprintf("%s:%d", b.Host, b.Port)
	}
	c.learnBrokers(brokers)
	if err := c.CreateTopics(ctx, []NewTopic{{Name: "made", Partitions: 1}}); err != nil {
		t.Fatal(err)
	}
}
