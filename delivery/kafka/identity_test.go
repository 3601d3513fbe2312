package kafka

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterAt is a cluster with an id, at an address ("": any), with the topic t.
func clusterAt(t *testing.T, address, id string) *kfake.Cluster {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID(id), kfake.SeedTopics(1, "t"),
		kfake.ListenFn(func(string, string) (net.Listener, error) { return net.Listen("tcp", address) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster
}

// A port that changes hands leads to another cluster's broker: nothing is asked
// of it, and the right one is found again where Resolve says.
func TestOnlyTheRightClusterIsSpokenTo(t *testing.T) {
	ctx := testContext(t)
	first := clusterAt(t, "", "right")
	address := first.ListenAddrs()[0]
	var elsewhere atomic.Pointer[string]
	asked := make(chan struct{}, 1000)
	client, err := NewClient(Config{
		Brokers: []string{address}, ClusterID: "right", ClusterName: "data",
		Resolve: func(context.Context) ([]string, error) {
			select {
			case asked <- struct{}{}:
			default:
			}
			if at := elsewhere.Load(); at != nil {
				return []string{*at}, nil
			}
			return nil, errors.New("nowhere")
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	client.watch("t")
	if _, err := client.ListOffsets(ctx, "t", Latest); err != nil {
		t.Fatal(err)
	}
	first.Close()
	foreign := clusterAt(t, address, "wrong")
	var requests atomic.Int32
	foreign.Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		foreign.KeepControl()
		if key := req.Key(); key != metadataKey && key != apiVersionsKey {
			requests.Add(1)
		}
		return nil, nil, false
	})
	var wrong *ForeignClusterError
	eventually(t, "the foreign broker is refused, once the connections to the first one are gone", func() bool {
		return errors.As(client.Probe(ctx), &wrong)
	})
	if wrong.Got != "wrong" || wrong.Want != "right" || wrong.Name != "data" {
		t.Fatalf("refused as %+v", wrong)
	}
	// Also what goes by the metadata of before.
	if _, _, err := client.requestSent(ctx, 0, listOffsetsKey, listOffsetsVersion, nil); !errors.As(err, &wrong) {
		t.Fatalf("a request to the broker of before: %v, want ForeignClusterError", err)
	}
	if n := requests.Load(); n != 0 {
		t.Fatalf("another cluster got %d requests", n)
	}
	client.stale("t")
	<-asked

	moved := clusterAt(t, "", "right").ListenAddrs()[0]
	elsewhere.Store(&moved)
	for {
		changed := client.changed()
		if at, _ := client.nodeAddr(0); at == moved {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatal("the broker was not found again")
		}
	}
	if _, err := client.ListOffsets(ctx, "t", Latest); err != nil {
		t.Fatal(err)
	}
}

func TestTopicNamesListsAllTopics(t *testing.T) {
	cluster := clusterAt(t, "", "x")
	client, err := NewClient(Config{Brokers: cluster.ListenAddrs()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if err := client.CreateTopics(testContext(t), []NewTopic{{Name: "s", Partitions: 1}}); err != nil {
		t.Fatal(err)
	}
	got, err := client.TopicNames(testContext(t))
	if err != nil || len(got) != 2 || got[0] != "s" || got[1] != "t" {
		t.Fatalf("%q, %v; want s and t", got, err)
	}
}
