//go:build broken_early

package main

import (
	"time"

	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
	"ankka-flow/delivery/record"
)

// breakRule breaks R1: a commit also takes the batch that is still with the
// process or being written.
func breakRule(cfg *driver.Config) { cfg.Broker = earlyBroker{cfg.Broker} }

type earlyBroker struct{ driver.Broker }

func (b earlyBroker) Consume(in driver.PlannedInlet, now func() time.Duration, sink func(delivery.Event)) driver.Inlet {
	return &earlyInlet{Inlet: b.Broker.Consume(in, now, sink), cut: map[int32]int64{}}
}

type earlyInlet struct {
	driver.Inlet
	cut map[int32]int64
}

func (in *earlyInlet) Cut(partition int32, dst []record.Record, maxRecords, maxBytes int) (records []record.Record, first, next int64, more bool, err error) {
	records, first, next, more, err = in.Inlet.Cut(partition, dst, maxRecords, maxBytes)
	if err == nil {
		in.cut[partition] = next
	}
	return records, first, next, more, err
}

func (in *earlyInlet) Commit(c delivery.Commit) {
	for i, o := range c.Offsets {
		c.Offsets[i].Offset = max(o.Offset, in.cut[o.Partition])
	}
	in.Inlet.Commit(c)
}
