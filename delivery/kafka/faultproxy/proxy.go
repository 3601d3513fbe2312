package faultproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Config says what a Proxy asks. Both are called from several goroutines, each
// connection's requests in their order; a call that takes its time holds back
// its connection alone.
type Config struct {
	// Requested is called for every request before anything becomes of it. nil:
	// everything passes.
	Requested func(*Request) Plan
	// Answering is called before an answer of a broker is given to the client,
	// with what the broker said. nil: nothing is told.
	Answering func(*Request, kmsg.Response)
}

// Proxy stands before the brokers of one cluster. Make it with Start.
type Proxy struct {
	cfg       Config
	brokers   []string
	listeners []net.Listener
	own       map[string]string // a broker's address to ours
	wait      sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	refused map[int]bool
	turned  map[int]int // away, by broker
	conns   map[*conn]bool
}

// Start listens on loopback, at one free port for each of brokers, which are
// all addresses (host:port, as the brokers advertise them) of the cluster.
func Start(brokers []string, cfg Config) (*Proxy, error) {
	p := &Proxy{cfg: cfg, brokers: brokers, own: map[string]string{}, conns: map[*conn]bool{}, refused: map[int]bool{}, turned: map[int]int{}}
	for _, address := range brokers {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.Close()
			return nil, fmt.Errorf("listening: %w", err)
		}
		p.listeners = append(p.listeners, l)
		p.own[address] = l.Addr().String()
	}
	for i, l := range p.listeners {
		p.wait.Go(func() { p.accept(i, l) })
	}
	return p, nil
}

// Addresses are ours, in the order of the brokers'.
func (p *Proxy) Addresses() []string {
	var own []string
	for _, address := range p.brokers {
		own = append(own, p.own[address])
	}
	return own
}

// Close ends every connection and awaits all goroutines.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	for c := range p.conns {
		c.end()
	}
	p.mu.Unlock()
	for _, l := range p.listeners {
		_ = l.Close() // nothing is lost by it
	}
	p.wait.Wait()
}

// Cut ends every connection, in the middle of whatever is on it.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.cut()
	}
}

// Refuse makes one broker go away: its connections end, and new ones are closed
// as soon as they are accepted. on false: it is back.
func (p *Proxy) Refuse(broker int, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused[broker] = on
	for c := range p.conns {
		if on && c.broker == broker {
			c.cut()
		}
	}
}

// TurnedAway is how many connections a broker has not taken because of Refuse.
func (p *Proxy) TurnedAway(broker int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.turned[broker]
}

func (p *Proxy) accept(broker int, l net.Listener) {
	for {
		client, err := l.Accept()
		if err != nil {
			return // closed
		}
		ctx, cancel := context.WithCancel(context.Background())
		c := &conn{p: p, broker: broker, client: client, ctx: ctx, cancel: cancel, queue: make(chan exchange, 4096)}
		p.mu.Lock()
		refused := p.closed || p.refused[broker]
		if refused {
			p.turned[broker]++
		} else {
			p.conns[c] = true
		}
		p.mu.Unlock()
		if refused {
			cancel()
			_ = client.Close()
			continue
		}
		p.wait.Go(c.run)
	}
}

// Deliver sends the request to its broker over a connection of its own, as the
// late bytes of a client that is gone, and returns the broker's answer.
func (r *Request) Deliver(ctx context.Context) (kmsg.Response, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", r.proxy.brokers[r.Broker])
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if err := writeFrame(c, r.frame); err != nil {
		return nil, err
	}
	frame, err := readFrame(c)
	if err != nil {
		return nil, err
	}
	return r.read(frame)
}

// exchange is a request whose answer is due.
type exchange struct {
	r         *Request
	plan      Plan
	forwarded bool
}

type conn struct {
	p      *Proxy
	broker int
	client net.Conn
	ctx    context.Context
	cancel context.CancelFunc
	queue  chan exchange
	once   sync.Once

	mu       sync.Mutex
	upstream net.Conn
	due      int  // answers of the broker that are awaited even when the client is gone
	gone     bool // the client is
}

// cut ends the client's side. The broker's side ends when it has answered what
// it was handed.
func (c *conn) cut() {
	c.once.Do(func() {
		c.cancel()
		_ = c.client.Close()
	})
}

// end ends both sides.
func (c *conn) end() {
	c.cut()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.upstream != nil {
		_ = c.upstream.Close()
	}
}

func (c *conn) run() {
	defer func() {
		c.end()
		c.p.mu.Lock()
		delete(c.p.conns, c)
		c.p.mu.Unlock()
	}()
	var d net.Dialer
	upstream, err := d.DialContext(c.ctx, "tcp", c.p.brokers[c.broker])
	if err != nil {
		return
	}
	c.mu.Lock()
	c.upstream = upstream
	c.mu.Unlock()
	var answers sync.WaitGroup
	answers.Go(func() {
		c.answers()
		c.end()
	})
	c.requests()
	close(c.queue)
	c.cut()
	c.mu.Lock()
	c.gone = true
	settled := c.due == 0
	c.mu.Unlock()
	if settled {
		c.end()
	}
	answers.Wait()
}

// requests carries what the client sends, in order.
func (c *conn) requests() {
	for {
		frame, err := readFrame(c.client)
		if err != nil {
			return
		}
		r, err := parse(frame)
		if err != nil {
			return
		}
		r.proxy, r.Broker = c.p, c.broker
		plan := Plan{}
		if c.p.cfg.Requested != nil {
			plan = c.p.cfg.Requested(r)
		}
		if plan.Held != nil {
			<-plan.Held
		}
		rest, err := r.without(plan)
		if err != nil {
			return
		}
		if rest != nil {
			c.owe(r.Key, 1)
			if err := writeFrame(c.upstream, rest); err != nil {
				return
			}
		}
		c.queue <- exchange{r: r, plan: plan, forwarded: rest != nil}
	}
}

// owe counts what a broker may do although its client is gone, so that the
// connection does not end under it. What it answers late on purpose is not
// waited for.
func (c *conn) owe(key kmsg.Key, n int) (settled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch key {
	case kmsg.Fetch, kmsg.JoinGroup, kmsg.SyncGroup:
	default:
		c.due += n
	}
	return c.gone && c.due == 0
}

// answers carries what the broker answers, in order, as the plans want it.
func (c *conn) answers() {
	for x := range c.queue {
		if err := c.answer(x); err != nil {
			return
		}
	}
}

var errSettled = errors.New("the client is gone, and nothing of it is left to be done")

func (c *conn) answer(x exchange) error {
	var frame []byte
	var said kmsg.Response
	var err error
	settled := false
	if x.forwarded {
		if frame, err = readFrame(c.upstream); err != nil {
			return err
		}
		settled = c.owe(x.r.Key, -1)
		if frame, said, err = c.rewritten(x, frame); err != nil {
			return err
		}
	} else if x.r.Key == kmsg.Produce {
		frame = x.r.answer(x.r.judged(x.plan, nil))
	}
	if c.p.cfg.Answering != nil {
		c.p.cfg.Answering(x.r, said)
	}
	if x.plan.Answer != nil {
		select {
		case <-x.plan.Answer:
		case <-c.ctx.Done():
		}
	}
	switch {
	case x.plan.Cut:
		c.cut()
	case x.plan.Mute:
		<-c.ctx.Done()
	case c.ctx.Err() == nil:
		if writeFrame(c.client, frame) != nil {
			c.cut()
		}
	}
	if settled {
		return errSettled
	}
	return nil
}

// rewritten is a broker's answer with our addresses and the plan's codes.
func (c *conn) rewritten(x exchange, frame []byte) ([]byte, kmsg.Response, error) {
	switch x.r.Key {
	case kmsg.Produce, kmsg.Fetch, kmsg.Metadata, kmsg.FindCoordinator, kmsg.OffsetCommit:
	default:
		return frame, nil, nil
	}
	said, err := x.r.read(frame)
	if err != nil {
		return nil, nil, err
	}
	switch answer := said.(type) {
	case *kmsg.ProduceResponse:
		if len(x.plan.Fates) > 0 || x.plan.Throttle > 0 {
			return x.r.answer(x.r.judged(x.plan, answer)), said, nil
		}
		return frame, said, nil
	case *kmsg.MetadataResponse:
		for i := range answer.Brokers {
			b := &answer.Brokers[i]
			b.Host, b.Port = c.p.ours(b.Host, b.Port)
		}
	case *kmsg.FindCoordinatorResponse:
		answer.Host, answer.Port = c.p.ours(answer.Host, answer.Port)
		for i := range answer.Coordinators {
			b := &answer.Coordinators[i]
			b.Host, b.Port = c.p.ours(b.Host, b.Port)
		}
	default:
		return frame, said, nil
	}
	return x.r.answer(said), said, nil
}

// ours is our address of a broker; one that Start was not told stays as it is.
func (p *Proxy) ours(host string, port int32) (string, int32) {
	own, known := p.own[net.JoinHostPort(host, strconv.Itoa(int(port)))]
	if !known {
		return host, port
	}
	ownHost, ownPort, _ := net.SplitHostPort(own) // it is a listener's
	n, _ := strconv.Atoi(ownPort)
	return ownHost, int32(n)
}
