// Package recordline is a record as a line of JSON: what `consume` prints and
// what `produce` and `run --input` read, so that the one feeds the other byte
// for byte.
//
// It is pure: text in, records out, and the other way round. It starts no goroutine
// and touches neither files nor brokers.
package recordline
