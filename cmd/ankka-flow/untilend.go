package main

import (
	"context"
	"sync"
	"time"

	"ankka-flow/delivery/driver"
	"ankka-flow/delivery/kafka"
)

// noteEnds keeps the end offsets of the first plan, for --until-end.
func (b *runBroker) noteEnds(ctx context.Context, plan *driver.Plan) error {
	b.mu.Lock()
	known := b.targets != nil
	b.mu.Unlock()
	if known {
		return nil
	}
	targets := map[string]map[int32]int64{}
	for _, in := range plan.Inlets {
		ends, err := b.client.ListOffsets(ctx, in.Topic, kafka.Latest)
		if err != nil {
			return err
		}
		targets[in.Port] = ends
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.targets, b.plan = targets, plan
	close(b.ends)
	return nil
}

// untilEndInterval is how often --until-end asks for the committed offsets. The
// group is asked and not our own core, because others may hold part of it.
const untilEndInterval = 200 * time.Millisecond

// untilEnd asks for a stop once every inlet is committed up to the ends that
// were seen at the start.
func (b *runBroker) untilEnd(ctx context.Context, wg *sync.WaitGroup, stops chan<- string) {
	wg.Go(func() { // ends with ctx or after the stop; run awaits it
		select {
		case <-ctx.Done():
			return
		case <-b.ends:
		}
		ticker := time.NewTicker(untilEndInterval)
		defer ticker.Stop()
		for !b.allCommitted(ctx) {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
		select {
		case stops <- "everything up to the end is committed":
		case <-ctx.Done():
		}
	})
}

// allCommitted: an error is an answer that has not come yet.
func (b *runBroker) allCommitted(ctx context.Context) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, in := range b.plan.Inlets {
		attempt, cancel := context.WithTimeout(ctx, 5*time.Second)
		committed, err := b.client.CommittedOffsets(attempt, in.Group, in.Topic)
		cancel()
		if err != nil {
			return false
		}
		for partition, end := range b.targets[in.Port] {
			if at, ok := committed[partition]; end > 0 && (!ok || at < end) {
				return false
			}
		}
	}
	return true
}
