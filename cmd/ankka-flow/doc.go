// Command ankka-flow runs a streamlet: a program in any language that takes
// records from Kafka topics and puts records on others.
//
// This package is the only place that knows every other one. It decides what
// the flags and the environment mean, which broker is meant, and which exit
// code an error gets; what runs is put together in run.go.
//
// stdout carries data only; everything else goes to stderr. It must not decide what is
// delivered, written or committed, and no package below it may exit the program.
//
// # Goroutines
//
//   - The signal watcher of run (signals.go), ended by its context and awaited
//     by the command; as process 1 also the one that takes orphans' statuses.
//   - The file watcher of run --watch (watch.go), likewise.
//   - The listener of run --attach (attach.go), ended and awaited by its Close.
//   - The live line of run (live.go), likewise.
//   - The end watcher of run --until-end (untilend.go), likewise.
//   - The signal watcher of produce (interrupts.go), ended and awaited by its
//     stop; and its reader (input.go), which ends with the input or else with
//     the process.
//   - One for each partition that consume follows (consume.go), ended by their
//     context and awaited by follow.
//   - The one that passes a stop on (signals.go), ended by the driver taking it or by
//     run's context.
//   - The keeper of the probes (observing.go), ended and awaited by
//     observing.close, as are the server's.
package main
