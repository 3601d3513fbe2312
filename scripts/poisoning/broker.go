package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/scripts/checker"
)

const (
	inlet       = "poison.in"
	partitions  = 20
	outletParts = 4
	// badRecords is how many records a partition with a bad one has.
	badRecords = 100
)

// bad is the offset of the bad record, by partition.
var bad = map[int32]int64{2: 37, 9: 12, 16: 61}

// broker is Kafka in this process, which notes every commit as it arrives.
type broker struct {
	cluster *kfake.Cluster
	client  *kgo.Client
	admin   *kadm.Client
	written int

	mu      sync.Mutex
	commits []checker.Commit // of all groups, as they came
	history map[string][]moment
	at      map[string]*[partitions]int64
}

// moment is what a group had committed at a time, of the partitions without poison.
type moment struct {
	at   time.Time
	good int64
}

func newBroker(ctx context.Context, outlets []string) (*broker, error) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, inlet))
	if err != nil {
		return nil, err
	}
	b := &broker{cluster: cluster, history: map[string][]moment{}, at: map[string]*[partitions]int64{}}
	b.client, err = kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(inlet))
	if err != nil {
		cluster.Close()
		return nil, err
	}
	b.admin = kadm.NewClient(b.client)
	appendTime := "LogAppendTime"
	made, err := b.admin.CreateTopics(ctx, outletParts, 1, map[string]*string{"message.timestamp.type": &appendTime}, outlets...)
	if err == nil {
		err = made.Error()
	}
	if err != nil {
		b.close()
		return nil, err
	}
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		b.asked(req.(*kmsg.OffsetCommitRequest))
		return nil, nil, false
	})
	return b, nil
}

func (b *broker) close() {
	b.client.Close()
	b.cluster.Close()
}

// asked notes a commit. There is one member in each group, so that each is taken.
func (b *broker) asked(q *kmsg.OffsetCommitRequest) {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	at := b.at[q.Group]
	if at == nil {
		at = &[partitions]int64{}
		b.at[q.Group] = at
	}
	for _, topic := range q.Topics {
		for _, p := range topic.Partitions {
			at[p.Partition] = p.Offset
			b.commits = append(b.commits, checker.Commit{
				Group: q.Group, Topic: topic.Topic, Partition: p.Partition, Offset: p.Offset, At: now.UnixMilli(), Log: int64(len(b.commits)),
			})
		}
	}
	good := int64(0)
	for p, offset := range at {
		if _, isBad := bad[int32(p)]; !isBad {
			good += offset
		}
	}
	b.history[q.Group] = append(b.history[q.Group], moment{now, good})
}

// good is what a group had committed at a time, of the partitions without poison.
func (b *broker) good(group string, when time.Time) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.history[group]
	i, _ := slices.BinarySearchFunc(all, when, func(m moment, t time.Time) int { return m.at.Compare(t) })
	if i == 0 {
		return 0
	}
	return all[i-1].good
}

func (b *broker) committed(group string) [partitions]int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if at := b.at[group]; at != nil {
		return *at
	}
	return [partitions]int64{}
}

// most is how far the fastest group is on each partition.
func (b *broker) most() (most [partitions]int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, at := range b.at {
		for p, offset := range at {
			most[p] = max(most[p], offset)
		}
	}
	return most
}

// write keeps backlog records ahead of the fastest group on each partition, until
// the context ends.
func (b *broker) write(ctx context.Context, backlog int64) error {
	var end [partitions]int64
	for {
		most := b.most()
		var records []*kgo.Record
		for p := range end {
			want := most[p] + backlog
			if _, isBad := bad[int32(p)]; isBad {
				want = badRecords
			}
			for ; end[p] < want; end[p]++ {
				records = append(records, b.record(int32(p), end[p]))
			}
		}
		if err := b.client.ProduceSync(ctx, records...).FirstErr(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("writing the input: %w", err)
		}
		if pause(ctx, 500*time.Millisecond) != nil {
			return nil
		}
	}
}

// record is one of the inlet, with a number that no other has.
func (b *broker) record(partition int32, offset int64) *kgo.Record {
	value := "good"
	if at, isBad := bad[partition]; isBad && at == offset {
		value = "poison"
	}
	b.written++
	return &kgo.Record{
		Partition: partition, Key: []byte("p" + strconv.Itoa(int(partition))), Value: []byte(value),
		Headers: []kgo.RecordHeader{{Key: "n", Value: []byte(strconv.Itoa(b.written))}},
	}
}

// judge has the checker decide about one group: whatever it has committed, and
// nothing else, is on its outlet.
func (b *broker) judge(ctx context.Context, group, outlet string) (*checker.Report, error) {
	logs, err := checker.Read(ctx, b.cluster.ListenAddrs(), inlet, outlet)
	if err != nil {
		return nil, err
	}
	for p, offset := range b.committed(group) {
		log := logs[inlet][int32(p)]
		logs[inlet][int32(p)] = log[:min(int(offset), len(log))]
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return checker.Check([]checker.Stream{{Group: group, Inlet: inlet, Outlets: []checker.Outlet{{
		Topic: outlet, Partitions: outletParts,
		Expect: func(in *kgo.Record) []*kgo.Record { return []*kgo.Record{in} },
	}}}}, checker.Evidence{Logs: logs, Commits: b.commits}), nil
}
