package delivery

import (
	"fmt"
	"strings"
)

// Breach is a message of the process that the protocol does not allow, as far
// as only the core can see it. Config.Explain words it.
type Breach struct {
	Kind BreachKind
	// Message is the message's kind on the wire: emit, forward, ack, fail, spec
	// or stopped.
	Message string
	// ID is the batch that it names; 0 where it names none.
	ID uint64
	// Outlet and Declared are set with BreachOutlet: the one that it named, and
	// those that there are.
	Outlet   string
	Declared []string
	// Limit is Config.HoldBatch, with BreachHeld.
	Limit int
}

// BreachKind says what is wrong with the message.
type BreachKind uint8

// The kinds of breaches.
const (
	// BreachNeverSent: no batch of that id was ever sent to this process.
	BreachNeverSent BreachKind = iota
	// BreachAnswered: the batch was answered before.
	BreachAnswered
	// BreachOutlet: the outlet is not declared.
	BreachOutlet
	// BreachHeld: the batch's emits are over the limit. It fails the stream like
	// a fail of the process would, and the process lives.
	BreachHeld
	// BreachUnasked: a spec or a stopped that was not asked for.
	BreachUnasked
)

// explain is what people are told of a breach.
func (c *Core) explain(b Breach) string {
	if c.cfg.Explain != nil {
		if text := c.cfg.Explain(b); text != "" {
			return text
		}
	}
	return b.String()
}

// String is a plain sentence.
func (b Breach) String() string {
	switch b.Kind {
	case BreachNeverSent:
		return fmt.Sprintf("%s of batch %d: no batch of that id was ever sent", b.Message, b.ID)
	case BreachAnswered:
		return fmt.Sprintf("%s of batch %d: that batch was answered before; emit before the ack, and answer every batch once", b.Message, b.ID)
	case BreachOutlet:
		declared := "none"
		if len(b.Declared) > 0 {
			declared = strings.Join(b.Declared, ", ")
		}
		return fmt.Sprintf("%s of batch %d: no outlet %q is declared; declared are: %s", b.Message, b.ID, b.Outlet, declared)
	case BreachHeld:
		return fmt.Sprintf("the emits of batch %d are over %d bytes", b.ID, b.Limit)
	default:
		return b.Message + " was not asked for"
	}
}
