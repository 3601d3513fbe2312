package kafka

import (
	"fmt"
	"sync"
	"time"
)

// sayAgain is how long a broker that is away is left alone with what is said
// of it: while it starts, the cause changes from one attempt to the next.
const sayAgain = 10 * time.Second

// reach knows which brokers were reached, to say once, and not at every try,
// that one of them is away. A bootstrap address that never was reached is not
// its business: who asked for it first gets the error (Probe, Metadata) and
// says it.
type reach struct {
	mu sync.Mutex
	// away has, for every address that was reached or that the cluster has
	// named, why it is not reached now; empty: it is.
	away map[string]string
	said map[string]time.Time
	// failed has the newest failure of every address that cannot be reached.
	failed map[string]*ConnectError
	// steps has the step that a connection to an address is in.
	steps     map[string]string
	diagnoses map[string]diagnosis
}

func (r *reach) init() {
	r.away, r.said = map[string]string{}, map[string]time.Time{}
	r.failed, r.steps, r.diagnoses = map[string]*ConnectError{}, map[string]string{}, map[string]diagnosis{}
}

// at notes the step that a connection to an address is in; "": none.
func (r *reach) at(address, step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if step == "" {
		delete(r.steps, address)
		return
	}
	r.steps[address] = step
}

// waiting says why nothing came of a connection in time: the failure of the
// last attempt, or the step that the present one is in.
func (r *reach) waiting(address string, err error) *ConnectError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if f := r.failed[address]; f != nil {
		return f
	}
	step := r.steps[address]
	if step == "" {
		step = stepVersions // kafka-go's own, behind ours
	}
	return &ConnectError{Address: address, Cause: silentCause(step), Err: err}
}

// named says that the cluster has named this address as a broker's.
func (c *Client) named(address string) bool {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	for _, a := range c.meta.brokers {
		if a == address {
			return true
		}
	}
	return false
}

// dialled takes the outcome of an attempt to connect; nil: it succeeded.
func (c *Client) dialled(address string, failure *ConnectError) {
	cause := ""
	if failure != nil {
		cause = failure.Cause
	}
	named := c.named(address)
	r := &c.reach
	r.mu.Lock()
	before, known := r.away[address]
	if failure == nil {
		delete(r.failed, address)
		delete(r.diagnoses, address)
	} else {
		r.failed[address] = failure
	}
	say := cause != before && (known || named && failure != nil)
	if say && before != "" && cause != "" && time.Since(r.said[address]) < sayAgain {
		r.mu.Unlock()
		return // said later, if it is still so
	}
	if known || named || failure == nil {
		r.away[address] = cause
	}
	if say {
		r.said[address] = time.Now()
	}
	r.mu.Unlock()
	switch {
	case !say:
	case cause == "":
		c.log.Info(fmt.Sprintf("broker %s is back", address), "broker", address)
	case !known:
		c.log.Error(fmt.Sprintf("broker %s, as the cluster names it (advertised.listeners), cannot be reached: %s; trying until it can", address, cause), "broker", address, "error", cause)
	default:
		c.log.Log(c.ctx, levelOf(failure.Lasting), fmt.Sprintf("broker %s is away: %s; trying until it is back", address, cause), "broker", address, "error", cause)
	}
}
