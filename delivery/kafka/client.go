package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"

	"ankka-flow/delivery"
)

// Sink takes the events of a Consumer or a Producer. It may block for a
// moment, since the driver's loop always reads; it is called from goroutines
// of this package only, never from inside a method of this package.
type Sink func(delivery.Event)

// Config is how to reach a cluster. It must not be changed after NewClient.
type Config struct {
	// Brokers are bootstrap addresses, host:port; at least one.
	Brokers []string
	// ClientID is sent with every request; empty is allowed.
	ClientID string
	// TLS encrypts every connection; nil: plain TCP. Without a ServerName the
	// host that was dialled is checked.
	TLS *tls.Config
	// SASL authenticates every connection; nil: none. Where it also has
	// Principal() string, messages name the user by it ("User:bob").
	SASL sasl.Mechanism
	// ClusterID is the id of the one cluster that is talked to: a connection to
	// a broker that names another one, or none, is closed at once
	// (*ForeignClusterError). Empty: any. Not together with SASL.
	ClusterID string
	// ClusterName is what messages call the cluster of ClusterID.
	ClusterName string
	// Resolve is asked, again and again while no broker answers, where the
	// brokers are now; its addresses take the place of Brokers. It is called
	// from one goroutine of the client, which Close awaits, and has to say
	// itself what an error is about. nil: they stay where they are.
	Resolve func(ctx context.Context) ([]string, error)
	// Logger gets what a person should see; nil: nothing is logged.
	Logger *slog.Logger
	// DialTimeout bounds one TCP connection attempt; 0: 2 s. Each later step of
	// a connection (TLS, every SASL request, the first request) has 3 s, or
	// RequestTimeout where that is less.
	DialTimeout time.Duration
	// RequestTimeout bounds every exchange that has no deadline of its own, and
	// every read and write where kafka-go sets none; 0: 30 s.
	RequestTimeout time.Duration
}

// Client is one cluster: its connections, our own metadata of the topics that
// are watched, and the memory that all prefetches share. It is safe for
// concurrent use. Consume and Produce start the parts that move records.
type Client struct {
	cfg    Config
	log    *slog.Logger
	conns  *conns
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // goroutines of the client itself

	poolMu sync.Mutex
	pools  map[string]*kafkago.Transport // by address

	meta         metadata
	coordinators coordinators
	budget       budget
	reach        reach
	throttles    throttles
}

// NewClient makes a client. It does no IO; the first connection is made when
// something is asked for. Errors: no broker named, or an address that is not
// host:port; they are the configuration's and for a person to fix.
func NewClient(cfg Config) (*Client, error) {
	if len(cfg.Brokers) == 0 {
		return nil, errors.New("no Kafka broker is named")
	}
	for _, b := range cfg.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			return nil, fmt.Errorf("the broker's address %q is not host:port: %w", b, err)
		}
	}
	if cfg.ClusterID != "" && cfg.SASL != nil {
		return nil, errors.New("a cluster's id is checked without SASL only")
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = 2 * time.Second
	}
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = 30 * time.Second
	}
	c := &Client{cfg: cfg, log: cfg.Logger, conns: newConns(), pools: map[string]*kafkago.Transport{}}
	if c.log == nil {
		c.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.meta.init()
	c.meta.bootstrap = cfg.Brokers
	c.coordinators.nodes = map[string]int32{}
	c.budget.left = prefetchBudget
	c.reach.init()
	c.throttles.said = map[string]time.Time{}
	c.wg.Go(c.refreshMetadata)
	return c, nil
}

// Close ends every exchange at once, closes every connection and waits until
// the goroutines behind them are gone. Consumers and producers of this client
// are to be closed first; what they still send fails with nothing sent. A
// second Close does nothing.
func (c *Client) Close() {
	c.cancel()
	c.dropPools(func(string) bool { return false })
	empty := c.conns.cutAll()
	c.wg.Wait()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-empty:
	case <-grace.C:
		c.log.Warn("kafka-go keeps connections after the client was closed")
	}
}
