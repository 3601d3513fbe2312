package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// reach knows which brokers were reached, to say once, and not at every try,
// that one of them is away. One that never was reached is not its business: who
// asked for it first gets the error (Probe, Metadata) and says it.
type reach struct {
	mu sync.Mutex
	// away has, for every address that was reached, why it is not now; empty:
	// it is.
	away map[string]string
}

// dialled takes the outcome of a connection attempt.
func (c *Client) dialled(address string, err error) {
	if errors.Is(err, context.Canceled) || c.ctx.Err() != nil {
		return // given up by us: nothing is known by it
	}
	cause := ""
	if err != nil {
		cause = c.likelyCause(err)
	}
	r := &c.reach
	r.mu.Lock()
	before, known := r.away[address]
	if known || err == nil {
		r.away[address] = cause
	}
	r.mu.Unlock()
	switch {
	case !known || cause == before:
	case cause == "":
		c.log.Info(fmt.Sprintf("broker %s is back", address))
	default:
		c.log.Error(fmt.Sprintf("broker %s is away: %s; trying until it is back", address, cause))
	}
}
