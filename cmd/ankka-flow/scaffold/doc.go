// Package scaffold has what a new streamlet begins with: a streamlet, its test, records
// to run it with, and what packs it, with a copy of the Python SDK beside them, so that
// it runs with nothing but Python.
//
// It decides what is written and under which names. It must not run anything, and has
// no goroutine.
package scaffold
