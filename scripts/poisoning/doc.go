// Command poisoning is what scripts/poison builds and runs. One streamlet runs
// beside itself several times, on one broker in this process and on the same
// records: once clean, and once for each kind of poison, where three records of
// the 20 partitions fail for ever.
//
// It judges by what the program shows to people (its log, /status.json), by the
// commits that reach the broker, and at the end by the logs, with package checker.
// It imports nothing of the program: that runs as people run it.
//
// Throughput is what is committed of the 17 partitions without poison, in the same
// time of the same machine, beside the clean run's. The load saturates: every
// partition always has more records than are handled, and a record takes a fixed
// time of which nothing can be made up later.
//
// Goroutines: the writer, started by bench.run and awaited there; each supervisor
// has a reader of its log, which ends with it and is awaited by whoever ends it;
// the broker's are its own, ended by bench.close.
package main
