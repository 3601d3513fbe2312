// Package logevents is the table of every event that the program logs: its
// name, levels, attributes and meaning. docs/logs.md is made of it, and its test
// reads the sources, so that no line is logged that the table does not have.
//
// It decides the words that stand in the log and touches nothing: the packages
// that log do not import it. It has no goroutine.
package logevents
