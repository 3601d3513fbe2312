//go:build broken_order

package main

import (
	"slices"

	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
	"ankka-flow/delivery/kafka"
)

// breakRule breaks R6: what a batch emitted is written from its end.
func breakRule(cfg *driver.Config) { cfg.Broker = disorderedBroker{cfg.Broker} }

type disorderedBroker struct{ driver.Broker }

func (b disorderedBroker) Produce(sink func(delivery.Event)) driver.Producer {
	return disorderedProducer{b.Broker.Produce(sink)}
}

type disorderedProducer struct{ driver.Producer }

func (p disorderedProducer) Write(id uint64, from delivery.TP, outs []kafka.Out) {
	for i := range outs {
		outs[i].Records = slices.Clone(outs[i].Records)
		slices.Reverse(outs[i].Records)
	}
	p.Producer.Write(id, from, outs)
}
