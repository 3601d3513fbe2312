// Package observe is what people see of a run besides its log: the metrics, the
// status and the probes.
//
// It decides what is counted, what a metric is called and what "ready" and
// "alive" mean for those who ask; it changes nothing. It must not be waited for
// by delivery: what the driver's loop calls (Watch) takes no lock that is held
// while something else is waited for, and does no IO. It shows names, numbers,
// offsets and the texts of failures, never a record's key or value and never a
// setting that may be a secret.
//
// The table of every metric is catalog.go; docs/metrics.md is made of it.
//
// # Goroutines
//
//   - Server's one for its listener and net/http's one a connection. Server.Close
//     ends and awaits them.
//   - Keeper.Run, which the caller starts, ends by its context and awaits; it has
//     one of its own that asks for the ends of partitions, ended and awaited by
//     it.
package observe
