package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

const (
	// stepLimit bounds one step of a connection's beginning behind TCP's: a
	// TLS handshake, one SASL request, the first request.
	stepLimit = 3 * time.Second
	// beginLimit bounds all of them together.
	beginLimit = 10 * time.Second
	// renewAt is the part of a SASL session's lifetime after which its
	// connection is not used for a new request (KIP-368; Java begins at 0.85).
	renewAt = 0.9
)

// The steps of a connection's beginning, as people are told of them.
const (
	stepTCP          = "the TCP connection"
	stepTLS          = "the TLS handshake"
	stepMechanism    = "the SASL handshake"
	stepAuthenticate = "SASL authentication"
	stepFirst        = "the first request"
	stepVersions     = "the version handshake (ApiVersions), or to the request behind it (Metadata)"
)

// ConnectError is why there is no connection to a broker.
type ConnectError struct {
	// Address is the broker's, host:port.
	Address string
	// Cause is the likely cause in words, with the setting to look at. It is
	// the same each time that the same is wrong, and has no secret.
	Cause string
	// Lasting: it stays so until a person has changed a setting, here or at the
	// broker. False where it may pass, as with a broker that starts.
	Lasting bool
	// Err is what was met.
	Err error
}

// Error names the broker and the likely cause.
func (e *ConnectError) Error() string { return fmt.Sprintf("broker %s: %s", e.Address, e.Cause) }

// Unwrap gives what was met.
func (e *ConnectError) Unwrap() error { return e.Err }

// connecting is one connection on its way.
type connecting struct {
	c       *Client
	address string
	conn    net.Conn // of the newest layer
	raw     *guardedConn
	step    string
	first   [5]byte // what the broker said first, TLS taken off; for the cause
	heard   int
	offered []string // the broker's mechanisms, where ours is not among them
}

// connect opens a connection to a broker and goes through every step that comes
// before a request: TCP, TLS, SASL, and where there is no SASL one request to
// see that the broker talks to us at all. kafka-go could do TLS and SASL; done
// here, each step has its time, and a failure has its step. Error: a
// *ConnectError, or the context's where it was given up.
func (c *Client) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if !c.conns.begin() {
		return nil, net.ErrClosed
	}
	defer c.conns.end()
	x := &connecting{c: c, address: address}
	defer c.reach.at(address, "")
	conn, err := x.run(ctx, network)
	if err == nil {
		c.dialled(address, nil)
		return conn, nil
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, net.ErrClosed) || c.ctx.Err() != nil {
		return nil, err // given up by us: nothing is known by it
	}
	failure := &ConnectError{Address: address, Err: err}
	failure.Cause, failure.Lasting = c.cause(ctx, x, err)
	c.dialled(address, failure)
	return nil, failure
}

// run takes the steps.
func (x *connecting) run(ctx context.Context, network string) (_ net.Conn, err error) {
	cfg := &x.c.cfg
	x.enter(stepTCP)
	raw, err := x.c.conns.dial(ctx, network, x.address, cfg.DialTimeout, cfg.RequestTimeout)
	if err != nil {
		return nil, err
	}
	x.raw, x.conn = raw, raw
	stop := context.AfterFunc(ctx, raw.interrupt)
	defer func() {
		if !stop() && err == nil {
			err = ctx.Err()
		}
		if err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("%w (%w)", ctx.Err(), err)
			}
			raw.Close()
		}
	}()
	if cfg.TLS != nil {
		x.enter(stepTLS)
		t := tls.Client(raw, x.c.tlsFor(x.address))
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		x.conn = t
	}
	if cfg.SASL != nil {
		err = x.authenticate(ctx)
	} else {
		x.enter(stepFirst)
		err = x.greet()
	}
	if err != nil {
		return nil, err
	}
	return x.conn, x.conn.SetDeadline(time.Time{})
}

// enter begins a step and its time.
func (x *connecting) enter(step string) {
	x.step = step
	x.c.reach.at(x.address, step)
	if x.conn != nil {
		x.conn.SetDeadline(time.Now().Add(min(stepLimit, x.c.cfg.RequestTimeout))) // an error shows in the step
	}
}

// tlsFor is the configuration for one broker: without a server name, the host
// that is dialled is checked.
func (c *Client) tlsFor(address string) *tls.Config {
	config := c.cfg.TLS
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address) // checked in NewClient; others come from the cluster
	}
	return config
}

// ask sends one request and reads its answer.
func (x *connecting) ask(key, version int16, body []byte) ([]byte, error) {
	id := correlation.Add(1)
	if _, err := x.conn.Write(appendFrame(nil, key, version, id, x.c.cfg.ClientID, body)); err != nil {
		return nil, err
	}
	return readFrame(x, key, version, id, nil)
}

// Read reads from the broker and keeps what it said first.
func (x *connecting) Read(b []byte) (int, error) {
	n, err := x.conn.Read(b)
	x.heard += copy(x.first[min(x.heard, len(x.first)):], b[:n])
	return n, err
}

var _ io.Reader = (*connecting)(nil)
