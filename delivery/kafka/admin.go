package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"ankka-flow/delivery/kafka/group"
)

const (
	describeGroupsKey     = 15
	describeGroupsVersion = 4 // the last without flexible fields
	listGroupsKey         = 16
	listGroupsVersion     = 2 // the last without flexible fields
	deleteTopicsKey       = 20
	deleteTopicsVersion   = 3 // the last without flexible fields
)

// UnknownMember is the code of a commit into a group that has members.
const UnknownMember int16 = 25

// TopicDetail is a topic with everything that the cluster says about it.
type TopicDetail struct {
	Name string
	// Partitions in the order of their numbers.
	Partitions []PartitionDetail
	// Err is as in TopicInfo.
	Err error
}

// PartitionDetail is where a partition is kept. Brokers go by their ids.
type PartitionDetail struct {
	Partition int32
	// Leader is -1 while there is none: then it can be neither read nor written.
	Leader           int32
	Replicas, InSync []int32
}

// HasLeaders says that every partition has one, so that offsets can be listed.
func (t *TopicDetail) HasLeaders() bool {
	return t.Err == nil && !slices.ContainsFunc(t.Partitions, func(p PartitionDetail) bool { return p.Leader < 0 })
}

// DescribeTopics describes topics by name, sorted; without any, all that the
// cluster lets us see. It creates none. The error is that no broker answered.
func (c *Client) DescribeTopics(ctx context.Context, names ...string) ([]TopicDetail, error) {
	body := appendInt32(nil, -1) // all
	if len(names) > 0 {
		body = appendMetadata(nil, metadataVersion, names)
	} else {
		body = append(body, 0, 0, 0) // create, rights of the cluster, rights of topics
	}
	return askAny(ctx, c, "describing topics", body, c.decodeTopicDetails)
}

// decodeTopicDetails reads what decodeMetadata passes over.
func (c *Client) decodeTopicDetails(src []byte) ([]TopicDetail, error) {
	d := decoder{src: src}
	d.skipCluster()
	var topics []TopicDetail
	for range d.count(9) {
		code, name := d.int16(), d.string()
		t := TopicDetail{Name: name, Err: c.codeErr(code, "topic %s", name)}
		d.int8() // internal
		for range d.count(26) {
			d.int16() // a partition without a leader says so twice
			p := PartitionDetail{Partition: d.int32(), Leader: d.int32()}
			d.int32() // leader epoch
			p.Replicas, p.InSync = d.int32s(), d.int32s()
			d.int32s() // offline
			t.Partitions = append(t.Partitions, p)
		}
		d.int32() // rights
		if d.err != nil {
			return nil, d.err
		}
		slices.SortFunc(t.Partitions, func(a, b PartitionDetail) int { return int(a.Partition) - int(b.Partition) })
		topics = append(topics, t)
	}
	slices.SortFunc(topics, func(a, b TopicDetail) int { return strings.Compare(a.Name, b.Name) })
	return topics, d.err
}

// int32s reads an array of numbers.
func (d *decoder) int32s() []int32 {
	numbers := make([]int32, d.count(4))
	for i := range numbers {
		numbers[i] = d.int32()
	}
	return numbers
}

// DeleteTopics deletes topics with their records and waits until the cluster
// no longer knows them. Errors are joined, one a topic, each a *CodeError.
func (c *Client) DeleteTopics(ctx context.Context, topics ...string) error {
	body := appendInt32(nil, int32(len(topics)))
	for _, name := range topics {
		body = appendString(body, name)
	}
	body = appendInt32(body, int32(c.cfg.RequestTimeout/time.Millisecond))
	src, err := c.askController(ctx, deleteTopicsKey, deleteTopicsVersion, body)
	if err != nil {
		return fmt.Errorf("deleting topics: %w", err)
	}
	if err := c.decodeDeleted(src); err != nil {
		return err
	}
	return c.awaitGone(ctx, topics)
}

// decodeDeleted joins what went wrong with each topic.
func (c *Client) decodeDeleted(src []byte) error {
	d := decoder{src: src}
	d.int32() // throttle time
	var errs []error
	for range d.count(4) {
		name, code := d.string(), d.int16()
		if d.err == nil {
			errs = append(errs, c.codeErr(code, "deleting topic %s", name))
		}
	}
	return errors.Join(append(errs, d.err)...)
}

// awaitGone waits until no topic is known any more: deletion is asynchronous,
// and whoever makes it anew at once would be told that it exists.
func (c *Client) awaitGone(ctx context.Context, topics []string) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	for {
		known, err := c.DescribeTopics(ctx, topics...)
		if err != nil {
			return fmt.Errorf("waiting for topics to go: %w", err)
		}
		known = slices.DeleteFunc(known, func(t TopicDetail) bool { return t.Err != nil })
		if len(known) == 0 {
			return nil
		}
		if !sleep(ctx, refreshLimit) {
			return fmt.Errorf("topic %s is deleted and still there; perhaps a client makes it again: %w", known[0].Name, context.Cause(ctx))
		}
	}
}

// The states of a group that matter to who looks at it; others are passed on as
// the broker names them.
const (
	// GroupEmpty has no members: its offsets may be set.
	GroupEmpty = "Empty"
	// GroupDead is what the broker says of a group that does not exist, and of
	// one of another protocol than JoinGroup's (KIP-848); ListGroups has those.
	GroupDead = "Dead"
)

// GroupDetail is a consumer group as its coordinator describes it.
type GroupDetail struct {
	Name    string
	State   string
	Members []GroupMember
}

// GroupMember is one member of a group.
type GroupMember struct {
	// Instance is group.instance.id; empty: a dynamic member.
	ID, Instance, Client, Host string
	// Partitions are those it was given, by topic; nil as well where its
	// assignor's encoding is not Java's.
	Partitions map[string][]int32
}

// ListGroups lists the groups that the cluster lets us see, sorted. Every
// broker knows its own ones: the error is that one of them did not answer.
func (c *Client) ListGroups(ctx context.Context) ([]string, error) {
	if err := c.brokersKnown(ctx); err != nil {
		return nil, fmt.Errorf("listing the groups: %w", err)
	}
	c.meta.mu.Lock()
	nodes := slices.Sorted(maps.Keys(c.meta.brokers))
	c.meta.mu.Unlock()
	seen := map[string]bool{}
	for _, node := range nodes {
		err := c.untilCoordinated(ctx, "", func(ctx context.Context) error {
			src, err := c.request(ctx, node, listGroupsKey, listGroupsVersion, nil)
			if err != nil {
				return fmt.Errorf("listing the groups: %w", err)
			}
			code, groups, err := decodeGroups(src)
			if err == nil {
				err = c.codeErr(code, "listing the groups of broker %d", node)
			}
			for _, name := range groups {
				seen[name] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.Sorted(maps.Keys(seen)), nil
}

func decodeGroups(src []byte) (code int16, names []string, err error) {
	d := decoder{src: src}
	d.int32() // throttle time
	code = d.int16()
	for range d.count(4) {
		names = append(names, d.string())
		d.string() // protocol type
	}
	return code, names, d.err
}

// DescribeGroup describes a group; one that does not exist is GroupDead. Errors:
// the transport's, or a *CodeError (30: no right).
func (c *Client) DescribeGroup(ctx context.Context, groupID string) (GroupDetail, error) {
	body := appendString(appendInt32(nil, 1), groupID)
	body = appendBool(body, false) // rights
	var detail GroupDetail
	err := c.untilCoordinated(ctx, groupID, func(ctx context.Context) error {
		src, err := c.coordinate(ctx, groupID, describeGroupsKey, describeGroupsVersion, body)
		if err != nil {
			return fmt.Errorf("describing group %s: %w", groupID, err)
		}
		code, err := detail.decode(src)
		if err != nil {
			return fmt.Errorf("describing group %s: %w", groupID, err)
		}
		return c.codeErr(code, "describing group %s", groupID)
	})
	return detail, err
}

// decode reads an answer about one group.
func (g *GroupDetail) decode(src []byte) (code int16, err error) {
	code, _, err = g.decodeRights(src)
	return code, err
}

// decodeRights also gives what we may do with it.
func (g *GroupDetail) decodeRights(src []byte) (code int16, rights int32, err error) {
	d := decoder{src: src}
	d.int32() // throttle time
	if n := d.count(18); n != 1 && d.err == nil {
		return 0, 0, fmt.Errorf("%w: %d groups where one was asked for", errMalformed, n)
	}
	code = d.int16()
	*g = GroupDetail{Name: d.string(), State: d.string()}
	d.string() // protocol type
	d.string() // protocol
	for range d.count(16) {
		m := GroupMember{ID: d.string(), Instance: d.string(), Client: d.string(), Host: d.string()}
		d.bytes() // subscription
		assignment, err := group.DecodeAssignment(d.bytes())
		if err == nil && len(assignment.Partitions) > 0 {
			m.Partitions = map[string][]int32{}
			for _, t := range assignment.Partitions {
				m.Partitions[t.Topic] = append(m.Partitions[t.Topic], t.Partitions...)
			}
		}
		if d.err != nil {
			break
		}
		g.Members = append(g.Members, m)
	}
	rights = d.int32()
	return code, rights, d.err
}

// bytes reads bytes with their length before them; null counts as empty.
func (d *decoder) bytes() []byte {
	n := d.int32()
	if n < 0 {
		return nil
	}
	return d.take(int(n))
}

// GroupOffsets reads everything that a group has committed, by topic and
// partition. Errors as DescribeGroup's.
func (c *Client) GroupOffsets(ctx context.Context, groupID string) (map[string]map[int32]int64, error) {
	body := appendInt32(appendString(nil, groupID), -1) // all topics
	out := map[string]map[int32]int64{}
	err := c.untilCoordinated(ctx, groupID, func(ctx context.Context) error {
		src, err := c.coordinate(ctx, groupID, group.OffsetFetchKey, group.OffsetFetchVersion, body)
		if err != nil {
			return fmt.Errorf("reading the commits of group %s: %w", groupID, err)
		}
		a, err := group.DecodeOffsetFetch(src)
		if err != nil {
			return fmt.Errorf("reading the commits of group %s: %w", groupID, err)
		}
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != codeNone || p.Offset < 0 {
					continue // a topic that we may not see, or nothing committed
				}
				if out[t.Topic] == nil {
					out[t.Topic] = map[int32]int64{}
				}
				out[t.Topic][p.Partition] = p.Offset
			}
		}
		return c.codeErr(a.ErrorCode, "reading the commits of group %s", groupID)
	})
	return out, err
}

// SeekGroup commits a partition's offset without being a member. The
// coordinator refuses that, with a *CodeError of UnknownMember, while the group
// has members: they would go on from where they are, and commit over it.
func (c *Client) SeekGroup(ctx context.Context, groupID, topic string, partition int32, offset int64) error {
	body := group.OffsetCommitRequest{
		Group: groupID, Generation: -1, Topic: topic,
		Offsets: []group.CommitOffset{{Partition: partition, Offset: offset, LeaderEpoch: -1}},
	}.AppendTo(nil)
	return c.untilCoordinated(ctx, groupID, func(ctx context.Context) error {
		what := fmt.Sprintf("committing %d for group %s on %s/%d", offset, groupID, topic, partition)
		src, err := c.coordinate(ctx, groupID, group.OffsetCommitKey, group.OffsetCommitVersion, body)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		a, err := group.DecodeOffsetCommit(src)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if len(a.Topics) != 1 || len(a.Topics[0].Partitions) != 1 {
			return fmt.Errorf("%s: %w: it is not answered", what, errMalformed)
		}
		return c.codeErr(a.Topics[0].Partitions[0].ErrorCode, "%s", what)
	})
}

// untilCoordinated asks again, for Config.RequestTimeout at most, while the
// answer is that the group's coordinator is starting or has moved.
func (c *Client) untilCoordinated(ctx context.Context, groupID string, ask func(context.Context) error) error {
	if err := c.brokersKnown(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.RequestTimeout)
	defer cancel()
	for {
		err := ask(ctx)
		var code *CodeError
		if !errors.As(err, &code) {
			return err
		}
		switch code.Code {
		case codeLoadInProgress, codeCoordinatorUnavailable, codeNotCoordinator:
			c.forgetCoordinator(groupID)
			if sleep(ctx, refreshLimit) {
				continue
			}
		}
		return err
	}
}
