// Package conformance asks a process whether it keeps to the protocol: named cases, each a
// short conversation over the supervisor's own pipes, without a broker. The process has to be
// the reference streamlet, which REFERENCE.md describes; wire/PROTOCOL.md is what it is held to.
//
// It decides whether what came is what the page asks for (judge, and the cases), and what a
// failure looks like (Failure, Report). It must not decide what a message may look like: that
// is wire's, and a process that breaks it is shown wire's own text. It knows nothing of Kafka
// and launches nothing but the command it is given.
//
// Every case gets a process of its own, which is killed with its group when the case is over:
// a case costs a launch, and none can spoil another. Cases wait for the thing itself. Only what
// must not come is waited for by time (quiet): a slow machine makes such a case miss a fault,
// never find one that is not there.
//
// # The order of reading
//
// Start at cases_run.go: a case reads as what is said and what has to come back. talk.go is the
// conversation that the cases are written in, judge.go the state table of the page, which
// every message of every case goes through; pack.go makes the frames that no encoder of ours
// would write.
//
// # Goroutines
//
//	goroutine                started by  ended by                     awaited by
//	a worker                 Suite.Run   no more cases, or ctx        Suite.Run
//	those of the supervisor  launch      the end of the process, by   talk.end, which receives
//	                                     Kill at the latest           until Events is closed
package conformance
