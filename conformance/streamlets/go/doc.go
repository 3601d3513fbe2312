// Command go is the reference streamlet of the conformance suite in Go, written from
// wire/PROTOCOL.md with a msgpack library and nothing of this project's: what an author in
// another language has to write.
//
// It decides what a record's key asks for (words.go, REFERENCE.md) and when what is said
// (process.go). It must not import the wire package: it is there to be a second opinion.
//
// # Goroutines
//
//	goroutine         started by  ended by                    awaited by
//	outbox.write      main        the end of the process      nobody; drain waits until it has
//	                                                          written what is queued
//	handle, a batch   receive     its handler; the end of     nobody: the end of the input
//	                              the process                 ends the process under it
package main
