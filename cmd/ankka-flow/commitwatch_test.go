package main

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"ankka-flow/scripts/checker"
)

// commitWatch notes every commit that reaches a broker, with what is in the
// outlets' logs and in the group at that time: the checker's evidence.
type commitWatch struct {
	cluster *kfake.Cluster
	streams []checker.Stream
	mu      sync.Mutex
	commits []checker.Commit
}

// watchCommits begins to watch the groups of some streams.
func watchCommits(cluster *kfake.Cluster, streams []checker.Stream) *commitWatch {
	w := &commitWatch{cluster: cluster, streams: streams}
	cluster.ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		q := req.(*kmsg.OffsetCommitRequest)
		i := slices.IndexFunc(streams, func(s checker.Stream) bool { return s.Group == q.Group })
		if i >= 0 {
			cluster.SleepControl(func() { w.asked(q, streams[i]) }) // the cluster answers nothing from within a control
		}
		return nil, nil, false
	})
	return w
}

func (w *commitWatch) asked(q *kmsg.OffsetCommitRequest, s checker.Stream) {
	w.mu.Lock() // over all of it: what is seen later stands behind what was seen before
	defer w.mu.Unlock()
	ends := map[string]map[int32]int64{}
	for _, outlet := range s.Outlets {
		ends[outlet.Topic] = map[int32]int64{}
		for _, p := range w.cluster.PartitionInfos(outlet.Topic) {
			ends[outlet.Topic][p.Partition] = p.HighWatermark
		}
	}
	if info := w.cluster.GroupInfo(s.Group); info != nil {
		for p, committed := range info.Commits[s.Inlet] {
			w.commits = append(w.commits, checker.Commit{Group: s.Group, Topic: s.Inlet, Partition: p, Offset: committed.Offset, Ends: ends})
		}
	}
	for _, topic := range q.Topics {
		for _, p := range topic.Partitions {
			w.commits = append(w.commits, checker.Commit{Group: q.Group, Topic: topic.Topic, Partition: p.Partition, Offset: p.Offset, Asked: true, Ends: ends})
		}
	}
}

// check reads the logs and has everything judged; the violations of the kinds
// in but are none.
func (w *commitWatch) check(ctx context.Context, t *testing.T, but ...checker.Kind) *checker.Report {
	t.Helper()
	var topics []string
	for _, s := range w.streams {
		topics = append(topics, s.Inlet)
		for _, outlet := range s.Outlets {
			topics = append(topics, outlet.Topic)
		}
	}
	slices.Sort(topics)
	logs, err := checker.Read(ctx, w.cluster.ListenAddrs(), slices.Compact(topics)...)
	if err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.commits) == 0 && len(but) == 0 {
		t.Fatal("no commit was seen")
	}
	return violations(t, checker.Check(w.streams, checker.Evidence{Logs: logs, Commits: w.commits}), but...)
}

// violations fails the test by what the checker found.
func violations(t *testing.T, report *checker.Report, but ...checker.Kind) *checker.Report {
	t.Helper()
	said := 0
	for _, v := range report.Violations {
		if said < 20 && !slices.Contains(but, v.Kind) {
			t.Error(v)
			said++
		}
	}
	return report
}

// outlet is one as the checker takes it, for a streamlet that writes at most one
// record for one.
func outlet(topic string, partitions int, expect func(in *kgo.Record) *kgo.Record) checker.Outlet {
	return checker.Outlet{Topic: topic, Partitions: partitions, Expect: func(in *kgo.Record) []*kgo.Record {
		if want := expect(in); want != nil {
			return []*kgo.Record{want}
		}
		return nil
	}}
}
