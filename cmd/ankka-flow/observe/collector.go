package observe

import (
	"context"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"ankka-flow/delivery"
	"ankka-flow/delivery/driver"
)

// Build is what runs, for build_info and the status.
type Build struct {
	Version, Commit, Protocol, Go string
}

// collector gives every metric at a scrape: the levels from a snapshot of that
// moment, the counts from the Watch. Where the loop does not answer, levels are
// left out: an old one would be a lie.
type collector struct {
	keeper *Keeper
	build  Build
}

// Describe implements prometheus.Collector. It describes nothing, because the
// names of what the process reports are not known beforehand.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	w := c.keeper.watch
	s, ok := c.keeper.snapshot(context.Background())
	if ok {
		ch <- mHeldBytes.of(float64(s.HeldBytes))
		c.partitions(ch, &s)
	}
	if last := c.keeper.lastSnapshot(); last != nil {
		ch <- mStaleEvents.of(float64(last.Stale))
		c.rates(ch, last.Plan)
	}
	c.counts(ch)
	ready := 0.0
	if ok && w.Ready() {
		ready = 1
	}
	ch <- mReady.of(ready)
	ch <- mStartTime.of(float64(c.keeper.began.UnixMilli()) / 1000)
	ch <- mBuildInfo.of(1, c.build.Version, c.build.Commit, c.build.Protocol, c.build.Go)
	ch <- mDroppedSeries.of(float64(w.reports.collect(ch)))
	w.batchSeconds.Collect(ch)
	w.writeSeconds.Collect(ch)
	w.deliverySeconds.Collect(ch)
}

// lagKey names a series of lag. Two inlets may have it in common, with one
// client id on one topic in two groups: the larger lag is shown, for a series
// that comes twice would cost the whole scrape.
type lagKey struct {
	clientID, topic string
	partition       int32
}

// partitions gives the levels of every partition that is ours; those of a lost
// one are gone.
func (c *collector) partitions(ch chan<- prometheus.Metric, s *driver.Snapshot) {
	lags, most := map[lagKey]int64{}, map[string]int64{}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		in, planned := inletOf(s, p.TP.Inlet)
		if p.State == "lost" || !planned {
			continue // only owed an answer, or of an inlet that a reload takes away
		}
		inlet, number := p.TP.Inlet, strconv.Itoa(int(p.TP.Partition))
		ch <- mInFlight.of(float64(p.InFlight), inlet, number)
		ch <- mStalled.of(stalled(s, p), inlet, number)
		ch <- mCommittedOffset.of(float64(p.Next()), inlet, number)
		end, ok := c.keeper.ends.end(s, p, in.Topic)
		if !ok {
			continue
		}
		ch <- mEndOffset.of(float64(end), inlet, number)
		lag, key := max(0, end-p.Next()), lagKey{in.ClientID, strings.ReplaceAll(in.Topic, ".", "_"), p.TP.Partition}
		lags[key] = max(lags[key], lag)
		most[in.ClientID] = max(most[in.ClientID], lag)
	}
	for key, lag := range lags {
		ch <- mLag.of(float64(lag), key.clientID, key.topic, strconv.Itoa(int(key.partition)))
	}
	for id, lag := range most {
		ch <- mLagMax.of(float64(lag), id)
	}
}

// stalled is the age of the oldest uncommitted batch in seconds, 0: none.
func stalled(s *driver.Snapshot, p *delivery.PartitionStatus) float64 {
	if p.Since < 0 {
		return 0
	}
	return max(0, s.Now-p.Since).Seconds()
}

// outletClientID names an outlet's producer as Ankka does.
func outletClientID(plan *driver.Plan, port string) string {
	return plan.Pipeline + "." + plan.Streamlet + "." + port
}

// rates gives those of every port that is in the plan, also before the first
// record.
func (c *collector) rates(ch chan<- prometheus.Metric, plan *driver.Plan) {
	if plan == nil {
		return
	}
	w := c.keeper.watch
	consumed, sent := map[string]float64{}, map[string]float64{} // by client id, which ports may share
	for _, in := range plan.Inlets {
		consumed[in.ClientID] += w.consumedRate(in.Port)
	}
	for _, out := range plan.Outlets {
		sent[outletClientID(plan, out.Port)] += w.emittedRate(out.Port)
	}
	for id, perSecond := range consumed {
		ch <- mConsumedRate.of(perSecond, id)
	}
	for id, perSecond := range sent {
		ch <- mSendRate.of(perSecond, id)
	}
}

// counts gives what only rises.
func (c *collector) counts(ch chan<- prometheus.Metric) {
	w := c.keeper.watch
	w.mu.Lock()
	defer w.mu.Unlock()
	for port, n := range w.inlets {
		ch <- mConsumedRecords.of(float64(n.consumedRecords.Load()), port)
		ch <- mConsumedBytes.of(float64(n.consumedBytes.Load()), port)
		ch <- mCommittedRecords.of(float64(n.committedRecords.Load()), port)
		ch <- mBatchesDelivered.of(float64(n.delivered.Load()), port)
		ch <- mBatchesAcked.of(float64(n.acked.Load()), port)
		ch <- mBatchesCommitted.of(float64(n.committed.Load()), port)
		ch <- mBatchesFailed.of(float64(n.failed.Load()), port)
		ch <- mRebalances.of(float64(n.rebalances.Load()), port)
	}
	for port, n := range w.outlets {
		ch <- mEmittedRecords.of(float64(n.records.Load()), port)
		ch <- mEmittedBytes.of(float64(n.bytes.Load()), port)
	}
	// All kinds from the beginning, so that the first failure is an increase.
	for _, kind := range failureKinds {
		ch <- mStreamFailures.of(float64(w.failures[kind]), kind)
	}
	for code, n := range w.exits {
		ch <- mExits.of(float64(n), strconv.Itoa(code))
	}
	ch <- mViolations.of(float64(w.violations.Load()))
	ch <- mStarts.of(float64(w.starts.Load()))
	ch <- mConversations.of(float64(w.conversations.Load()))
	ch <- mUnknownWrites.of(float64(w.unknown.Load()))
	ch <- mUnsettledWrites.of(float64(w.unsettled.Load()))
}
