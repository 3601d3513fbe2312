package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The bits of a set of operations are their numbers in the protocol
// (AclOperation); unknownRights is what a broker without an authorizer may say.
const (
	mayRead       int32 = 1 << 3
	mayWrite      int32 = 1 << 4
	unknownRights int32 = -1 << 31
)

// Needs are what a run does on a cluster: it reads topics in groups and writes
// topics.
type Needs struct{ Reads, Writes, Groups []string }

// MissingRights says which rights the user lacks for it, a sentence with the remedy
// for each. It asks the cluster for what the user may do, and changes nothing; what the
// cluster does not say counts as given, and so does a topic that does not exist. The
// error is the transport's.
func (c *Client) MissingRights(ctx context.Context, n Needs) ([]string, error) {
	topics, err := c.topicRights(ctx, append(append([]string(nil), n.Reads...), n.Writes...))
	if err != nil {
		return nil, err
	}
	var missing []string
	lack := func(rights, bit int32, operation, kind, name string) {
		if rights == unknownRights || rights&bit != 0 {
			return
		}
		who, allow := c.principal(), c.principal()
		if who == "" {
			who, allow = "the user", "User:NAME"
		}
		missing = append(missing, fmt.Sprintf("%s needs %s on %s %s: kafka-acls --add --allow-principal %s --operation %s --%s %s",
			who, strings.ToUpper(operation), kind, name, allow, operation, kind, name))
	}
	for _, topic := range n.Reads {
		lack(topics[topic], mayRead, "Read", "topic", topic)
	}
	for _, topic := range n.Writes {
		lack(topics[topic], mayWrite, "Write", "topic", topic)
	}
	for _, name := range n.Groups {
		rights, err := c.groupRights(ctx, name)
		if err != nil {
			return nil, err
		}
		lack(rights, mayRead, "Read", "group", name)
	}
	return missing, nil
}

// topicRights is what we may do with each topic: none where we may not see it.
func (c *Client) topicRights(ctx context.Context, names []string) (map[string]int32, error) {
	if len(names) == 0 {
		return nil, nil
	}
	body := appendInt32(nil, int32(len(names)))
	for _, name := range names {
		body = appendString(body, name)
	}
	body = append(body, 0, 0, 1) // create, rights of the cluster, rights of topics
	return askAny(ctx, c, "asking for rights", body, decodeTopicRights)
}

func decodeTopicRights(src []byte) (map[string]int32, error) {
	d := decoder{src: src}
	d.skipCluster()
	rights := map[string]int32{}
	for range d.count(9) {
		code, name := d.int16(), d.string()
		d.int8() // internal
		decodeLeaders(&d)
		may := d.int32()
		switch code {
		case codeTopicAuthorization:
			may = 0
		case codeUnknownTopic:
			may = unknownRights
		}
		rights[name] = may
	}
	return rights, d.err
}

// groupRights is what we may do with a group.
func (c *Client) groupRights(ctx context.Context, name string) (rights int32, err error) {
	body := appendBool(appendString(appendInt32(nil, 1), name), true)
	err = c.untilCoordinated(ctx, name, func(ctx context.Context) error {
		src, err := c.coordinate(ctx, name, describeGroupsKey, describeGroupsVersion, body)
		if err != nil {
			return fmt.Errorf("asking for the rights on group %s: %w", name, err)
		}
		var detail GroupDetail
		code, may, err := detail.decodeRights(src)
		if err != nil {
			return fmt.Errorf("asking for the rights on group %s: %w", name, err)
		}
		rights = may
		return c.codeErr(code, "describing group %s", name)
	})
	var refused *CodeError
	if errors.As(err, &refused) && refused.Code == codeGroupAuthorization {
		return 0, nil
	}
	return rights, err
}
