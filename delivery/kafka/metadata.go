package kafka

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// refreshEvery is how old the metadata gets when nothing is wrong.
	refreshEvery = 5 * time.Second
	// refreshMissing is the same while a watched topic is missing or has a
	// partition without a leader.
	refreshMissing = time.Second
	// refreshLimit is the least time between two refreshes.
	refreshLimit = 100 * time.Millisecond
	// metadataTimeout bounds the question to one broker; the next is asked
	// after it.
	metadataTimeout = 5 * time.Second
)

// metadata is what we know of the cluster: its brokers and the topics that
// are watched. It is our own, since kafka-go's cache is refreshed at random
// moments and its list of topics is fixed at first use.
type metadata struct {
	mu         sync.Mutex
	bootstrap  []string // see Client.bootstrap
	brokers    map[int32]string
	controller int32
	topics     map[string]topicMeta // of watched topics
	watched    map[string]struct{}
	versions   map[string]int16 // of Metadata, by address, as it was asked last
	lastGood   string           // the address that answered last
	answers    uint64
	lastErr    error         // of the newest attempt; nil when it was answered
	changed    chan struct{} // closed and replaced when brokers or topics changed
	attempted  chan struct{} // closed and replaced after each attempt
	wake       chan struct{} // capacity 1: refresh now
}

// topicMeta is one topic. leaders has a broker id per partition, -1 where
// there is none at the moment.
type topicMeta struct {
	code    int16
	id      topicID // zero: the broker is too old to say
	leaders []int32
	// life counts the topics that have had this name while it was watched; 0:
	// none yet. Offsets of one mean nothing in the next (R11).
	life int
}

func (m topicMeta) equal(o topicMeta) bool {
	return m.code == o.code && m.life == o.life && slices.Equal(m.leaders, o.leaders)
}

// follows gives m the life that follows from what was known before. Without
// ids, a topic that comes back counts as another one: that costs a repeat,
// where taking it for the old one would cost records.
func (m topicMeta) follows(old topicMeta) topicMeta {
	none := topicID{}
	m.life = old.life
	switch {
	case m.code != codeNone:
		m.id = old.id
	case m.life == 0, m.id != none && old.id != none && m.id != old.id,
		m.id == none && old.code == codeUnknownTopic:
		m.life++
	}
	return m
}

// healthy: nothing is missing that a refresh could bring.
func (m topicMeta) healthy() bool {
	return m.code == codeNone && !slices.Contains(m.leaders, -1)
}

func (m *metadata) init() {
	m.brokers = map[int32]string{}
	m.topics = map[string]topicMeta{}
	m.versions = map[string]int16{}
	m.watched = map[string]struct{}{}
	m.changed = make(chan struct{})
	m.attempted = make(chan struct{})
	m.wake = make(chan struct{}, 1)
}

// nodeAddr gives the address of a broker.
func (c *Client) nodeAddr(node int32) (string, bool) {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	addr, ok := c.meta.brokers[node]
	return addr, ok
}

// leader gives the broker that leads a partition of a watched topic; false
// while it has none or the partition is not known.
func (c *Client) leader(topic string, partition int32) (node int32, ok bool) {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	t := c.meta.topics[topic]
	if partition < 0 || int(partition) >= len(t.leaders) || t.leaders[partition] < 0 {
		return -1, false
	}
	return t.leaders[partition], true
}

// partitions counts the partitions of a watched topic. It is 0 and true when
// the broker says that there is no such topic, false while nothing is known.
func (c *Client) partitions(topic string) (n int32, ok bool) {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	t, ok := c.meta.topics[topic]
	return int32(len(t.leaders)), ok
}

// topicCode is the error code in the newest metadata of a watched topic.
func (c *Client) topicCode(topic string) int16 {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	return c.meta.topics[topic].code
}

// topicLife counts the topics that have had this name; see topicMeta.
func (c *Client) topicLife(topic string) int {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	return c.meta.topics[topic].life
}

// watch adds topics to the metadata that is kept fresh. A topic stays watched
// for the life of the client.
func (c *Client) watch(topics ...string) {
	c.meta.mu.Lock()
	grown := false
	for _, t := range topics {
		if _, ok := c.meta.watched[t]; !ok {
			c.meta.watched[t] = struct{}{}
			grown = true
		}
	}
	c.meta.mu.Unlock()
	if grown {
		c.wakeMetadata()
	}
}

// stale asks for fresh metadata: a broker answered that it does not lead a
// partition of the topic, or does not know it. At most one refresh a
// refreshLimit follows.
func (c *Client) stale(string) { c.wakeMetadata() }

func (c *Client) wakeMetadata() {
	select {
	case c.meta.wake <- struct{}{}:
	default:
	}
}

// changed is closed at the next change of the brokers or of a watched topic.
// Take it before looking at what may change.
func (c *Client) changed() <-chan struct{} {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	return c.meta.changed
}

// brokersKnown waits until the brokers are known, and gives the last attempt's
// error when ctx ends first.
func (c *Client) brokersKnown(ctx context.Context) error {
	return c.metadataKnown(ctx, func(m *metadata) bool { return len(m.brokers) > 0 })
}

// metadataKnown waits until enough is known; what says so has the lock.
func (c *Client) metadataKnown(ctx context.Context, enough func(*metadata) bool) error {
	for {
		c.meta.mu.Lock()
		known, attempted, last := enough(&c.meta), c.meta.attempted, c.meta.lastErr
		c.meta.mu.Unlock()
		if known {
			return nil
		}
		c.wakeMetadata()
		select {
		case <-attempted:
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), last)
		case <-c.ctx.Done():
			return errClosed
		}
	}
}

// refreshMetadata keeps the metadata fresh until the client is closed. It is
// the one goroutine that writes it, but for coordinators' addresses.
func (c *Client) refreshMetadata() {
	backoff := refreshLimit
	timer := time.NewTimer(refreshEvery)
	defer timer.Stop()
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.meta.wake:
		case <-timer.C:
		}
		// The pause holds also for who asks meanwhile.
		pause := refreshLimit
		if err := c.refreshOnce(); err != nil {
			if !c.resolve(c.ctx) {
				pause = backoff
				backoff = min(2*backoff, 2*time.Second)
			}
			c.wakeMetadata()
		} else {
			backoff = refreshLimit
		}
		if !sleep(c.ctx, pause) {
			return
		}
		timer.Reset(c.nextRefresh())
	}
}

func (c *Client) refreshOnce() error {
	c.meta.mu.Lock()
	topics := slices.Sorted(maps.Keys(c.meta.watched))
	c.meta.mu.Unlock()
	a, addr, err := c.askMetadata(c.ctx, topics)
	m := &c.meta
	m.mu.Lock()
	m.lastErr = err
	if err == nil {
		m.lastGood = addr
		m.answers++
		m.apply(a)
	}
	close(m.attempted)
	m.attempted = make(chan struct{})
	m.mu.Unlock()
	if err == nil {
		c.dropPools(c.addrNeeded)
	}
	return err
}

// apply takes an answer. A topic that is only partly readable at the moment
// (no leader, a storage error, a right that is missing) keeps the partitions
// it had: a count that goes down and up again would rebalance groups.
func (m *metadata) apply(a metadataAnswer) {
	changed := false
	if len(a.brokers) > 0 && !maps.Equal(m.brokers, a.brokers) {
		m.brokers, changed = a.brokers, true
	}
	m.controller = a.controller
	for name, t := range a.topics {
		if _, ok := m.watched[name]; !ok {
			continue
		}
		old, known := m.topics[name]
		t = t.follows(old)
		if t.code != codeNone && t.code != codeUnknownTopic {
			if !known {
				m.topics[name], changed = t, true
				continue
			}
			t.leaders = old.leaders
		}
		if !known || !old.equal(t) {
			m.topics[name], changed = t, true
		}
	}
	if changed {
		close(m.changed)
		m.changed = make(chan struct{})
	}
}

func (c *Client) nextRefresh() time.Duration {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	for name := range c.meta.watched {
		if t, ok := c.meta.topics[name]; !ok || !t.healthy() {
			return refreshMissing
		}
	}
	return refreshEvery
}

func (c *Client) addrNeeded(addr string) bool {
	if slices.Contains(c.bootstrap(), addr) {
		return true
	}
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	for _, a := range c.meta.brokers {
		if a == addr {
			return true
		}
	}
	return false
}

// candidates lists the addresses to ask for metadata: the one that answered
// last, the other brokers, the bootstrap addresses.
func (c *Client) candidates() []string {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	out := make([]string, 0, len(c.meta.brokers)+len(c.cfg.Brokers)+1)
	add := func(a string) {
		if a != "" && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	add(c.meta.lastGood)
	for _, node := range slices.Sorted(maps.Keys(c.meta.brokers)) {
		add(c.meta.brokers[node])
	}
	for _, a := range c.meta.bootstrap {
		add(a)
	}
	return out
}

// sleep waits and says whether ctx still lives.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
