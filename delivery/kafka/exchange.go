package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// maxAnswer bounds one answer frame before its buffer is allocated. A fetch
// asks for far less, but a broker sends a first batch whole, and brokers exist
// that take batches of 100 MiB.
const maxAnswer = 128 << 20

// errUnknownNode says that no broker with this id is known: nothing was sent.
// Callers refresh the metadata (stale) and try again.
var errUnknownNode = errors.New("no such broker is known")

// errClosed says that the client is closed. Nothing was sent.
var errClosed = errors.New("the Kafka client is closed")

// raw carries one exchange through kafka-go's Transport, which contributes
// what it is good at: pooled connections. It names no broker; each
// address has a Transport of its own, so its "any broker" is the one we chose.
type raw struct {
	ctx   context.Context
	fn    func(io.ReadWriter) error
	state atomic.Int32 // rawWaiting, rawStarted, rawAbandoned
	done  chan struct{}
	// Read these after done.
	err     error // fn's result
	written int   // bytes that the connection took
}

const (
	rawWaiting = iota
	rawStarted
	rawAbandoned
)

var _ protocol.RawExchanger = (*raw)(nil)

// counted counts what is written.
type counted struct {
	io.ReadWriter
	n *int
}

// Write follows io.Writer.
func (c *counted) Write(b []byte) (int, error) {
	n, err := c.ReadWriter.Write(b)
	*c.n += n
	return n, err
}

// rawAnswer is the message that kafka-go wants to hand back.
type rawAnswer struct{}

// ApiKey is asked for by kafka-go and not used for raw exchanges.
func (*raw) ApiKey() protocol.ApiKey { return protocol.ApiVersions }

// ApiKey is asked for by kafka-go and not used for raw exchanges.
func (rawAnswer) ApiKey() protocol.ApiKey { return protocol.ApiVersions }

// Required makes kafka-go leave the bytes to us.
func (*raw) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange runs the caller's function on the connection. When the context
// ends meanwhile, reads and writes are cut short: kafka-go itself would let
// the exchange run on after its caller has gone.
// Any error makes kafka-go close the connection, which is what we want.
func (r *raw) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if !r.state.CompareAndSwap(rawWaiting, rawStarted) {
		return nil, context.Canceled
	}
	defer close(r.done)
	c, ok := rw.(interface{ SetDeadline(time.Time) error })
	if !ok {
		r.err = fmt.Errorf("kafka-go gave a connection without deadlines: %T", rw)
		return nil, r.err
	}
	stop := context.AfterFunc(r.ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	r.err = r.fn(&counted{rw, &r.written})
	if !stop() && r.err == nil {
		// The answer is good, but the connection may have been cut.
		return nil, r.ctx.Err()
	}
	if r.err != nil {
		if cause := context.Cause(r.ctx); cause != nil {
			r.err = fmt.Errorf("%w (%w)", r.err, cause)
		}
		return nil, r.err
	}
	return rawAnswer{}, nil
}

// exchange runs fn on one connection to that broker, which it has for itself
// until fn returns: fn may write several frames and read as many answers. An
// error of fn closes the connection. handedOver false means that nothing was
// sent, for certain (the broker is unknown or cannot be dialled); true with an
// error means that anything may have happened. A context without a deadline
// gets Config.RequestTimeout; fn has returned when exchange returns.
func (c *Client) exchange(ctx context.Context, node int32, fn func(rw io.ReadWriter) error) (handedOver bool, err error) {
	addr, ok := c.nodeAddr(node)
	if !ok {
		return false, fmt.Errorf("broker %d: %w", node, errUnknownNode)
	}
	return c.exchangeAt(ctx, addr, fn)
}

func (c *Client) exchangeAt(ctx context.Context, addr string, fn func(rw io.ReadWriter) error) (handedOver bool, err error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.RequestTimeout)
		defer cancel()
	}
	// The client's end ends every exchange.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(errClosed) })()

	t, err := c.transport(addr)
	if err != nil {
		return false, err
	}
	msg := &raw{ctx: ctx, fn: fn, done: make(chan struct{})}
	_, err = t.RoundTrip(ctx, tcpAddr(addr), msg)
	if msg.state.CompareAndSwap(rawWaiting, rawAbandoned) {
		if err == nil {
			err = errors.New("kafka-go did not run the exchange")
		}
		return false, c.notConnected(ctx, addr, err)
	}
	<-msg.done
	if msg.err != nil {
		return msg.written > 0, &brokerError{addr, msg.err}
	}
	return true, nil
}

// notConnected is the error of an exchange that got no connection.
func (c *Client) notConnected(ctx context.Context, addr string, err error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) && errors.Is(err, context.Canceled) {
		err = cause // a deadline that its owner keeps
	}
	if isTimeout(err) && !errors.Is(cause, context.Canceled) && !errors.Is(cause, errClosed) {
		err = c.reach.waiting(addr, err)
	}
	if cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%w)", err, cause)
	}
	var connect *ConnectError
	if errors.As(err, &connect) {
		return err // names the broker already
	}
	return &brokerError{addr, err}
}

// brokerError is what went wrong with one broker.
type brokerError struct {
	addr string
	err  error
}

// Error names the broker, and is the same each time that the same is wrong.
func (e *brokerError) Error() string { return "broker at " + e.addr + ": " + plainly(e.err) }

// Unwrap gives what went wrong.
func (e *brokerError) Unwrap() error { return e.err }

// tcpAddr is a net.Addr of host and port, resolved at each dial.
type tcpAddr string

// Network is always "tcp".
func (tcpAddr) Network() string { return "tcp" }

// String is the address, as host:port.
func (a tcpAddr) String() string { return string(a) }

// transport gives the connection pool of one address. Every address has a
// Transport of its own: kafka-go then serves as a pool alone, and routing
// follows our own metadata at once instead of its cache, which is refreshed at
// random moments.
func (c *Client) transport(addr string) (*kafkago.Transport, error) {
	c.poolMu.Lock()
	defer c.poolMu.Unlock()
	if c.ctx.Err() != nil {
		return nil, errClosed
	}
	if t := c.pools[addr]; t != nil {
		return t, nil
	}
	t := &kafkago.Transport{
		// With TLS and SASL; kafka-go adds the version handshake.
		Dial: c.connect,
		// All of these together.
		DialTimeout: c.cfg.DialTimeout + beginLimit,
		// No topics, and rarely: its metadata is not used.
		MetadataTopics: []string{},
		MetadataTTL:    c.cfg.RequestTimeout,
		ClientID:       c.cfg.ClientID,
		Context:        c.ctx,
	}
	c.pools[addr] = t
	return t, nil
}

// dropPools forgets the pools of addresses that nobody needs any more.
func (c *Client) dropPools(needed func(addr string) bool) {
	c.poolMu.Lock()
	defer c.poolMu.Unlock()
	for addr, t := range c.pools {
		if !needed(addr) {
			t.CloseIdleConnections()
			delete(c.pools, addr)
		}
	}
}

// firstFlexible is the first version of each API whose request header ends in
// tagged fields (KIP-482). Only APIs that this package sends are listed.
var firstFlexible = map[int16]int16{
	0:  9,  // Produce
	1:  12, // Fetch
	2:  6,  // ListOffsets
	3:  9,  // Metadata
	8:  8,  // OffsetCommit
	9:  6,  // OffsetFetch
	10: 3,  // FindCoordinator
	11: 6,  // JoinGroup
	12: 4,  // Heartbeat
	13: 4,  // LeaveGroup
	14: 4,  // SyncGroup
	15: 5,  // DescribeGroups
	16: 3,  // ListGroups
	19: 5,  // CreateTopics
	20: 4,  // DeleteTopics
	22: 2,  // InitProducerId
}

func isFlexible(key, version int16) bool {
	first, ok := firstFlexible[key]
	return ok && version >= first
}

var correlation atomic.Int32

// appendFrame appends a request frame: length, header and body.
func appendFrame(dst []byte, key, version int16, correlation int32, clientID string, body []byte) []byte {
	at := len(dst)
	dst = appendInt32(dst, 0)
	dst = appendInt16(dst, key)
	dst = appendInt16(dst, version)
	dst = appendInt32(dst, correlation)
	dst = appendString(dst, clientID)
	if isFlexible(key, version) {
		dst = append(dst, 0)
	}
	dst = append(dst, body...)
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at-4))
	return dst
}

// readFrame reads one answer frame and returns its body. Buffer may be nil or
// a buffer to use where it is large enough; the body aliases what it returns.
func readFrame(r io.Reader, key, version int16, correlation int32, buffer []byte) (body []byte, err error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	if n < 4 || n > maxAnswer {
		return nil, fmt.Errorf("%w: a frame of %d bytes", errMalformed, n)
	}
	if cap(buffer) < n {
		buffer = make([]byte, n)
	}
	buffer = buffer[:n]
	if _, err := io.ReadFull(r, buffer); err != nil {
		return nil, err
	}
	d := decoder{src: buffer}
	if got := d.int32(); got != correlation {
		return nil, fmt.Errorf("%w: correlation id %d where %d was due", errMalformed, got, correlation)
	}
	if isFlexible(key, version) {
		d.take(1) // no tagged field is defined for response headers
	}
	return buffer[d.at:], d.err
}

var frames = sync.Pool{New: func() any { return new([]byte) }}

// request sends one frame to that broker and returns the answer's body, in
// memory of its own. Errors with nothing sent wrap errUnknownNode, errClosed
// or the dial's error; callers repeat what is idempotent after any error.
func (c *Client) request(ctx context.Context, node int32, key, version int16, body []byte) ([]byte, error) {
	answer, _, err := c.requestSent(ctx, node, key, version, body)
	return answer, err
}

// requestSent is request that also says whether anything may have been sent.
func (c *Client) requestSent(ctx context.Context, node int32, key, version int16, body []byte) (answer []byte, sent bool, err error) {
	addr, ok := c.nodeAddr(node)
	if !ok {
		return nil, false, fmt.Errorf("broker %d: %w", node, errUnknownNode)
	}
	return c.frameTo(ctx, addr, key, version, body, nil)
}

// requestAt is request for an address, reading into buffer where it fits.
func (c *Client) requestAt(ctx context.Context, addr string, key, version int16, body, buffer []byte) ([]byte, error) {
	answer, _, err := c.frameTo(ctx, addr, key, version, body, buffer)
	return answer, err
}

func (c *Client) frameTo(ctx context.Context, addr string, key, version int16, body, buffer []byte) (answer []byte, sent bool, err error) {
	frame := frames.Get().(*[]byte)
	defer frames.Put(frame)
	id := correlation.Add(1)
	*frame = appendFrame((*frame)[:0], key, version, id, c.cfg.ClientID, body)
	exchange := func() (bool, error) {
		return c.exchangeAt(ctx, addr, func(rw io.ReadWriter) error {
			if _, err := rw.Write(*frame); err != nil {
				return err
			}
			var err error
			answer, err = readFrame(rw, key, version, id, buffer)
			return err
		})
	}
	// Each try takes one dead connection out of the pool.
	for sent, err = exchange(); !sent && errors.Is(err, errHungUp) && ctx.Err() == nil; {
		sent, err = exchange()
	}
	if err != nil {
		return nil, sent, err
	}
	return answer, true, nil
}

// joinHostPort is net.JoinHostPort for the protocol's port numbers.
func joinHostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
