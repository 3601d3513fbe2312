// Command soaking is the soak that scripts/soak builds and runs: several
// supervisors with streamlets that forward, fan out and fail, on three real
// brokers, keyed records all the while, and a fault every few seconds that the
// seed chooses. Then package checker judges by the logs alone.
//
// It decides nothing about delivery and imports nothing of the program: that
// runs as people run it.
//
// Goroutines: the writer, and two lanes of faults, one for supervisors and one
// for brokers, started by soak.harass and awaited there; a fault that
// lasts has one of its own, awaited by its lane; each supervisor has a reader
// of its log, which ends with it and is awaited by whoever ends it.
package main
