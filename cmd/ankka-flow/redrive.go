package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ankka-flow/cmd/ankka-flow/deadletter"
	"ankka-flow/delivery/kafka"
	"ankka-flow/delivery/kafka/names"
	"ankka-flow/delivery/record"
)

const (
	// redriveChunk is how many dead letters are written between two commits of the
	// progress at most: so many may be written twice when it is killed.
	redriveChunk = 500
	// redriveChunkBytes bounds them too; a single larger record goes alone.
	redriveChunkBytes = 1 << 20
)

// redrive counts what is to be written, sees that it can be and, with --yes, writes it.
func (c *connection) redrive(ctx context.Context, out *output, f *lettersFlags, l *letters) error {
	plan, err := c.planOf(ctx, f, l.topic)
	if err != nil {
		return err
	}
	counts := deadletter.Histogram{}
	err = l.each(ctx, func(partition int32, r *record.Record) error {
		letter := deadletter.Read(r.Headers)
		verdict := plan.Judge(partition, r, &letter)
		to := ""
		if verdict == deadletter.Redrive {
			to, _ = plan.Selection.Place(&letter)
		}
		if verdict != deadletter.Unselected {
			counts.Add(&letter, verdict, to)
		}
		return nil
	}, nil)
	if err != nil {
		return err
	}
	partitions, err := c.targets(ctx, f, counts.Targets())
	if err != nil {
		return fmt.Errorf("%w (nothing was redriven)", err)
	}
	if err := out.histogram(counts, true); err != nil {
		return err
	}
	if !f.yes {
		fmt.Fprintf(out.app.stderr, "%s of %s would be redriven%s; nothing was written: --yes does it\n", plural(counts.Count(deadletter.Redrive), "record"), l.topic, left(counts, f))
		return nil
	}
	r := newRedriver(c.client, plan, l.topic, partitions, int(f.rate))
	err = l.each(ctx, func(partition int32, rec *record.Record) error { return r.take(ctx, partition, rec) }, func(int32) error { return r.flush(ctx) })
	if closeErr := r.w.close(); err == nil {
		err = closeErr
	}
	fmt.Fprintf(out.app.stderr, "%s of %s redriven%s\n", plural(r.written, "record"), l.topic, left(counts, f))
	if err != nil {
		return fmt.Errorf("%w; the same command goes on from there", err)
	}
	if n := counts.Count(deadletter.NoOrigin); n > 0 {
		return fmt.Errorf("%s of %s without a header that says where it was read: name a topic with --to", plural(n, "record"), l.topic)
	}
	return nil
}

// left says what stays, and why.
func left(counts deadletter.Histogram, f *lettersFlags) string {
	var parts []string
	for _, why := range []struct {
		verdict deadletter.Verdict
		text    string
	}{
		{deadletter.Done, "%d redriven before"},
		{deadletter.TooOften, fmt.Sprintf("%%d redriven %d times or more", f.redrives)},
		{deadletter.NoOrigin, "%d without an origin"},
	} {
		if n := counts.Count(why.verdict); n > 0 {
			parts = append(parts, fmt.Sprintf(why.text, n))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ", left: " + strings.Join(parts, ", ")
}

// planOf is the selection with every redrive of the topic before it.
func (c *connection) planOf(ctx context.Context, f *lettersFlags, topic string) (*deadletter.Plan, error) {
	groups, err := c.client.ListGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("looking for earlier redrives: %w", err)
	}
	plan := &deadletter.Plan{Selection: f.selection}
	for _, group := range groups {
		selection, ok := deadletter.ParseGroup(group, topic)
		if !ok {
			continue
		}
		committed, err := c.client.GroupOffsets(ctx, group)
		if err != nil {
			return nil, fmt.Errorf("looking for earlier redrives: %w", err)
		}
		plan.Past = append(plan.Past, deadletter.Past{Selection: selection, Committed: committed[topic]})
	}
	return plan, nil
}

// targets counts the partitions of the topics that are written to. All that are missing
// are named, before anything is written: their records would wait for ever.
func (c *connection) targets(ctx context.Context, f *lettersFlags, topics []string) (map[string]int32, error) {
	if len(topics) == 0 && f.to != deadletter.Origin {
		topics = []string{f.to} // a mistake shows at once
	}
	partitions := map[string]int32{}
	var problems []error
	for _, topic := range topics {
		if names.CheckTopic(topic) != nil {
			problems = append(problems, fmt.Errorf("a dead letter says that it was read from %q, which is no topic's name; --to names one", topic))
			continue
		}
		info, err := c.topic(ctx, topic)
		if errors.Is(err, errNoTopic) {
			err = c.noTopic(ctx, topic)
		}
		partitions[topic], problems = info.Partitions, append(problems, err)
	}
	return partitions, errors.Join(problems...)
}

// redriver writes dead letters, a chunk of one partition at a time: first they are
// confirmed, then the progress is committed.
type redriver struct {
	client     *kafka.Client
	w          *lineWriter
	plan       *deadletter.Plan
	topic      string
	group      string
	partitions map[string]int32
	rate       int

	from    int32 // the partition that the chunk is of
	next    int64 // behind its last record
	outs    []kafka.Out
	pin     int32 // of the last of outs
	count   int
	bytes   int
	written int
	began   time.Time
}

func newRedriver(client *kafka.Client, plan *deadletter.Plan, topic string, partitions map[string]int32, rate int) *redriver {
	return &redriver{
		client: client, w: newLineWriter(client, topic), plan: plan, topic: topic, group: plan.Selection.Group(topic),
		partitions: partitions, rate: rate, began: time.Now(),
	}
}

// take adds a record that is to be redriven to the chunk.
func (d *redriver) take(ctx context.Context, partition int32, r *record.Record) error {
	letter := deadletter.Read(r.Headers)
	if d.plan.Judge(partition, r, &letter) != deadletter.Redrive {
		return nil
	}
	if d.count > 0 && d.bytes+r.Size() > redriveChunkBytes {
		if err := d.flush(ctx); err != nil {
			return err
		}
	}
	to, pin := d.plan.Selection.Place(&letter)
	if pin >= d.partitions[to] {
		pin = deadletter.AnyPartition
	}
	if n := len(d.outs); n == 0 || d.outs[n-1].Topic != to || d.pin != pin {
		out := kafka.Out{Topic: to}
		if pin >= 0 {
			out.Pin = &pin
		}
		d.outs, d.pin = append(d.outs, out), pin
	}
	last := &d.outs[len(d.outs)-1]
	last.Records = append(last.Records, cloned(deadletter.Redriven(r, &letter)))
	d.from, d.next, d.count, d.bytes = partition, r.Offset+1, d.count+1, d.bytes+r.Size()
	if d.count == d.chunk() {
		return d.flush(ctx)
	}
	return nil
}

// chunk is how many records are written at once: fewer where a rate would make a long
// wait of it.
func (d *redriver) chunk() int {
	if d.rate == 0 {
		return redriveChunk
	}
	return min(redriveChunk, max(1, d.rate/4))
}

// flush writes the chunk, commits behind it and waits as the rate says. An interrupt
// ends the wait, not the writing: that is bounded, and cut off it would come twice.
func (d *redriver) flush(ctx context.Context) error {
	if d.count == 0 {
		return nil
	}
	whole := context.WithoutCancel(ctx)
	if err := d.w.send(whole, d.outs); err != nil {
		return err
	}
	d.written += d.count
	if err := d.client.SeekGroup(whole, d.group, d.topic, d.from, d.next); err != nil {
		return fmt.Errorf("keeping the progress: %w (the last %s will be written again)", err, plural(d.count, "record"))
	}
	d.outs, d.count, d.bytes = nil, 0, 0
	if d.rate == 0 {
		return nil
	}
	due := time.Duration(float64(d.written) / float64(d.rate) * float64(time.Second))
	select {
	case <-time.After(due - time.Since(d.began)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// cloned has bytes of its own: those of a fetch are not kept.
func cloned(r record.Record) record.Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	for i, h := range r.Headers {
		r.Headers[i] = record.Header{Name: bytes.Clone(h.Name), Value: bytes.Clone(h.Value)}
	}
	return r
}
