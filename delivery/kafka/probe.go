package kafka

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Probe connects to one bootstrap broker after another until one answers:
// TCP, TLS, SASL and a Metadata request. The error is an *UnreachableError,
// which names the likely cause and the setting, for a person to act on. It
// takes a few seconds a broker at most, less when ctx ends.
func (c *Client) Probe(ctx context.Context) error {
	var errs []error
	for _, addr := range c.bootstrap() {
		one, cancel := context.WithTimeout(ctx, metadataTimeout)
		body := appendInt32(nil, 0) // no topic
		src, err := c.requestAt(one, addr, metadataKey, metadataVersion, append(body, 0, 0, 0), nil)
		cancel()
		if err == nil {
			var a metadataAnswer
			if a, err = decodeMetadata(src); err == nil {
				c.learnBrokers(a.brokers)
				return nil
			}
		}
		errs = append(errs, err)
	}
	return &UnreachableError{Errs: errs}
}

// UnreachableError says that no broker answered, and why.
type UnreachableError struct {
	// Errs has an error for each broker that was tried, mostly a
	// *ConnectError.
	Errs []error
}

// Error is one line: each cause once, with the brokers that it is about.
func (e *UnreachableError) Error() string {
	var causes []string
	brokers := map[string][]string{}
	for _, err := range e.Errs {
		cause, addr := plainly(err), ""
		var connect *ConnectError
		if errors.As(err, &connect) {
			cause, addr = connect.Cause, connect.Address
		}
		if !slices.Contains(causes, cause) {
			causes = append(causes, cause)
		}
		if addr != "" {
			brokers[cause] = append(brokers[cause], addr)
		}
	}
	for i, cause := range causes {
		switch at := brokers[cause]; len(at) {
		case 0:
		case 1:
			causes[i] = "broker " + at[0] + ": " + cause
		default:
			causes[i] = "brokers " + strings.Join(at, ", ") + ": " + cause
		}
	}
	return "no Kafka broker can be reached: " + strings.Join(causes, "; ")
}

// Unwrap gives the brokers' errors.
func (e *UnreachableError) Unwrap() []error { return e.Errs }

// closeGrace bounds how long Close waits for kafka-go to let go of connections
// that are already cut.
const closeGrace = 5 * time.Second
