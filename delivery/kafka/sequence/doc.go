// Package sequence decides how records are written by an idempotent producer
// (R1, R2, R9): which batch is sent when and with which sequence, what a
// broker's answer means for it, and when a producer epoch is raised. It owns
// the sequences, the epoch and the windows of requests in flight of one
// producer id, over all output partitions.
//
// Machine.Step takes what happened and appends what to do. It is pure: no
// goroutine, no clock, no IO. The driver (producer.go of delivery/kafka) holds
// the records, makes the bytes, and sends them.
//
// # Units
//
// A write is what one inlet batch emits; it is confirmed as a whole. It is cut
// by output partition into pieces, and what waits for the same output
// partition is put together into batches: a batch is one Kafka record batch,
// one request's share for that partition. Spans say which records of which
// pieces a batch holds.
//
// # Guarantees
//
//  1. A write is answered by Written only when every record of it is confirmed
//     by acks=all (R1).
//  2. The pieces of an output partition are appended in the order they were
//     added, across writes (R2).
//  3. Bytes that may have been appended are sent again identical or not at all,
//     and their sequences serve no other bytes in the same epoch (R9).
//  4. While a batch is unknown, nothing that was not sent before is sent to its
//     output partition.
//  5. After Unsettled nothing new is sent until the epoch was raised; in the new
//     one every sequence restarts at 0, and a partition takes one request at a
//     time until it has confirmed one, which is what shuts the old bytes out.
//  6. Equal events give equal actions.
//
// # What an answer means
//
// The table of what a broker's answer to a write means is judge.go,
// row by row; the tests are named for the rows. Beyond the table: 32
// (INVALID_TIMESTAMP) is split like 87, so that only the inlet partition whose
// record it is gets accused; -1 (UNKNOWN_SERVER_ERROR) counts as unknown, since
// a broker also says it when it failed after appending; and after any fault an
// output partition goes back to one request at a time until the next
// confirmation, because a broker that lost the producer's state (a topic made
// again) takes any first sequence.
package sequence
