// Package driver is the loop around the delivery core: it turns what the
// process and the broker say into events, and carries out the actions that the
// core answers with.
//
// It decides nothing about delivery. What it knows besides is where bytes are:
// the records of a batch from its Deliver to the last word about it, and the
// emits that are held for it. It must not reorder actions, wait for anything in
// the loop, or call the core from anywhere else.
//
// # Goroutines
//
//   - The loop: the caller of Run. It owns the core, every batch and the
//     process. It ends with the core's Exit action, or with ctx.
//   - One preparation at a time (Broker.Prepare), for the plan of a discovery.
//     It is ended by its context when another plan replaces it or the loop
//     ends, and awaited by Run.
//   - One for each Inlet that is left (Inlet.Leave), bounded by
//     Config.LeaveTimeout, awaited by Run.
//
// The goroutines of the process, of the inlets and of the producer are their
// packages'; Run closes all three before it returns.
package driver
