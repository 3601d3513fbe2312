package faultproxy

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newProxy stands before a fake cluster of three brokers with the topic "t".
func newProxy(t *testing.T, cfg Config) (*Proxy, *kfake.Cluster, context.Context) {
	t.Helper()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(2, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	p, err := Start(cluster.ListenAddrs(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return p, cluster, ctx
}

func client(t *testing.T, addresses []string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(addresses...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxVersions(kversion.V2_8_0()), kgo.MetadataMinAge(20 * time.Millisecond), kgo.AlwaysRetryEOF()}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func ends(cluster *kfake.Cluster) (at []int64) {
	for _, p := range cluster.PartitionInfos("t") {
		at = append(at, p.HighWatermark)
	}
	return at
}

func record(partition int32) *kgo.Record {
	return &kgo.Record{Topic: "t", Partition: partition, Value: []byte("v")}
}

// Everything goes through the proxy, whoever leads, for the brokers' addresses
// are its own.
func TestEverythingPasses(t *testing.T) {
	var mu sync.Mutex
	seen := map[kmsg.Key]int{}
	p, cluster, ctx := newProxy(t, Config{Requested: func(r *Request) Plan {
		mu.Lock()
		seen[r.Key]++
		mu.Unlock()
		return Plan{}
	}})
	c := client(t, p.Addresses(), kgo.ConsumeTopics("t"), kgo.ConsumerGroup("g"))
	for partition := range int32(2) {
		if err := cluster.MoveTopicPartition("t", partition, partition+1); err != nil {
			t.Fatal(err)
		}
		if err := c.ProduceSync(ctx, record(partition)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < 2; {
		f := c.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatal(err)
		}
		n += f.NumRecords()
	}
	if err := c.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.Fetch, kmsg.Metadata, kmsg.FindCoordinator, kmsg.JoinGroup, kmsg.OffsetCommit} {
		if seen[key] == 0 {
			t.Errorf("no %s came through the proxy: %v", key.Name(), seen)
		}
	}
}

// A fate is one partition's: what is appended and what is said are apart.
func TestFates(t *testing.T) {
	for _, tt := range []struct {
		name string
		fate Fate
		want []int64
		err  error
	}{
		{"appended, and refused", Fate{Code: kerr.InvalidTopicException.Code}, []int64{1, 1}, kerr.InvalidTopicException},
		{"not appended, and refused", Fate{Withheld: true, Code: kerr.InvalidTopicException.Code}, []int64{0, 1}, kerr.InvalidTopicException},
		{"not appended, and confirmed", Fate{Withheld: true}, []int64{0, 1}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, cluster, ctx := newProxy(t, Config{Requested: func(r *Request) Plan {
				return Plan{Fates: map[Partition]Fate{{"t", 0}: tt.fate}}
			}})
			c := client(t, p.Addresses())
			results := c.ProduceSync(ctx, record(0), record(1))
			for _, r := range results {
				want := error(nil)
				if r.Record.Partition == 0 {
					want = tt.err
				}
				if !errors.Is(r.Err, want) {
					t.Errorf("partition %d: %v, want %v", r.Record.Partition, r.Err, want)
				}
			}
			if got := ends(cluster); !slices.Equal(got, tt.want) {
				t.Errorf("the partitions end at %v, want %v", got, tt.want)
			}
		})
	}
}

// A lost answer, a lost request, an answer that never comes; and the bytes may
// come late.
func TestPlans(t *testing.T) {
	for _, tt := range []struct {
		name     string
		plan     Plan
		appended int64
	}{
		{"the answer is lost", Plan{Cut: true}, 1},
		{"the request is lost", Plan{Withheld: true, Cut: true}, 0},
		{"no answer comes", Plan{Mute: true}, 1},
		{"nothing is done, nothing is said", Plan{Withheld: true, Mute: true}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			late, answered := make(chan *Request, 1), make(chan struct{}, 1)
			p, cluster, ctx := newProxy(t, Config{
				Requested: func(r *Request) Plan {
					if r.Key != kmsg.Produce {
						return Plan{}
					}
					select {
					case late <- r:
						return tt.plan
					default: // what the client sends again
						return Plan{Withheld: true, Mute: true}
					}
				},
				Answering: func(r *Request, _ kmsg.Response) {
					if r.Key == kmsg.Produce {
						select {
						case answered <- struct{}{}:
						default:
						}
					}
				},
			})
			c := client(t, p.Addresses())
			sending, cancel := context.WithCancel(ctx)
			defer cancel()
			sent := make(chan error, 1)
			c.Produce(sending, record(0), func(_ *kgo.Record, err error) { sent <- err })
			<-answered
			if got := ends(cluster)[0]; got != tt.appended {
				t.Fatalf("the partition ends at %d, want %d", got, tt.appended)
			}
			select {
			case err := <-sent:
				t.Fatalf("the client was answered: %v", err)
			default:
			}
			r := <-late
			if len(r.Produced(Partition{"t", 0})) == 0 || r.Produced(Partition{"t", 1}) != nil {
				t.Error("Produced does not tell the partitions apart")
			}
			answer, err := r.Deliver(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if code := answer.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode; code != 0 || ends(cluster)[0] != 1 {
				t.Errorf("late bytes: code %d, the partition ends at %d", code, ends(cluster)[0])
			}
		})
	}
}

// A broker that is refused hangs up, and is back afterwards; Cut ends what there
// is.
func TestRefuseAndCut(t *testing.T) {
	p, cluster, ctx := newProxy(t, Config{})
	c := client(t, p.Addresses())
	for range 3 {
		for broker := range 3 {
			if err := cluster.MoveTopicPartition("t", 0, int32(broker)); err != nil {
				t.Fatal(err)
			}
			p.Refuse(broker, true)
			sent := make(chan error, 1)
			c.Produce(ctx, record(0), func(_ *kgo.Record, err error) { sent <- err })
			p.Cut()
			select {
			case err := <-sent:
				t.Fatalf("a refused broker has answered: %v", err)
			default:
			}
			p.Refuse(broker, false)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
	}
}
