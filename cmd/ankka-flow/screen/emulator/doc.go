// Package emulator is a small terminal, for tests of what a person sees: it takes
// the bytes that a program writes and has the rows that would be shown. It knows what
// this program writes and panics at every other sequence. It has no goroutine.
package emulator
