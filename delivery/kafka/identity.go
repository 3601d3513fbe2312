package kafka

import (
	"context"
	"fmt"
	"slices"
)

// ForeignClusterError says that another cluster's broker answers at an address.
// Nothing was asked of it but who it is. The client tries again, for the port
// may change hands once more.
type ForeignClusterError struct {
	// Name is Config.ClusterName.
	Name string
	// Want and Got are cluster ids; Got is empty for a broker that has none.
	Want, Got string
}

// Error says whose broker it is not.
func (e *ForeignClusterError) Error() string {
	return fmt.Sprintf("another broker is there, not the one of %s", e.Name)
}

// greet asks the first thing on a connection, to see that the broker talks to
// us at all, and that it is one of the right cluster. Every connection is
// asked: a request that follows the metadata of before goes to whoever has the
// address now, and a commit there would be another cluster's.
func (x *connecting) greet() error {
	src, err := x.ask(metadataKey, metadataVersion, append(appendInt32(nil, 0), 0, 0, 0)) // no topic
	if err != nil || x.c.cfg.ClusterID == "" {
		return err
	}
	d := decoder{src: src}
	d.int32() // throttle time
	for range d.count(12) {
		d.int32()  // node
		d.string() // host
		d.int32()  // port
		d.string() // rack
	}
	id := d.string()
	if d.err != nil {
		return d.err
	}
	if id != x.c.cfg.ClusterID {
		return &ForeignClusterError{Name: x.c.cfg.ClusterName, Want: x.c.cfg.ClusterID, Got: id}
	}
	return nil
}

// resolve asks Config.Resolve where the brokers are now. It says whether they
// are elsewhere.
func (c *Client) resolve(ctx context.Context) (moved bool) {
	if c.cfg.Resolve == nil {
		return false
	}
	addrs, err := c.cfg.Resolve(ctx)
	if err != nil || len(addrs) == 0 {
		return false
	}
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	moved = !slices.Equal(addrs, c.meta.bootstrap)
	c.meta.bootstrap = addrs
	return moved
}

// bootstrap lists the addresses to begin with: Config.Brokers, or what
// Config.Resolve gave last.
func (c *Client) bootstrap() []string {
	c.meta.mu.Lock()
	defer c.meta.mu.Unlock()
	return c.meta.bootstrap
}
