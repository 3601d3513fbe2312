package kafka

import (
	"ankka-flow/delivery/kafka/recordbatch"
	"ankka-flow/delivery/record"
)

// murmur2 is Kafka's hash of a key, as in the Java client's Utils.murmur2.
func murmur2(key []byte) uint32 {
	const m, r = 0x5bd1e995, 24
	h := uint32(0x9747b28c) ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := uint32(key[0]) | uint32(key[1])<<8 | uint32(key[2])<<16 | uint32(key[3])<<24
		k *= m
		k ^= k >> r
		k *= m
		h = h*m ^ k
	}
	switch len(key) {
	case 3:
		h ^= uint32(key[2]) << 16
		fallthrough
	case 2:
		h ^= uint32(key[1]) << 8
		fallthrough
	case 1:
		h ^= uint32(key[0])
		h *= m
	}
	h ^= h >> 13
	h *= m
	return h ^ h>>15
}

// partitionOf is where Kafka's default partitioner puts a key among n
// partitions (R6). An empty key is a key; a null one is not, and is spread.
func partitionOf(key []byte, n int32) int32 {
	return int32(murmur2(key)&0x7fffffff) % n
}

// portion is what one write has for one output partition, or a share of it that
// fits into one batch. The records are the driver's and stay untouched.
type portion struct {
	recs []record.Record
	// at lists the portion's records among recs, in order; nil: all of recs.
	at []int32
}

func (c *portion) len() int {
	if c.at != nil {
		return len(c.at)
	}
	return len(c.recs)
}

func (c *portion) record(i int) *record.Record {
	if c.at != nil {
		i = int(c.at[i])
	}
	return &c.recs[i]
}

// partitioner spreads the records of one topic. Keyless ones of one write go
// together to one partition, the next write's to the next partition: random
// choice per record, as kafka-go has it, would make as many batches as there
// are partitions of a few records each.
type partitioner struct {
	turn  int32
	to    []int32 // scratch: the partition of each record
	ends  []int32 // scratch: per partition, records, then where they end
	sizes []int   // scratch: per record, its largest encoded size
}

// spread cuts the records into portions of at most maxBytes (a larger record goes
// alone) for n partitions, in the order given, and calls add for each. usable
// says whether a partition has a leader; keyless records avoid those without.
// Beside the scratch it allocates one index for all records, and only where
// they go to several partitions.
func (p *partitioner) spread(recs []record.Record, n int32, maxBytes int, usable func(int32) bool, add func(partition int32, c portion, bytes int)) {
	sticky := int32(-1)
	p.to, p.sizes = p.to[:0], p.sizes[:0]
	one := true
	for i := range recs {
		r := &recs[i]
		var to int32
		if r.Key != nil {
			if n > 1 {
				to = partitionOf(r.Key, n)
			}
		} else {
			if sticky < 0 {
				sticky = p.next(n, usable)
			}
			to = sticky
		}
		p.to = append(p.to, to)
		p.sizes = append(p.sizes, recordbatch.EncodedSize(r))
		one = one && to == p.to[0]
	}
	if len(recs) == 0 {
		return
	}
	if one {
		p.cut(recs, nil, maxBytes, func(c portion, bytes int) { add(p.to[0], c, bytes) })
		return
	}
	p.ends = append(p.ends[:0], make([]int32, n+1)...)
	for _, to := range p.to {
		p.ends[to+1]++
	}
	for i := int32(1); i <= n; i++ {
		p.ends[i] += p.ends[i-1]
	}
	at := make([]int32, len(recs)) // kept by the portions
	for i, to := range p.to {
		at[p.ends[to]] = int32(i)
		p.ends[to]++
	}
	from := int32(0)
	for to := range n {
		if p.ends[to] > from {
			p.cut(recs, at[from:p.ends[to]:p.ends[to]], maxBytes, func(c portion, bytes int) { add(to, c, bytes) })
		}
		from = p.ends[to]
	}
}

// pinned is spread for records that all go to one partition.
func (p *partitioner) pinned(recs []record.Record, to int32, maxBytes int, add func(partition int32, c portion, bytes int)) {
	p.sizes = p.sizes[:0]
	for i := range recs {
		p.sizes = append(p.sizes, recordbatch.EncodedSize(&recs[i]))
	}
	p.cut(recs, nil, maxBytes, func(c portion, bytes int) { add(to, c, bytes) })
}

// cut cuts one partition's records into portions.
func (p *partitioner) cut(recs []record.Record, at []int32, maxBytes int, add func(c portion, bytes int)) {
	n := len(at)
	if at == nil {
		n = len(recs)
	}
	from, bytes := 0, 0
	flush := func(to int) {
		if at == nil {
			add(portion{recs: recs[from:to:to]}, bytes)
		} else {
			add(portion{recs: recs, at: at[from:to:to]}, bytes)
		}
		from, bytes = to, 0
	}
	for i := range n {
		j := i
		if at != nil {
			j = int(at[i])
		}
		if i > from && bytes+p.sizes[j] > maxBytes {
			flush(i)
		}
		bytes += p.sizes[j]
	}
	flush(n)
}

// next is the partition for the next write's keyless records.
func (p *partitioner) next(n int32, usable func(int32) bool) int32 {
	for range n {
		p.turn = (p.turn + 1) % n
		if usable(p.turn) {
			return p.turn
		}
	}
	p.turn = (p.turn + 1) % n
	return p.turn
}
