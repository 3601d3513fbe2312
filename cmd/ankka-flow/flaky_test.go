package main

import (
	"errors"
	"net"
	"sync"
)

// flaky is the network between a kfake cluster and everybody else: what it
// accepts can be cut, held back or lose its answers, for all at once.
type flaky struct {
	mu    sync.Mutex
	conns map[*flakyConn]bool
	// refusing: a connection is closed as soon as it is accepted.
	refusing bool
	// refused counts the connections that were.
	refused int
	// held: no byte goes either way until release is closed. nil: all flows.
	held chan struct{}
	// losing is how many answers are still to be lost: the broker has done
	// what it was asked for, and the connection ends in place of the answer.
	losing int
}

func newFlaky() *flaky { return &flaky{conns: map[*flakyConn]bool{}} }

// listen is for kfake.ListenFn.
func (f *flaky) listen(network, address string) (net.Listener, error) {
	l, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return &flakyListener{l, f}, nil
}

// cut ends every connection, in the middle of whatever is on it.
func (f *flaky) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.conns {
		_ = c.Conn.Close()
	}
}

// refuse makes the brokers go away, or come back.
func (f *flaky) refuse(on bool) {
	f.mu.Lock()
	f.refusing = on
	f.mu.Unlock()
	if on {
		f.cut()
	}
}

// refusals is how often a connection was refused.
func (f *flaky) refusals() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused
}

// hold stalls everything, or lets it go on.
func (f *flaky) hold(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case on && f.held == nil:
		f.held = make(chan struct{})
	case !on && f.held != nil:
		close(f.held)
		f.held = nil
	}
}

// lose loses the next n answers, each with its connection.
func (f *flaky) lose(n int) {
	f.mu.Lock()
	f.losing = n
	f.mu.Unlock()
}

func (f *flaky) wait(c *flakyConn) {
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if held != nil {
		select {
		case <-held:
		case <-c.closed:
		}
	}
}

type flakyListener struct {
	net.Listener
	f *flaky
}

func (l *flakyListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &flakyConn{Conn: conn, f: l.f, closed: make(chan struct{})}
		l.f.mu.Lock()
		refusing := l.f.refusing
		if refusing {
			l.f.refused++
		} else {
			l.f.conns[c] = true
		}
		l.f.mu.Unlock()
		if !refusing {
			return c, nil
		}
		_ = conn.Close()
	}
}

type flakyConn struct {
	net.Conn
	f      *flaky
	once   sync.Once
	closed chan struct{}
}

func (c *flakyConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.f.wait(c)
	return n, err
}

var errAnswerLost = errors.New("the test lost this answer")

func (c *flakyConn) Write(p []byte) (int, error) {
	c.f.wait(c)
	c.f.mu.Lock()
	lost := c.f.losing > 0
	if lost {
		c.f.losing--
	}
	c.f.mu.Unlock()
	if lost {
		_ = c.Close()
		return 0, errAnswerLost
	}
	return c.Conn.Write(p)
}

func (c *flakyConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	c.f.mu.Lock()
	delete(c.f.conns, c)
	c.f.mu.Unlock()
	return c.Conn.Close()
}
