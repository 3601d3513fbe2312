package kafka

import (
	"context"
	"errors"
	"fmt"
)

const (
	metadataKey = 3
	// metadataVersion is the last without flexible fields, metadataWithIDs the
	// first whose answer has topic ids (KIP-516, Kafka 2.8), metadataNewest
	// the last that is understood here.
	metadataVersion = 8
	metadataWithIDs = 10
	metadataNewest  = 12

	apiVersionsKey     = 18
	apiVersionsVersion = 0
)

// topicID tells a topic from another one of the same name, which was made
// after the first was deleted.
type topicID [16]byte

// metadataAnswer is a decoded Metadata response.
type metadataAnswer struct {
	brokers    map[int32]string
	controller int32
	topics     map[string]topicMeta
}

// askMetadata asks one broker after another until one answers. It never
// creates a topic (rule 30) and never asks for all of them.
func (c *Client) askMetadata(ctx context.Context, topics []string) (metadataAnswer, string, error) {
	var errs []error
	for _, addr := range c.candidates() {
		a, err := c.askMetadataAt(ctx, addr, topics)
		if err == nil {
			return a, addr, nil
		}
		if ctx.Err() != nil {
			return metadataAnswer{}, "", err
		}
		errs = append(errs, err)
	}
	return metadataAnswer{}, "", &UnreachableError{Errs: errs}
}

func (c *Client) askMetadataAt(ctx context.Context, addr string, topics []string) (metadataAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	version, err := c.metadataVersionAt(ctx, addr)
	if err != nil {
		return metadataAnswer{}, err
	}
	src, err := c.requestAt(ctx, addr, metadataKey, version, appendMetadata(nil, version, topics), nil)
	if err != nil {
		// Another broker may be there the next time.
		c.meta.mu.Lock()
		delete(c.meta.versions, addr)
		c.meta.mu.Unlock()
		return metadataAnswer{}, err
	}
	return decodeMetadataAt(src, version)
}

// metadataVersionAt gives the newest version that a broker and we understand,
// which is asked for once.
func (c *Client) metadataVersionAt(ctx context.Context, addr string) (int16, error) {
	c.meta.mu.Lock()
	version, known := c.meta.versions[addr]
	c.meta.mu.Unlock()
	if known {
		return version, nil
	}
	src, err := c.requestAt(ctx, addr, apiVersionsKey, apiVersionsVersion, nil, nil)
	if err != nil {
		return 0, err
	}
	version, err = decodeMetadataVersion(src)
	if err != nil {
		return 0, fmt.Errorf("asking the broker at %s for its versions: %w", addr, err)
	}
	c.meta.mu.Lock()
	c.meta.versions[addr] = version
	c.meta.mu.Unlock()
	return version, nil
}

// decodeMetadataVersion is the newest that an ApiVersions answer and we have.
func decodeMetadataVersion(src []byte) (int16, error) {
	d := decoder{src: src}
	d.int16() // an error gives no versions
	version := int16(metadataVersion)
	for range d.count(6) {
		key, _, most := d.int16(), d.int16(), d.int16()
		if key == metadataKey && most >= metadataWithIDs {
			version = min(most, metadataNewest)
		}
	}
	return version, d.err
}

// appendMetadata asks for topics by name: nothing is created, no rights are
// listed.
func appendMetadata(dst []byte, version int16, topics []string) []byte {
	if version < metadataWithIDs {
		dst = appendInt32(dst, int32(len(topics)))
		for _, t := range topics {
			dst = appendString(dst, t)
		}
		return append(dst, 0, 0, 0) // create, rights of the cluster, rights of topics
	}
	var none topicID // by name, and so not by id
	dst = appendUvarint(dst, uint64(len(topics))+1)
	for _, t := range topics {
		dst = append(dst, none[:]...)
		dst = appendCompactString(dst, t)
		dst = append(dst, 0) // no tagged fields
	}
	dst = append(dst, 0) // create
	if version == metadataWithIDs {
		dst = append(dst, 0) // rights of the cluster
	}
	return append(dst, 0, 0) // rights of topics, no tagged fields
}

// askAny asks one broker after another for metadata of version 8, which every
// broker gives, until one has answered what decode takes. doing completes the
// error, which is that none did.
func askAny[T any](ctx context.Context, c *Client, doing string, body []byte, decode func(src []byte) (T, error)) (T, error) {
	var errs []error
	for _, addr := range c.candidates() {
		src, err := c.requestAt(ctx, addr, metadataKey, metadataVersion, body, nil)
		if err == nil {
			var answer T
			if answer, err = decode(src); err == nil {
				return answer, nil
			}
		}
		errs = append(errs, err)
	}
	var none T
	return none, fmt.Errorf("%s: %w", doing, errors.Join(errs...))
}

// skipCluster passes over what an answer of version 8 has before its topics.
func (d *decoder) skipCluster() {
	d.int32() // throttle time
	for range d.count(11) {
		d.int32()  // node
		d.string() // host
		d.int32()  // port
		d.string() // rack
	}
	d.string() // cluster id
	d.int32()  // controller
}

// decodeMetadata reads an answer of version 8, which every broker gives.
func decodeMetadata(src []byte) (metadataAnswer, error) {
	return decodeMetadataAt(src, metadataVersion)
}

// decodeMetadataAt reads an answer of version 8, or 10 to 12.
func decodeMetadataAt(src []byte, version int16) (metadataAnswer, error) {
	d := decoder{src: src, flexible: version >= metadataWithIDs}
	a := metadataAnswer{brokers: map[int32]string{}, topics: map[string]topicMeta{}}
	d.int32() // throttle time
	for range d.array(11) {
		node, host, port := d.int32(), d.text(), d.int32()
		d.text() // rack
		d.tags()
		if d.err == nil {
			a.brokers[node] = joinHostPort(host, port)
		}
	}
	d.text() // cluster id
	a.controller = d.int32()
	for range d.array(9) {
		t := topicMeta{code: d.int16()}
		name := d.text()
		if d.flexible {
			copy(t.id[:], d.take(len(t.id)))
		}
		d.int8() // internal
		t.leaders = decodeLeaders(&d)
		d.int32() // rights
		d.tags()
		a.topics[name] = t
		if d.err != nil {
			break
		}
	}
	if version <= metadataWithIDs {
		d.int32() // rights
	}
	return a, d.err
}

// decodeLeaders reads the partitions of one topic. They come in any order;
// numbers are dense, so a gap is a partition that cannot be read now.
func decodeLeaders(d *decoder) []int32 {
	n := d.array(17)
	leaders := make([]int32, n)
	for i := range leaders {
		leaders[i] = -1
	}
	for range n {
		d.int16() // a partition without a leader says so twice
		index, leader := d.int32(), d.int32()
		d.int32()     // leader epoch
		for range 3 { // replicas, in sync, offline
			for range d.array(4) {
				d.int32()
			}
		}
		d.tags()
		if d.err != nil {
			return nil
		}
		if index >= 0 && int(index) < n {
			leaders[index] = leader
		}
	}
	return leaders
}
