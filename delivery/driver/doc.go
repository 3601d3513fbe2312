// Package driver is the loop around the delivery core: it turns what the
// process and the broker say into events, and carries out the actions that the
// core answers with.
//
// It decides nothing about delivery. What it knows besides is where bytes are:
// the records of a batch from its Deliver to the last word about it, and the
// emits that are held for it. It must not reorder actions, wait for anything in
// the loop, or call the core from anywhere else; the one exception to both is awaken,
// after a time in which the whole program did not run.
//
// # Goroutines
//
//   - The loop: the caller of Run. It owns the core, every batch and the
//     process. It ends with the core's Exit action, or with ctx.
//   - One preparation at a time (Broker.Prepare), for the plan of a discovery.
//     It is ended by its context when another plan replaces it, whose own then
//     waits for that end, or when the loop ends; and awaited by Run.
//   - One for each Inlet that is left (Inlet.Leave), bounded by
//     Config.LeaveTimeout, awaited by Run.
//
// The goroutines of the process, of the inlets and of the producer are their
// packages'; Run closes all three before it returns, but for a process that
// outlives its SIGKILL by Config.LeaveTimeout.
//
// # Memory
//
// Records alias what was fetched, and emits the frame they came in. A batch's
// lists of records and a sent frame's bytes are used again: the first after the
// core's Drop or the last answer to the Write, the second when the process has
// given it back. A bounded number of each, of bounded size, is kept spare.
package driver
