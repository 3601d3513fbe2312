package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ankka-flow/delivery/kafka/group"
)

const (
	listOffsetsKey      = 2
	listOffsetsVersion  = 5 // the last without flexible fields
	createTopicsKey     = 19
	createTopicsVersion = 4 // the last without flexible fields
)

// Earliest and Latest are the two places of ListOffsets that are no
// timestamps. Latest is the last stable offset: what read_committed can see.
const (
	Earliest int64 = -2
	Latest   int64 = -1
)

// UnknownTopic is the code of a topic that does not exist, in TopicInfo.Err.
const UnknownTopic = codeUnknownTopic

// TopicForbidden is the code of a topic that we may not see, in TopicInfo.Err.
const TopicForbidden = codeTopicAuthorization

// TopicInfo is a topic as the cluster describes it.
type TopicInfo struct {
	// Partitions is their number, 0 when Err is set.
	Partitions int32
	// Err is a *CodeError, such as 3 (there is no such topic) or 29 (no right).
	Err error
}

// Topics describes topics by name, at least one; it creates none. The error is
// that no broker answered; a topic's own is in its TopicInfo.
func (c *Client) Topics(ctx context.Context, names ...string) (map[string]TopicInfo, error) {
	a, _, err := c.askMetadata(ctx, names)
	if err != nil {
		return nil, err
	}
	out := make(map[string]TopicInfo, len(names))
	for _, name := range names {
		t, ok := a.topics[name]
		if !ok {
			t.code = codeUnknownTopic
		}
		info := TopicInfo{Partitions: int32(len(t.leaders)), Err: c.codeErr(t.code, "topic %s", name)}
		if info.Err != nil {
			info.Partitions = 0
		}
		out[name] = info
	}
	return out, nil
}

// NewTopic is a topic to be made.
type NewTopic struct {
	Name string
	// Partitions and Replicas; 0: the cluster's default.
	Partitions int32
	Replicas   int16
	// Configs are topic settings, such as cleanup.policy; nil: none.
	Configs map[string]string
}

// CreateTopics makes topics and waits until the cluster knows them. A topic
// that exists is no error, whatever its settings. Errors are joined, one a
// topic, each a *CodeError.
func (c *Client) CreateTopics(ctx context.Context, topics []NewTopic) error {
	body := appendInt32(nil, int32(len(topics)))
	for _, t := range topics {
		body = appendNewTopic(body, t)
	}
	body = appendInt32(body, int32(c.cfg.RequestTimeout/time.Millisecond))
	body = appendBool(body, false) // not only validate
	src, err := c.askController(ctx, createTopicsKey, createTopicsVersion, body)
	if err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	if err := c.decodeCreated(src); err != nil {
		return err
	}
	return c.awaitTopics(ctx, topics)
}

// decodeCreated joins what went wrong with each topic.
func (c *Client) decodeCreated(src []byte) error {
	d := decoder{src: src}
	d.int32() // throttle time
	var errs []error
	for range d.count(6) {
		name, code, text := d.string(), d.int16(), d.string()
		if d.err != nil {
			break
		}
		if code == codeNone || code == codeTopicExists {
			continue
		}
		what := "creating topic " + name
		if text != "" {
			what += " (" + text + ")"
		}
		errs = append(errs, c.codeErr(code, "%s", what))
	}
	return errors.Join(append(errs, d.err)...)
}

// askController sends a request that only the controller answers. Brokers that were
// learned with something else are not enough: which of them it is, metadata says.
func (c *Client) askController(ctx context.Context, key, version int16, body []byte) ([]byte, error) {
	if err := c.metadataKnown(ctx, func(m *metadata) bool { return m.answers > 0 }); err != nil {
		return nil, err
	}
	c.meta.mu.Lock()
	controller := c.meta.controller
	c.meta.mu.Unlock()
	return c.request(ctx, controller, key, version, body)
}

func appendNewTopic(body []byte, t NewTopic) []byte {
	partitions, replicas := t.Partitions, t.Replicas
	if partitions == 0 {
		partitions = -1
	}
	if replicas == 0 {
		replicas = -1
	}
	body = appendString(body, t.Name)
	body = appendInt32(body, partitions)
	body = appendInt16(body, replicas)
	body = appendInt32(body, 0) // no assignment by hand
	body = appendInt32(body, int32(len(t.Configs)))
	for _, k := range slices.Sorted(maps.Keys(t.Configs)) {
		body = appendString(body, k)
		body = appendString(body, t.Configs[k])
	}
	return body
}

// awaitTopics waits until every topic has leaders: creation is asynchronous.
func (c *Client) awaitTopics(ctx context.Context, topics []NewTopic) error {
	names := make([]string, len(topics))
	for i, t := range topics {
		names[i] = t.Name
	}
	for {
		a, _, err := c.askMetadata(ctx, names)
		if err != nil {
			return fmt.Errorf("waiting for new topics: %w", err)
		}
		ready := 0
		for _, name := range names {
			if t, ok := a.topics[name]; ok && t.healthy() {
				ready++
			}
		}
		if ready == len(names) {
			c.wakeMetadata()
			return nil
		}
		if !sleep(ctx, refreshLimit) {
			return fmt.Errorf("waiting for new topics: %w", context.Cause(ctx))
		}
	}
}

// ListOffsets finds, for every partition of a topic, the offset at Earliest,
// at Latest, or of the first record not older than a timestamp in
// milliseconds since 1970; where there is none that late, the latest one.
// Errors: no broker answers, or a *CodeError; the caller may repeat it.
func (c *Client) ListOffsets(ctx context.Context, topic string, at int64) (map[int32]int64, error) {
	a, _, err := c.askMetadata(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	t := a.topics[topic]
	if err := c.codeErr(t.code, "topic %s", topic); err != nil {
		return nil, err
	}
	c.learnBrokers(a.brokers)
	byLeader := map[int32][]int32{}
	for p, node := range t.leaders {
		byLeader[node] = append(byLeader[node], int32(p))
	}
	out := make(map[int32]int64, len(t.leaders))
	var late []int32
	for node, partitions := range byLeader {
		got, err := c.listOffsetsAt(ctx, node, topic, partitions, at, false)
		if err != nil {
			return nil, err
		}
		for p, o := range got {
			if o.code != codeNone {
				return nil, c.codeErr(o.code, "listing offsets of %s/%d", topic, p)
			}
			if out[p] = o.offset; o.offset < 0 {
				late = append(late, p)
			}
		}
	}
	if len(late) > 0 && at >= 0 {
		ends, err := c.ListOffsets(ctx, topic, Latest)
		if err != nil {
			return nil, err
		}
		for _, p := range late {
			out[p] = ends[p]
		}
	}
	return out, nil
}

// learnBrokers adds brokers that are not known yet.
func (c *Client) learnBrokers(brokers map[int32]string) {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	for node, addr := range brokers {
		if _, ok := c.meta.brokers[node]; !ok {
			c.meta.brokers[node] = addr
		}
	}
}

// listedOffset is one partition's answer.
type listedOffset struct {
	code   int16
	offset int64
}

// listOffsetsAt asks one leader about partitions of one topic. The end is the
// last stable offset, or the high watermark when uncommitted.
func (c *Client) listOffsetsAt(ctx context.Context, node int32, topic string, partitions []int32, at int64, uncommitted bool) (map[int32]listedOffset, error) {
	body := appendInt32(nil, -1) // no replica
	body = append(body, isolation(uncommitted))
	body = appendInt32(body, 1)
	body = appendString(body, topic)
	body = appendInt32(body, int32(len(partitions)))
	for _, p := range partitions {
		body = appendInt32(body, p)
		body = appendInt32(body, -1) // leader epoch: not known
		body = appendInt64(body, at)
	}
	src, err := c.request(ctx, node, listOffsetsKey, listOffsetsVersion, body)
	if err != nil {
		return nil, fmt.Errorf("listing offsets of %s: %w", topic, err)
	}
	out, err := decodeListedOffsets(src)
	if err != nil {
		return nil, fmt.Errorf("listing offsets of %s: %w", topic, err)
	}
	return out, nil
}

func decodeListedOffsets(src []byte) (map[int32]listedOffset, error) {
	d := decoder{src: src}
	d.int32() // throttle time
	out := map[int32]listedOffset{}
	for range d.count(6) {
		d.string()
		for range d.count(26) {
			p, code := d.int32(), d.int16()
			d.int64() // timestamp
			offset := d.int64()
			d.int32() // leader epoch
			if d.err == nil {
				out[p] = listedOffset{code, offset}
			}
		}
	}
	return out, d.err
}

func isolation(uncommitted bool) byte {
	if uncommitted {
		return 0
	}
	return 1
}

// CommittedOffsets reads what a group has committed for a topic; partitions
// without a commit are absent. Errors as ListOffsets.
func (c *Client) CommittedOffsets(ctx context.Context, groupID, topic string) (map[int32]int64, error) {
	infos, err := c.Topics(ctx, topic)
	if err != nil {
		return nil, err
	}
	if err := infos[topic].Err; err != nil {
		return nil, err
	}
	partitions := make([]int32, infos[topic].Partitions)
	for i := range partitions {
		partitions[i] = int32(i)
	}
	if err := c.brokersKnown(ctx); err != nil {
		return nil, err
	}
	got, err := c.fetchCommitted(ctx, groupID, topic, partitions)
	if err != nil {
		return nil, err
	}
	out := map[int32]int64{}
	for p, offset := range got {
		if offset >= 0 {
			out[p] = offset
		}
	}
	return out, nil
}

// fetchCommitted asks the coordinator for commits, -1 where there is none. It
// repeats nothing; a *CodeError says which code came.
func (c *Client) fetchCommitted(ctx context.Context, groupID, topic string, partitions []int32) (map[int32]int64, error) {
	body := group.OffsetFetchRequest{Group: groupID, Topic: topic, Partitions: partitions}.AppendTo(nil)
	src, err := c.coordinate(ctx, groupID, group.OffsetFetchKey, group.OffsetFetchVersion, body)
	if err != nil {
		return nil, fmt.Errorf("reading the commits of group %s: %w", groupID, err)
	}
	a, err := group.DecodeOffsetFetch(src)
	if err != nil {
		return nil, fmt.Errorf("reading the commits of group %s: %w", groupID, err)
	}
	if a.ErrorCode != codeNone {
		c.forgetCoordinator(groupID)
		return nil, c.codeErr(a.ErrorCode, "reading the commits of group %s", groupID)
	}
	out := map[int32]int64{}
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != codeNone {
				return nil, c.codeErr(p.ErrorCode, "reading the commit of group %s for %s/%d", groupID, topic, p.Partition)
			}
			out[p.Partition] = p.Offset
		}
	}
	return out, nil
}

// TopicNames lists the topics that the cluster lets us see, sorted. It is for
// people who mistyped one; nothing that runs asks for all topics.
func (c *Client) TopicNames(ctx context.Context) ([]string, error) {
	a, err := askAny(ctx, c, "listing the topics", append(appendInt32(nil, -1), 0, 0, 0), decodeMetadata)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Keys(a.topics)), nil
}
