package kafka

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"ankka-flow/delivery/kafka/recordbatch"
	"ankka-flow/delivery/record"
)

const (
	// onceWait is how long FetchOnce waits at a partition's end.
	onceWait = 500 * time.Millisecond
	// onceBytes is its first limit; a batch that is larger is asked for again.
	onceBytes = 1 << 20
	// onceChunk is how many records are decoded at a time.
	onceChunk = 500
)

// FetchOnce reads one partition without a group, from offset on, under
// read_committed: one fetch, which waits half a second at the partition's end.
// visit gets each record and says whether to go on; the record must not be kept.
// next is where to go on, behind ranges without records too; behind the last
// record given where visit ended it. A leader that moved is asked again until
// ctx ends; other errors (*CodeError, or of package recordbatch) are for a
// person.
func (c *Client) FetchOnce(ctx context.Context, topic string, partition int32, offset int64, visit func(*record.Record) bool) (next int64, err error) {
	c.watch(topic)
	for limit := onceBytes; ; {
		node, err := c.leaderOf(ctx, topic, partition)
		if err != nil {
			return offset, err
		}
		answer, err := c.fetchPartition(ctx, node, topic, fetchAsk{partition, offset, limit})
		if err != nil && ctx.Err() != nil {
			return offset, fmt.Errorf("reading %s/%d: %w", topic, partition, ctx.Err())
		}
		if err != nil || answer.code == codeNotLeader || answer.code == codeUnknownTopic {
			c.stale(topic)
			if !sleep(ctx, 100*time.Millisecond) {
				return offset, fmt.Errorf("reading %s/%d: %w", topic, partition, ctx.Err())
			}
			continue
		}
		if answer.code != codeNone {
			return offset, c.codeErr(answer.code, "reading %s/%d at offset %d", topic, partition, offset)
		}
		reader := recordbatch.NewReader(answer.data, offset, answer.aborted, recordbatch.Limits{})
		if partial := reader.FirstPartial(); partial > limit && partial <= maxAnswer {
			limit = partial
			continue
		}
		next, err := visitAll(reader, offset, visit)
		if err != nil {
			return next, fmt.Errorf("reading %s/%d: %w", topic, partition, err)
		}
		return next, nil
	}
}

// visitAll gives every record of an answer to visit.
func visitAll(reader *recordbatch.Reader, offset int64, visit func(*record.Record) bool) (next int64, err error) {
	next = offset
	var records []record.Record
	for reader.More() {
		records, err = reader.Read(records[:0], onceChunk, maxAnswer)
		if err != nil {
			return next, err
		}
		for i := range records {
			if !visit(&records[i]) {
				return next, nil
			}
			next = records[i].Offset + 1
		}
		next = reader.Next()
	}
	return next, nil
}

// leaderOf waits for a partition's leader. A topic that does not exist is an
// error at once.
func (c *Client) leaderOf(ctx context.Context, topic string, partition int32) (int32, error) {
	for {
		changed := c.changed()
		if node, ok := c.leader(topic, partition); ok {
			return node, nil
		}
		if n, known := c.partitions(topic); known && partition >= n {
			return 0, c.codeErr(codeUnknownTopic, "reading %s/%d", topic, partition)
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for the leader of %s/%d: %w", topic, partition, ctx.Err())
		case <-changed:
		}
	}
}

// fetchPartition sends one fetch for one partition.
func (c *Client) fetchPartition(ctx context.Context, node int32, topic string, ask fetchAsk) (answer fetched, err error) {
	ctx, cancel := context.WithTimeout(ctx, onceWait+fetchMargin)
	defer cancel()
	request := fetchRequest{topic: topic, maxWait: onceWait, maxBytes: ask.limit, asks: []fetchAsk{ask}}
	id := correlation.Add(1)
	frame := appendFrame(nil, fetchKey, fetchVersion, id, c.cfg.ClientID, request.appendTo(nil))
	var code int16
	_, err = c.exchange(ctx, node, func(rw io.ReadWriter) error {
		if _, err := rw.Write(frame); err != nil {
			return err
		}
		reader := fetchReader{buf: bufio.NewReaderSize(rw, 64<<10)}
		var err error
		_, code, err = reader.answer(id, func(int32) bool { return true }, func(f fetched) { answer = f })
		return err
	})
	if err == nil && code != codeNone {
		err = c.codeErr(code, "fetching from broker %d", node)
	}
	return answer, err
}
