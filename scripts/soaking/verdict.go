package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"ankka-flow/scripts/checker"
)

// stuckAfter is how long a group may commit nothing, with records left, in a
// cluster that is whole and without faults.
const stuckAfter = 4 * time.Minute

// awaitCommitted waits until every group has committed the inlet's end.
func (k *soak) awaitCommitted(ctx context.Context) error {
	if err := k.awaitWhole(ctx); err != nil {
		return err
	}
	k.event("no more faults; %d records were written", k.written)
	last, since := int64(-1), time.Now()
	for {
		left, err := k.left(ctx)
		switch {
		case err == nil && left == 0:
			k.event("everything is committed")
			return nil
		case err == nil && left != last:
			last, since = left, time.Now()
		case time.Since(since) > stuckAfter:
			k.problem("stuck: %d offsets are left, and nothing was committed for %v (%v)", last, stuckAfter, err)
			return nil
		}
		if !pause(ctx, 200*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// left is how many offsets all groups have not committed.
func (k *soak) left(ctx context.Context) (left int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	inlet := k.topic("", "in")
	ends, err := k.admin.ListEndOffsets(ctx, inlet)
	if err != nil {
		return 0, err
	}
	for _, mode := range modeNames {
		committed, err := k.admin.FetchOffsets(ctx, k.group(mode))
		if err != nil {
			return 0, err
		}
		for p, end := range ends[inlet] {
			if end.Err != nil {
				return 0, end.Err
			}
			at, _ := committed.Lookup(inlet, p)
			left += max(0, end.Offset-max(0, at.At))
		}
	}
	return left, nil
}

// streams is what the streamlets of streamlet.py must do, as the checker takes
// it.
func (k *soak) streams() []checker.Stream {
	var streams []checker.Stream
	for _, mode := range modeNames {
		s := checker.Stream{Group: k.group(mode), Inlet: k.topic(mode, "in")}
		for _, port := range []string{"out", "other"} {
			s.Outlets = append(s.Outlets, checker.Outlet{
				Topic: k.topic(mode, port), Partitions: partitions[port],
				Expect: func(in *kgo.Record) []*kgo.Record { return expected(mode, port, in) },
			})
		}
		streams = append(streams, s)
	}
	return streams
}

func expected(mode, port string, in *kgo.Record) []*kgo.Record {
	switch {
	case port == "other" && mode == "fan":
		var both []*kgo.Record
		for part := range 2 {
			p := strconv.Itoa(part)
			both = append(both, &kgo.Record{
				Key:     slices.Concat([]byte("copy-"), in.Key),
				Value:   slices.Concat(in.Value, []byte("|"+p)),
				Headers: append(slices.Clone(in.Headers), kgo.RecordHeader{Key: "part", Value: []byte(p)}),
			})
		}
		return both
	case port == "other":
		return nil
	case mode == "trouble":
		if n, err := strconv.Atoi(checker.ID(in)); err == nil && n%3 == 1 {
			return nil
		}
	}
	return []*kgo.Record{in}
}

// judge reads the logs and has the checker decide.
func (k *soak) judge(ctx context.Context) (*checker.Report, error) {
	logs, err := checker.Read(ctx, k.brokers, slices.Sorted(maps.Keys(k.topics()))...)
	if err != nil {
		return nil, err
	}
	var groups []string
	for _, mode := range modeNames {
		groups = append(groups, k.group(mode))
	}
	commits, err := checker.ReadCommits(ctx, k.brokers, groups...)
	if err != nil {
		return nil, err
	}
	report := checker.Check(k.streams(), checker.Evidence{Logs: logs, Commits: commits})
	inlet := 0
	for _, log := range logs[k.topic("", "in")] {
		inlet += len(log)
	}
	if inlet != k.written {
		return nil, fmt.Errorf("%d records were written and confirmed, the inlet's log has %d: the cluster lost or doubled some", k.written, inlet)
	}
	if len(report.Violations) == 0 && !k.keep {
		return report, nil
	}
	var late strings.Builder
	for _, v := range report.Late {
		fmt.Fprintln(&late, v)
	}
	if err := os.WriteFile(filepath.Join(k.dir, "late.txt"), []byte(late.String()), 0o644); err != nil {
		return nil, err
	}
	return report, k.keepLogs(logs, commits)
}

// keepLogs writes down what the checker read: the cluster ends with the soak.
func (k *soak) keepLogs(logs checker.Logs, commits []checker.Commit) error {
	write := func(name string, lines func(w *bufio.Writer)) error {
		file, err := os.Create(filepath.Join(k.dir, name))
		if err != nil {
			return err
		}
		w := bufio.NewWriter(file)
		lines(w)
		err = w.Flush()
		_ = file.Close()
		return err
	}
	for topic, partitions := range logs {
		for p, log := range partitions {
			err := write(fmt.Sprintf("%s-%d.tsv", topic, p), func(w *bufio.Writer) {
				fmt.Fprintln(w, "offset\tappended\tproducer\tepoch\tkey\tnumber\tbytes")
				for _, r := range log {
					fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%q\t%s\t%d\n", r.Offset, r.Timestamp.UnixMilli(), r.ProducerID, r.ProducerEpoch, r.Key, checker.ID(r), len(r.Value))
				}
			})
			if err != nil {
				return err
			}
		}
	}
	return write("commits.tsv", func(w *bufio.Writer) {
		fmt.Fprintln(w, "log\ttaken\tgroup\tpartition\toffset")
		for _, c := range commits {
			fmt.Fprintf(w, "%d\t%d\t%s\t%d\t%d\n", c.Log, c.At, c.Group, c.Partition, c.Offset)
		}
	})
}

// shown is how many violations are printed; the file has all.
const shown = 20

// conclude prints the figures, and keeps the folder where something is wrong.
func (k *soak) conclude(report *checker.Report) error {
	violations := slices.Clone(k.problems)
	for _, v := range report.Violations {
		violations = append(violations, v.String())
	}
	faults, byKind := 0, []string{}
	for _, kind := range slices.Sorted(maps.Keys(k.counts)) {
		faults += k.counts[kind]
		byKind = append(byKind, fmt.Sprintf("%d %s", k.counts[kind], kind))
	}
	fmt.Println("faults:", strings.Join(byKind, "; "))
	defer fmt.Printf("soak: seed %d, %.1f min, %d faults, %d supervisors, %d records in, %d due, %d written, %d repeats (%d late), %d commits, %d violations\n",
		k.seed, k.minutes, faults, len(k.all), k.written, report.Due, report.Written, report.Repeats, len(report.Late), report.Commits, len(violations))
	if len(violations) == 0 {
		if k.keep {
			return k.keepBrokerLogs()
		}
		return os.RemoveAll(k.dir)
	}
	for _, v := range violations[:min(shown, len(violations))] {
		fmt.Println("VIOLATION", v)
	}
	if err := os.WriteFile(filepath.Join(k.dir, "violations.txt"), []byte(strings.Join(violations, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	if err := k.keepBrokerLogs(); err != nil {
		return err
	}
	fmt.Printf("%s has the faults with their times, every log, and all violations\n", k.dir)
	return errViolated
}
