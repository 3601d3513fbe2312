package checker

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Read reads topics whole, up to the ends that they have now. A log with holes
// is an error: what is compacted or aborted cannot be judged.
func Read(ctx context.Context, brokers []string, topics ...string) (Logs, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topics...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the ends of %v: %w", topics, err)
	}
	logs, left := Logs{}, int64(0)
	for topic, partitions := range ends {
		logs[topic] = map[int32][]*kgo.Record{}
		for p, end := range partitions {
			logs[topic][p] = nil
			left += end.Offset
		}
	}
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("reading %v: %w", topics, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			log := logs[r.Topic][r.Partition]
			if r.Offset >= ends[r.Topic][r.Partition].Offset {
				return
			}
			if int64(len(log)) != r.Offset && err == nil {
				err = fmt.Errorf("%s/%d: offset %d follows %d records: the log has holes", r.Topic, r.Partition, r.Offset, len(log))
			}
			logs[r.Topic][r.Partition] = append(log, r)
			left--
		})
		if err != nil {
			return nil, err
		}
	}
	return logs, nil
}

// commitsTopic is where coordinators keep what groups commit.
const commitsTopic = "__consumer_offsets"

// ReadCommits reads every commit of the groups, in the order in which their
// coordinators took them.
func ReadCommits(ctx context.Context, brokers []string, groups ...string) ([]Commit, error) {
	logs, err := Read(ctx, brokers, commitsTopic)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, group := range groups {
		wanted[group] = true
	}
	var commits []Commit
	for _, log := range logs[commitsTopic] { // a group's are all in one partition
		for _, r := range log {
			commit, ok, err := parseCommit(r)
			if err != nil {
				return nil, fmt.Errorf("%s/%d@%d: %w", commitsTopic, r.Partition, r.Offset, err)
			}
			if ok && wanted[commit.Group] {
				commits = append(commits, commit)
			}
		}
	}
	return commits, nil
}

// parseCommit reads one record of the commits' log; ok is false for those that
// are about members, and for a deleted commit.
func parseCommit(r *kgo.Record) (c Commit, ok bool, err error) {
	if r.Attrs.IsControl() || len(r.Key) < 2 || r.Key[0] != 0 || r.Key[1] > 1 || r.Value == nil {
		return Commit{}, false, nil // keys 0 and 1 are a commit's
	}
	key, value := kmsg.NewOffsetCommitKey(), kmsg.NewOffsetCommitValue()
	if err := key.ReadFrom(r.Key); err != nil {
		return Commit{}, false, err
	}
	if err := value.ReadFrom(r.Value); err != nil {
		return Commit{}, false, err
	}
	return Commit{Group: key.Group, Topic: key.Topic, Partition: key.Partition, Offset: value.Offset, At: value.CommitTimestamp, Log: r.Offset}, true, nil
}
