// Package record is a Kafka record in memory: the one type that the protocol
// (wire), the record batches (delivery/kafka/recordbatch) and the driver share,
// so that a record's bytes need not be copied from one shape into another.
//
// It decides nothing, starts no goroutine and touches nothing outside itself.
package record
