package observe

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// metric is one row of the table of metrics.
type metric struct {
	name, kind string
	labels     []string
	help       string
	desc       *prometheus.Desc
}

const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

func define(kind, name, help string, labels ...string) *metric {
	return &metric{name: name, kind: kind, labels: labels, help: help, desc: prometheus.NewDesc(name, help, labels, nil)}
}

// The names that Ankka's sidecar has: its dashboards and alerts use them.
var (
	mInFlight = define(gauge, "ankka_flow_sidecar_in_flight",
		"Records of the partition that are with the process or being written.", "inlet", "partition")
	mStalled = define(gauge, "ankka_flow_sidecar_stalled_seconds",
		"Age of the oldest uncommitted batch of the partition, through conversations and restarts of the process; 0 when nothing is uncommitted.", "inlet", "partition")
	mLag = define(gauge, "kafka_consumer_consumer_fetch_manager_metrics_records_lag",
		"Offsets between what is committed and what can be read (the last stable offset); dots in the topic are underscores.", "client_id", "topic", "partition")
	mLagMax = define(gauge, "kafka_consumer_consumer_fetch_manager_metrics_records_lag_max",
		"The largest lag among the inlet's partitions that are ours.", "client_id")
	mConsumedRate = define(gauge, "kafka_consumer_consumer_fetch_manager_metrics_records_consumed_rate",
		"Records handed to the process per second, over the last 30 seconds.", "client_id")
	mSendRate = define(gauge, "kafka_producer_producer_metrics_record_send_rate",
		"Records confirmed by the broker per second, over the last 30 seconds.", "client_id")
)

// Ours.
var (
	mConsumedRecords = define(counter, "ankka_flow_consumed_records_total",
		"Records handed to the process, again after a failure too.", "inlet")
	mConsumedBytes = define(counter, "ankka_flow_consumed_bytes_total",
		"Bytes of keys, values and headers of the records handed to the process.", "inlet")
	mCommittedRecords = define(counter, "ankka_flow_committed_records_total",
		"Records whose batch is committed.", "inlet")
	mEmittedRecords = define(counter, "ankka_flow_emitted_records_total",
		"Emitted records that the broker confirmed.", "outlet")
	mEmittedBytes = define(counter, "ankka_flow_emitted_bytes_total",
		"Bytes of keys, values and headers of the emitted records that the broker confirmed.", "outlet")
	mBatchesDelivered = define(counter, "ankka_flow_batches_delivered_total",
		"Batches handed to the process, again after a failure too.", "inlet")
	mBatchesAcked = define(counter, "ankka_flow_batches_acked_total",
		"Batches that the process acknowledged while they were in flight.", "inlet")
	mBatchesCommitted = define(counter, "ankka_flow_batches_committed_total",
		"Batches that are committed.", "inlet")
	mBatchesFailed = define(counter, "ankka_flow_batches_failed_total",
		"Batches that the process failed while they were in flight.", "inlet")
	mStreamFailures = define(counter, "ankka_flow_stream_failures_total",
		"What failed the stream, by kind: "+strings.Join(failureKinds, ", ")+".", "reason")
	mViolations = define(counter, "ankka_flow_violations_total",
		"Violations of the protocol by the process.")
	mStarts = define(counter, "ankka_flow_starts_total",
		"Processes started.")
	mExits = define(counter, "ankka_flow_exits_total",
		"Processes ended, by exit code; 128 + n for a signal.", "code")
	mConversations = define(counter, "ankka_flow_conversations_total",
		"Conversations begun.")
	mRebalances = define(counter, "ankka_flow_rebalances_total",
		"Generations of the inlet's group in which this member got an assignment.", "inlet")
	mUnknownWrites = define(counter, "ankka_flow_unknown_writes_total",
		"Writes of a batch that may or may not have happened and had to be settled.")
	mUnsettledWrites = define(counter, "ankka_flow_unsettled_writes_total",
		"Writes of a batch that could not be settled, so that the stream failed.")
	mStaleEvents = define(counter, "ankka_flow_stale_events_total",
		"Events that belonged to something that was over, and changed nothing.")
	mDroppedSeries = define(counter, "ankka_flow_report_series_dropped_total",
		"Numbers reported by the process that are not shown: over 1,000 series, or a name that is shown as another kind.")
	mHeldBytes = define(gauge, "ankka_flow_held_bytes",
		"Bytes of emits held until their batch is acknowledged and written.")
	mCommittedOffset = define(gauge, "ankka_flow_committed_offset",
		"The offset committed for the partition: the next to be read.", "inlet", "partition")
	mEndOffset = define(gauge, "ankka_flow_end_offset",
		"The last stable offset of the partition: behind the last record that can be read.", "inlet", "partition")
	mBatchSeconds = define(histogram, "ankka_flow_batch_seconds",
		"Time from handing a batch to the process to its acknowledgement.", "inlet")
	mWriteSeconds = define(histogram, "ankka_flow_write_seconds",
		"Time from handing a batch's emits to the producer to the broker's last confirmation.", "inlet")
	mDeliverySeconds = define(histogram, "ankka_flow_delivery_seconds",
		"Time from handing a batch to the process to its commit.", "inlet")
	mReady = define(gauge, "ankka_flow_ready",
		"1 while the conversation runs and every inlet is subscribed, otherwise 0.")
	mStartTime = define(gauge, "ankka_flow_start_time_seconds",
		"When this supervisor was started, in seconds since 1970.")
	mBuildInfo = define(gauge, "ankka_flow_build_info",
		"Always 1; the labels say what runs.", "version", "commit", "protocol", "go")
)

// catalog is every metric that there can be, but for those of the process.
var catalog = []*metric{
	mInFlight, mStalled, mLag, mLagMax, mConsumedRate, mSendRate,
	mConsumedRecords, mConsumedBytes, mCommittedRecords, mEmittedRecords, mEmittedBytes,
	mBatchesDelivered, mBatchesAcked, mBatchesCommitted, mBatchesFailed,
	mStreamFailures, mViolations, mStarts, mExits, mConversations, mRebalances,
	mUnknownWrites, mUnsettledWrites, mStaleEvents, mDroppedSeries,
	mHeldBytes, mCommittedOffset, mEndOffset,
	mBatchSeconds, mWriteSeconds, mDeliverySeconds,
	mReady, mStartTime, mBuildInfo,
}

// latencyBuckets go from what a local broker takes to what a batch of a model
// takes, in seconds.
var latencyBuckets = []float64{
	0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 600,
}

func (m *metric) histogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: m.name, Help: m.help, Buckets: latencyBuckets}, m.labels)
}

// of is one value of a counter or a gauge.
func (m *metric) of(value float64, labels ...string) prometheus.Metric {
	kind := prometheus.GaugeValue
	if m.kind == counter {
		kind = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(m.desc, kind, value, labels...)
}

// table is the catalog as the documentation shows it.
func table() string {
	var b strings.Builder
	b.WriteString("| name | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range catalog {
		labels := ""
		for i, l := range m.labels {
			if i > 0 {
				labels += ", "
			}
			labels += "`" + l + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	return b.String()
}
