package kafka

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"
)

// errHungUp says that the broker had closed the connection before anything was
// written to it, as it does with idle ones and when it restarts, or is about to
// since the SASL session ends.
var errHungUp = errors.New("the broker had closed the connection")

// guardedConn is a connection that never waits without a limit: where the
// layer above has set no deadline, each read and write gets one of its own.
// kafka-go clears the deadline once it is connected, so that a broker which
// stalls later would otherwise hold its goroutines for ever.
type guardedConn struct {
	net.Conn
	limit  time.Duration
	closed func(*guardedConn)
	once   sync.Once

	mu       sync.Mutex
	rd, wd   bool // the layer above has set a read, a write deadline
	cutShort bool // Close was called by the client, not by the owner
	// expires is when the SASL session does, or is about to; zero: never.
	expires time.Time
	turn    bool // the last thing done was a read: what is written begins a request
}

func (c *guardedConn) Read(b []byte) (int, error) {
	c.mu.Lock()
	if !c.rd && !c.cutShort {
		c.Conn.SetReadDeadline(time.Now().Add(c.limit)) // an error shows in the read
	}
	c.mu.Unlock()
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.mu.Lock()
		c.turn = true
		c.mu.Unlock()
	}
	return n, err
}

func (c *guardedConn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if !c.wd && !c.cutShort {
		c.Conn.SetWriteDeadline(time.Now().Add(c.limit)) // an error shows in the write
	}
	// The broker closes such a connection at its next request, answered or not.
	expired := c.turn && !c.expires.IsZero() && time.Now().After(c.expires)
	c.turn = false
	c.mu.Unlock()
	if expired || hungUp(c.Conn) {
		return 0, errHungUp
	}
	return c.Conn.Write(b)
}

// SetDeadline follows net.Conn; the zero time gives the guard back its say.
func (c *guardedConn) SetDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rd, c.wd = !t.IsZero(), !t.IsZero()
	if c.cutShort {
		return nil
	}
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline follows net.Conn.
func (c *guardedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rd = !t.IsZero()
	if c.cutShort {
		return nil
	}
	return c.Conn.SetReadDeadline(t)
}

// SetWriteDeadline follows net.Conn.
func (c *guardedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wd = !t.IsZero()
	if c.cutShort {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// Close is the owner's: it ends the connection and takes it off the list.
func (c *guardedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { c.closed(c) })
	return err
}

// expireAfter says that the SASL session ends after d: no request begins
// later, and a new connection is made for it.
func (c *guardedConn) expireAfter(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expires = time.Now().Add(d)
}

// interrupt ends every read and write of the connection at once, until another
// deadline is set.
func (c *guardedConn) interrupt() { c.SetDeadline(time.Unix(1, 0)) }

// cut ends every read and write of the connection at once and for good. The
// owner meets an error and closes it; until then it stays on the list, which
// is how Client.Close knows when the owners are gone.
func (c *guardedConn) cut() {
	c.mu.Lock()
	c.cutShort = true
	c.Conn.SetDeadline(time.Unix(1, 0))
	c.mu.Unlock()
}

// conns lists the open connections of a client.
type conns struct {
	mu     sync.Mutex
	open   map[*guardedConn]struct{}
	begun  int // attempts to connect that are under way
	closed bool
	empty  chan struct{} // closed when closed, nothing is open and nothing under way
}

func newConns() *conns {
	return &conns{open: map[*guardedConn]struct{}{}, empty: make(chan struct{})}
}

// dial opens a connection within timeout and guards it with limit.
func (s *conns) dial(ctx context.Context, network, address string, timeout, limit time.Duration) (*guardedConn, error) {
	d := net.Dialer{Timeout: timeout}
	nc, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &guardedConn{Conn: nc, limit: limit, closed: s.remove}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		nc.Close()
		return nil, net.ErrClosed
	}
	s.open[c] = struct{}{}
	return c, nil
}

func (s *conns) remove(c *guardedConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.tellEmpty()
}

// begin says whether an attempt to connect may begin; end is then due. kafka-go
// leaves attempts alone that nobody waits for any more.
func (s *conns) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.begun++
	}
	return !s.closed
}

func (s *conns) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.begun--
	s.tellEmpty()
}

// tellEmpty closes empty when there is nothing left to wait for. The caller
// holds mu.
func (s *conns) tellEmpty() {
	if !s.closed || len(s.open) > 0 || s.begun > 0 {
		return
	}
	select {
	case <-s.empty: // once
	default:
		close(s.empty)
	}
}

// cutAll refuses new connections and ends the reads and writes of the open
// ones. The channel is closed when their owners have closed them all.
func (s *conns) cutAll() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.tellEmpty()
	for c := range s.open {
		c.cut()
	}
	return s.empty
}
