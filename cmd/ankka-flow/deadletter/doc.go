// Package deadletter decides about dead letters: what the headers of one say, which are
// meant by a redrive, which were redriven before, where each goes and with what headers.
// It reads those that ankka-flow's SDKs write and those of Kafka Connect.
//
// It is pure: records and offsets in, answers out. It must not touch brokers, clocks or
// files, and starts no goroutine.
package deadletter
