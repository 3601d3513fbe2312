package kafka

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// throttleMost bounds what a broker may ask to be waited: quotas ask for
	// seconds, and a broken answer must not stop a partition for days.
	throttleMost = 10 * time.Minute
	// throttleSaid is the least time between two lines about the same quota.
	throttleSaid = time.Minute
)

// errMuted ends an exchange that is done, so that its connection is closed: the
// broker reads nothing more of it before the wait is over, and what would take
// it out of the pool next, for another kind of request, would wait too.
var errMuted = errors.New("the broker does not read this connection for a while: a quota")

// throttles says to people that a quota of the cluster holds the work back.
// The waiting itself is the fetch loops' and the senders': brokers since Kafka
// 2.0 answer at once and leave the wait to the client (KIP-219). They do not
// read the connection meanwhile, but they would read another one.
type throttles struct {
	mu   sync.Mutex
	said map[string]time.Time // by what is held back
}

// throttled takes the wait that a broker's answer asks for and gives how long
// it is to be; 0: not at all. doing is what is held back ("reading", "writing").
func (c *Client) throttled(doing, clientID string, node int32, asked time.Duration) time.Duration {
	if asked <= 0 {
		return 0
	}
	asked = min(asked, throttleMost)
	key := doing + " " + clientID
	c.throttles.mu.Lock()
	last, before := c.throttles.said[key]
	say := !before || time.Since(last) >= throttleSaid
	if say {
		c.throttles.said[key] = time.Now()
	}
	c.throttles.mu.Unlock()
	if say {
		whose := fmt.Sprintf("client id %q", clientID)
		if user := c.principal(); user != "" {
			whose = user + ", " + whose
		}
		address, _ := c.nodeAddr(node)
		c.log.Warn(fmt.Sprintf("a quota of the cluster holds back %s (%s): the broker asks for a wait, and gets it", doing, whose),
			"broker", address, "retry_in", asked.Round(time.Millisecond).String())
	}
	return asked
}
