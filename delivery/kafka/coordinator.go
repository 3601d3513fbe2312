package kafka

import (
	"context"
	"fmt"
	"sync"

	"ankka-flow/delivery/kafka/group"
)

// coordinators remembers which broker coordinates which group, since asking
// before every commit doubles its cost.
type coordinators struct {
	mu    sync.Mutex
	nodes map[string]int32
}

// coordinate sends one frame to the group's coordinator. Any transport error
// forgets the coordinator; a caller that reads code 14, 15 or 16 in the answer
// calls forgetCoordinator itself, and waits a little before it asks again.
func (c *Client) coordinate(ctx context.Context, groupID string, key, version int16, body []byte) ([]byte, error) {
	node, err := c.coordinator(ctx, groupID)
	if err != nil {
		return nil, err
	}
	answer, err := c.request(ctx, node, key, version, body)
	if err != nil {
		c.forgetCoordinator(groupID)
	}
	return answer, err
}

func (c *Client) forgetCoordinator(groupID string) {
	c.coordinators.mu.Lock()
	defer c.coordinators.mu.Unlock()
	delete(c.coordinators.nodes, groupID)
}

// coordinator finds the group's coordinator. Error: the transport's, or a
// CodeError (15: none yet, 30: no right).
func (c *Client) coordinator(ctx context.Context, groupID string) (int32, error) {
	c.coordinators.mu.Lock()
	node, ok := c.coordinators.nodes[groupID]
	c.coordinators.mu.Unlock()
	if ok {
		return node, nil
	}
	a, err := c.findCoordinator(ctx, groupID)
	if err != nil {
		return -1, err
	}
	if a.ErrorCode != codeNone {
		return -1, c.codeErr(a.ErrorCode, "finding the coordinator of group %s", groupID)
	}
	c.coordinators.mu.Lock()
	c.coordinators.nodes[groupID] = a.Node
	c.coordinators.mu.Unlock()
	return a.Node, nil
}

// findCoordinator asks one broker after another until one answers, with an
// error code or without, and learns the coordinator's address.
func (c *Client) findCoordinator(ctx context.Context, groupID string) (group.FindCoordinatorResponse, error) {
	var none group.FindCoordinatorResponse
	body := group.FindCoordinatorRequest{Group: groupID}.AppendTo(nil)
	var last error
	for _, addr := range c.candidates() {
		one, cancel := context.WithTimeout(ctx, metadataTimeout)
		src, err := c.requestAt(one, addr, group.FindCoordinatorKey, group.FindCoordinatorVersion, body, nil)
		cancel()
		if err != nil {
			last = err
			if ctx.Err() != nil {
				break
			}
			continue
		}
		a, err := group.DecodeFindCoordinator(src)
		if err != nil {
			return none, fmt.Errorf("finding the coordinator of group %s: %w", groupID, err)
		}
		if a.ErrorCode == codeNone {
			// The coordinator may be newer than our metadata.
			c.learnBrokers(map[int32]string{a.Node: joinHostPort(a.Host, a.Port)})
		}
		return a, nil
	}
	return none, fmt.Errorf("finding the coordinator of group %s: %w", groupID, last)
}
